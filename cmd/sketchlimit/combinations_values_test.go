package main

// values are what a flag may be given, apart by spaces: of the kind that users give, at
// and beyond the edge of what is allowed, and wrong. Files that a test has written go
// by their names in capitals.
type values struct{ usual, extreme, wrong string }

var (
	limits   = values{"1 5 10 60 100 1000 1e6", "2147483647 2 3", "0 -1 1e400 NaN 1.5"}
	spans    = values{"1s 1m 10m 1h", "1ms 24h 640000h 1000003us", "0s -1m 8766000h 10 NaN"}
	parts    = values{"1 2 6 10", "60 7", "0 61 1e6 x"}
	sizes    = values{"16KiB 64KiB 1MiB 8MiB", "4KiB 64MiB 1GiB", "1 1TB -5 lots"}
	shareOf  = values{"1e-3 1e-5 1e-6", "1e-12 0.5 0.49", "0 1 -1 NaN 1e-400"}
	rule     = values{"sliding fixed bucket", "", "token"}
	switches = values{"true", "false", "maybe"}
	traces   = values{"TRACE LOG", "- MILLIS", "FOLDER EMPTY MISSING CSV"}

	logFormats = values{"auto tsv common combined csv", "json envoy w3c words $msec|$remote_addr", "xml"}
	logKeys    = values{"key ip ip/24/48", "ip/32 ip/0/0", "ip/33/200 ,"}
	logTimes   = values{"time", "", "when"}
	logCosts   = values{"cost bytes", "", "weight"}

	pages = values{"", "PAGE", "FOLDER"}
)

// drawn are the values of every flag of every command.
var drawn = map[string]map[string]values{
	"tune": {
		"keys":              {"1000 20000 1e6 5e6", "1 2 1e8 2147483647", "0 -1 1e400"},
		"requests":          {"5e6 2e7", "1 5 9007199254740992 1e12", "0 1e17"},
		"zipf":              {"0.8 1 1.1", "0 10 3", "-1 11 NaN"},
		"abusers":           {"0.01 0.001", "1 0.5 1e-9", "2 NaN"},
		"excess":            {"3 10", "1e-6 1e6", "0 1e7"},
		"one-hit":           {"0.2 0.9", "0.999999 1e-9", "1 -0.1"},
		"even":              switches,
		"steady":            switches,
		"trace":             traces,
		"format":            logFormats,
		"key":               logKeys,
		"time":              logTimes,
		"cost":              logCosts,
		"limit":             limits,
		"lowest-limit":      limits,
		"window":            spans,
		"algorithm":         rule,
		"sub-windows":       parts,
		"burst":             limits,
		"false-denial-rate": shareOf,
		"lost-share":        shareOf,
		"memory":            sizes,
		"headroom":          {"1 1.5 2 4", "1000", "0.5 1001"},
		"verify":            {"", "true", ""},
		"json":              switches,
		"html":              pages,
	},
	"report": {
		"trace":  traces,
		"format": logFormats,
		"key":    logKeys,
		"time":   logTimes,
		"cost":   logCosts,
		"speed":  {"1 4", "1e-6 1e9", "0 NaN"},
		"workload": {
			"zipf:1.0,keys=20000,requests=1e5 uniform,keys=1000,requests=50000 attack:3,keys=5000,abusers=50,limit=10 " +
				"scan:0.9,requests=1e5 flash:5,keys=5000,requests=1e5 lognormal:1,cap=1000,requests=2e4 " +
				"pareto:1.2,cap=1000,most=16000,requests=2e4",
			"zipf:10,keys=1e6,requests=1e5 uniform,keys=1e6,requests=2e6 scan:1,keys=1,requests=1e6 " +
				"uniform,keys=1,requests=1,windows=1e6,window=8760h uniform,requests=1e5,cost=1e6 uniform,requests=1e5,window=1ms " +
				"attack:1e6,keys=100,abusers=1,limit=2147483647 lognormal:10,keys=1e6,requests=1e6,cap=1e9",
			"uniform,requests=1e12 zipf,keys=1e8 walk zipf:-1 uniform,keys lognormal:1,requests=1e9",
		},
		"budget":            {"true", "", "maybe"},
		"limit":             limits,
		"window":            spans,
		"algorithm":         rule,
		"sub-windows":       parts,
		"burst":             limits,
		"memory":            sizes,
		"keys":              {"1000 1e5 1e6", "1 1e7 1e8", "0 -1 1e400"},
		"false-denial-rate": {"1e-3 1e-5", "0.999 1e-12 1e-300", "0 1 NaN"},
		"seed":              {"7 0", "18446744073709551615", "-1"},
		"json":              switches,
		"html":              pages,
	},
	"check": {},
	"whatif": {
		"format":  logFormats,
		"key":     logKeys,
		"time":    logTimes,
		"cost":    logCosts,
		"windows": {"1m 1s,10m 1h,10s,1m", "1ms 24h,1ms", "0s 1m,1m x"},
		"limits":  {"10 60,100 1,2,5", "1073741824 1", "0 -1 NaN 5,5"},
		"exact":   switches,
		"memory":  {"8MiB 64MiB", "512MiB", "1 1TB lots"},
		"sample":  {"100 1e5", "16 16777216", "1 -5"},
		"rules":   {"", "RULES", "FOLDER MISSING"},
		"against": {"", "RULES", "EMPTY"},
		"json":    switches,
		"html":    pages,
	},
}
