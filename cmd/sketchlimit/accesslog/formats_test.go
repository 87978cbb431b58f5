package accesslog

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// read returns the requests of some files as text: seconds of the minute, key, cost.
func read(t *testing.T, o Options, paths ...string) (*Log, []string) {
	t.Helper()
	l, err := Open(paths, nil, o)
	require.NoError(t, err)
	return l, requests(t, l)
}

func requests(t *testing.T, l *Log) (all []string) {
	t.Helper()
	require.NoError(t, l.Read(context.Background(), func(b Batch) error {
		for _, r := range b.Requests {
			all = append(all, fmt.Sprintf("%s %s %d", time.Unix(0, r.At).UTC().Format("15:04:05.999"), r.Key, r.Cost))
		}
		return nil
	}))
	return all
}

// TestFormats reads a log of each format, which is found by itself.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		file    string
		options Options
		format  Format
		key     string
		want    []string
		skipped map[string]int
	}{
		{"common.log", Options{}, Common, "remote_addr, IPv6 by /64", []string{
			"07:00:00 192.0.2.7 1", "07:00:01 192.0.2.8 1", "07:00:02 host.example 1", "07:00:03 2001:db8::/64 1",
		}, nil},
		{"common.log", Options{Key: "user,status", Cost: "bytes"}, Common, "user, status", []string{
			"07:00:01 ann lee,404 1"}, map[string]int{"no user": 3}},
		{"common.log", Options{Key: "path"}, Common, "path", []string{
			"07:00:00 / 1", "07:00:01 /a b 1", `07:00:02 /say?"hi" 1`}, map[string]int{"no path": 1}},
		{"combined.log", Options{Cost: "bytes"}, Combined, "remote_addr, IPv6 by /64", []string{
			"07:00:00 192.0.2.7 512", "07:00:01 192.0.2.8 1", "07:00:02 2001:db8:1:2::/64 9"}, nil},
		{"combined.log", Options{Key: "ip/24/48"}, Combined, "remote_addr, IPv4 by /24 and IPv6 by /48", []string{
			"07:00:00 192.0.2.0/24 1", "07:00:01 192.0.2.0/24 1", "07:00:02 2001:db8:1::/48 1"}, nil},
		{"combined.log", Options{Key: "user_agent"}, Combined, "user_agent", []string{
			"07:00:00 Mozilla/5.0 (X11) 1", `07:00:01 says \"hi\" twice 1`, "07:00:02 curl/8.9 1"}, nil},
		{"combined.log", Options{Key: "x_forwarded_for/24"}, Combined, "x_forwarded_for, IPv4 by /24", []string{
			"07:00:02 203.0.113.0/24 1"}, map[string]int{"no x_forwarded_for": 2}},
		{"envoy.log", Options{}, Envoy, "x_forwarded_for, IPv6 by /64", []string{
			"07:00:00.25 192.0.2.7 1", "07:00:00.75 192.0.2.8 1"}, map[string]int{"no x_forwarded_for": 1}},
		{"envoy.log", Options{Key: "authority,path", Cost: "bytes"}, Envoy, "authority, path", []string{
			"07:00:00.25 api.example,/v1/items 512"}, map[string]int{"no authority": 2}},
		{"nested.json", Options{Cost: "bytes"}, JSON, "request.remote_ip, IPv6 by /64", []string{
			"07:00:00.25 192.0.2.7 512", "07:00:01 192.0.2.8 1"}, map[string]int{"no request.remote_ip": 1}},
		{"nested.json", Options{Key: "path"}, JSON, "request.uri", []string{
			"07:00:00.25 /a 1", `07:00:01 /bé" 1`, "07:00:02.5 /c 1"}, nil},
		{"named.csv", Options{Cost: "bytes"}, CSV, "client_ip, IPv6 by /64", []string{
			"07:00:00.25 192.0.2.7 512", "07:00:01 2001:db8:1:2::/64 2", "07:00:02 192.0.2.9 1"}, nil},
		{"named.csv", Options{Key: "user id,path"}, CSV, "user id, path", []string{
			`07:00:00.25 ann "a",/a 1`, "07:00:01 bob,/b;c 1"}, map[string]int{"no user id": 1}},
		{"keys.tsv", Options{}, TSV, "key", []string{
			"07:00:00.25 ann 3", "07:00:01 bob smith 1"}, map[string]int{badCost: 1}},
	} {
		l, got := read(t, c.options, filepath.Join("testdata", c.file))
		f := l.Files[0]
		assert.Equal(t, c.want, got, "%s %+v", c.file, c.options)
		assert.Equal(t, c.format, f.Format, c.file)
		assert.Equal(t, c.key, f.Key, c.file)
		assert.Equal(t, c.skipped, f.Skipped, c.file)
		assert.Len(t, got, f.Requests)

		c.options.Format = c.format
		_, named := read(t, c.options, filepath.Join("testdata", c.file))
		assert.Equal(t, got, named, "the format named")
	}
}

// TestOthers: fields are handed out with each request; addresses without port, and nil
// where a line has none.
func TestOthers(t *testing.T) {
	l, err := Open([]string{"testdata/named.csv"}, nil, Options{Others: []string{"client", "none", "user id"}})
	require.NoError(t, err)
	var all []string
	require.NoError(t, l.Read(t.Context(), func(b Batch) error {
		for _, v := range b.Others {
			all = append(all, fmt.Sprintf("%s %t", v, v == nil))
		}
		return nil
	}))
	assert.Equal(t, []string{"192.0.2.7 false", " true", `ann "a" false`, "2001:db8:1:2::1 false", " true", "bob false",
		"192.0.2.9 false", " true", " true"}, all)
	_, ok := l.Lacking("path")
	assert.True(t, ok)
	file, ok := l.Lacking("none")
	assert.False(t, ok)
	assert.Equal(t, "testdata/named.csv", file)
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"0":                               "1970-01-01T00:00:00Z",
		"1794294000":                      "2026-11-10T07:00:00Z",
		"1794294000.123456789123":         "2026-11-10T07:00:00.123456789Z",
		"1.7942940005e9":                  "2026-11-10T07:00:00.5Z",
		"17942940005E-1":                  "2026-11-10T07:00:00.5Z",
		"1.79429400025e12":                "2026-11-10T07:00:00.25Z",
		"1.794294000123456e+15":           "2026-11-10T07:00:00.123456Z",
		"1.794294000123456789e18":         "2026-11-10T07:00:00.123456789Z",
		"50e-1":                           "1970-01-01T00:00:05Z",
		"1.7e-300":                        "",
		"1e99999999999999999999":          "",
		"1e":                              "",
		"e9":                              "",
		".e9":                             "",
		"-1e9":                            "",
		"1.7e9e1":                         "",
		"1..7e9":                          "",
		"1794294000250":                   "2026-11-10T07:00:00.25Z",
		"1794294000250.5":                 "2026-11-10T07:00:00.2505Z",
		"1794294000250001":                "2026-11-10T07:00:00.250001Z",
		"1794294000250000001":             "2026-11-10T07:00:00.250000001Z",
		"2026-11-10T07:00:00Z":            "2026-11-10T07:00:00Z",
		"2026-11-10 07:00:00":             "2026-11-10T07:00:00Z",
		"2026-11-10T08:30:00.5+01:30":     "2026-11-10T07:00:00.5Z",
		"2026-11-10 08:00:00,25 +0100":    "2026-11-10T07:00:00.25Z",
		"10/Nov/2026:08:00:00 +0100":      "2026-11-10T07:00:00Z",
		"31/Dec/2016:23:59:60 +0000":      "2017-01-01T00:00:00Z", // leap second
		"":                                "",
		"-1":                              "",
		"now":                             "",
		"9223372037":                      "",
		"99999999999999999999":            "",
		"1.2.3":                           "",
		"1e300":                           "",
		"NaN":                             "",
		"31/Jun/2026:08:00:00 +0100":      "",
		"10/anF/2026:08:00:00 +0100":      "",
		"10/Nov/2026:24:00:00 +0100":      "",
		"10/Nov/2026:08:00:00 00100":      "",
		"2026-13-10T07:00:00Z":            "",
		"2026-11-31T07:00:00Z":            "",
		"2026-11-10T07:00:00+1":           "",
		"2026-11-10x07:00:00Z":            "",
		"1969-12-31T23:59:59Z":            "",
		"2026-11-10T07:00:00Z and more 1": "",
	} {
		ns, ok := parseTime([]byte(text))
		assert.Equal(t, want != "", ok, "%q", text)
		if ok {
			assert.Equal(t, want, time.Unix(0, ns).UTC().Format(time.RFC3339Nano), "%q", text)
		}
	}
}

// TestTimesAgreeWithTheLibrary: what is parsed by hand is what package time says, over
// 3,000 dates.
func TestTimesAgreeWithTheLibrary(t *testing.T) {
	at := time.Date(1995, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3000 {
		local := at.In(time.FixedZone("", (i%27-12)*3600+i%4*900))
		for _, layout := range []string{clfTime, time.RFC3339, "2006-01-02 15:04:05-0700"} {
			ns, ok := parseTime([]byte(local.Format(layout)))
			require.True(t, ok, local.Format(layout))
			require.Equal(t, at.UnixNano(), ns, local.Format(layout))
		}
		at = at.Add(97*time.Hour + 13*time.Minute + 7*time.Second)
	}
}

func TestParseKey(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "must be FIELD, FIELD/BITS or FIELD/BITS/BITS, separated by commas",
		"user,":             "must be FIELD, FIELD/BITS or FIELD/BITS/BITS, separated by commas",
		"a,b,c,d,e,f,g,h,i": "must be at most 8 fields",
	} {
		_, err := ParseKey(text)
		assert.EqualError(t, err, want, text)
	}
	for _, bits := range []string{"0", "x", "", "129", "24/129", "24/0", "0/64", "64/24", "33/64", "24/48/56", "24/48/", "24/", "/24", "+24", "-1", "999"} {
		_, err := ParseKey("ip/" + bits)
		assert.EqualError(t, err, "the bits of ip must be 1 … 128, as in ip/64, or 1 … 32 and 1 … 128, as in ip/24/48", bits)
	}
	key, err := ParseKey("user, ip/24/48")
	require.NoError(t, err)
	assert.Equal(t, "user, ip/24/48", key)
}

// TestBitsOfAKey: of two numbers the first is for IPv4 and the second for IPv6; a
// single one tells by its size.
func TestBitsOfAKey(t *testing.T) {
	for key, want := range map[string][2]int{
		"ip": {32, 128}, "ip/24": {24, 128}, "ip/32": {32, 128}, "ip/33": {32, 33}, "ip/64": {32, 64}, "ip/128": {32, 128},
		"ip/24/48": {24, 48}, "ip/32/32": {32, 32}, "ip/8/16": {8, 16}, "ip/32/128": {32, 128}, "ip/1/1": {1, 1},
	} {
		parts, err := parseKey(key)
		require.NoError(t, err, key)
		assert.Equal(t, want, [2]int{parts[0].V4, parts[0].V6}, key)
	}
	_, got := read(t, Options{Key: "key/32/32"}, write(t, "access.tsv", "1\t2001:db8::1\n2\t192.0.2.1\n"))
	assert.Equal(t, []string{"00:00:01 2001:db8::/32 1", "00:00:02 192.0.2.1 1"}, got)
}

// TestPartsOfAKeyAreToldApart: two requests have the same key only if they have all of
// its fields in common.
func TestPartsOfAKeyAreToldApart(t *testing.T) {
	var b strings.Builder
	values := []string{"x", "y", ",", `"`, `x,y`, `"x`, `x"`, `"x"`, `","`, `"",""`, `x","y`, `,"`, `",`, `""`}
	for _, v := range values {
		for _, w := range values {
			line, err := json.Marshal(map[string]any{"time": 1, "a": v, "b": w})
			require.NoError(t, err)
			fmt.Fprintf(&b, "%s\n", line)
		}
	}
	_, got := read(t, Options{Key: "a,b", Time: "time"}, write(t, "access.json", b.String()))
	require.Len(t, got, len(values)*len(values))
	slices.Sort(got)
	assert.Len(t, slices.Compact(got), len(values)*len(values))

	_, got = read(t, Options{Key: "a,b", Time: "time"}, write(t, "access.json", `{"time":1,"a":"x,y","b":"z"}`+"\n"+`{"time":1,"a":"x","b":"y,z"}`))
	assert.Equal(t, []string{`00:00:01 "x,y",z 1`, `00:00:01 x,"y,z" 1`}, got)
}

// TestHeaderMakesColumnsByTabsCSV: a header that names the time does; lines without one
// stay tsv, whatever their keys are.
func TestHeaderMakesColumnsByTabsCSV(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		options Options
		format  Format
		want    []string
	}{
		"the key second":  {"time\tip\tstatus\n1794294001\t2001:db8::1\t200\n1794294002\t192.0.2.1\t404\n", Options{}, CSV, []string{"07:00:01 2001:db8::/64 1", "07:00:02 192.0.2.1 1"}},
		"the key third":   {"time\tuser\tip\n1794294001\tann\t192.0.2.1\n", Options{}, CSV, []string{"07:00:01 192.0.2.1 1"}},
		"a cost":          {"time\tkey\tcost\n1\tann\t7\n", Options{}, CSV, []string{"00:00:01 ann 7"}},
		"mostly bad":      {"ts\tkey\n1\tann\n2\tbob\t1\n3\tbob\t1\n", Options{}, CSV, []string{"00:00:01 ann 1"}},
		"another name":    {"when\twho\n1\tann\n", Options{Time: "when", Key: "who"}, CSV, []string{"00:00:01 ann 1"}},
		"none":            {"1\tann\t3\n2\tbob\n", Options{}, TSV, []string{"00:00:01 ann 3", "00:00:02 bob 1"}},
		"a key like that": {"1\ttime\n2\t1794294001\n", Options{}, TSV, []string{"00:00:01 time 1", "00:00:02 1794294001 1"}},
		"nothing known":   {"begin\twho\n1\tann\n", Options{}, TSV, []string{"00:00:01 ann 1"}},
	} {
		l, got := read(t, c.options, write(t, "access.log", c.text))
		assert.Equal(t, c.format, l.Files[0].Format, name)
		assert.Equal(t, c.want, got, name)
	}
}

// TestCostsBelowOne: a cost is one unit or more, as in the traces of a report; of bytes
// there may be none.
func TestCostsBelowOne(t *testing.T) {
	for name, c := range map[string]struct {
		text, cost string
		want       []string
		skipped    map[string]int
	}{
		"tsv": {"1\ta\t0\n2\tb\t-1\n3\tc\t0.5\n4\td\t1.5\n5\te\n", "",
			[]string{"00:00:04 d 2", "00:00:05 e 1"}, map[string]int{badCost: 3}},
		"csv": {"time,key,cost\n1,a,0\n2,b,1\n3,c,\n", "",
			[]string{"00:00:02 b 1", "00:00:03 c 1"}, map[string]int{badCost: 1}},
		"of bytes": {"time,key,bytes\n1,a,0\n2,b,-1\n3,c,0.5\n", "bytes",
			[]string{"00:00:01 a 1", "00:00:03 c 1"}, map[string]int{badUnits: 1}},
	} {
		l, got := read(t, Options{Cost: c.cost}, write(t, "access.log", c.text))
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.skipped, l.Files[0].Skipped, name)
	}
}

// TestColumnWithoutAName is none of those that are looked for.
func TestColumnWithoutAName(t *testing.T) {
	_, got := read(t, Options{}, write(t, "access.csv", ",time,key\n7,1,ann\n8,2,bob\n"))
	assert.Equal(t, []string{"00:00:01 ann 1", "00:00:02 bob 1"}, got)
}

func TestSplitHeader(t *testing.T) {
	for header, want := range map[string][]string{
		"a,b":             {"a", "b"},
		` a ,"b, ""c""",`: {"a", `b, "c"`, ""},
		"a":               {"a"},
		`a,"b`:            nil,
		`a,"b"c`:          nil,
	} {
		assert.Equal(t, want, splitHeader([]byte(header), ','), header)
	}
}

// TestArraysInJSON: one value of an array is the field's. Of a list to which proxies
// append it is the last, of others the first.
func TestArraysInJSON(t *testing.T) {
	for name, c := range map[string]struct {
		field, key, line string
		want             string // "": skipped
	}{
		"of one":             {"ip", "", `{"time":1794294001,"ip":["2001:db8::1"]}`, "2001:db8::/64"},
		"a list in one":      {"ip", "", `{"time":1794294001,"ip":["1.1.1.1, 2.2.2.2"]}`, "2.2.2.2"},
		"of several":         {"ip", "", `{"time":1794294001,"ip":["1.1.1.1" , "2.2.2.2"]}`, "1.1.1.1"},
		"proxies":            {"x_forwarded_for", "", `{"time":1794294001,"x_forwarded_for":["1.1.1.1","2.2.2.2, 3.3.3.3"]}`, "3.3.3.3"},
		"a header of Caddy":  {"", "request.headers.X-Forwarded-For/64", `{"time":1794294001,"request":{"headers":{"X-Forwarded-For":["1.1.1.1","2001:db8::9"]}}}`, "2001:db8::/64"},
		"another of Caddy":   {"", "request.headers.Authorization", `{"time":1794294001,"request":{"headers":{"Authorization":["a","b"],"C":["d"]}}}`, "a"},
		"with an escape":     {"user", "user", `{"time":1794294001,"user":["\u0061\"b"]}`, `a"b`},
		"a number":           {"user", "user", `{"time":1794294001,"user":[7,8]}`, "7"},
		"an object":          {"user", "user", `{"time":1794294001,"user":[{"a":[1]},8]}`, `{"a":[1]}`},
		"of nothing":         {"user", "user", `{"time":1794294001,"user":[]}`, ""},
		"of null":            {"user", "user", `{"time":1794294001,"user":[null,"a"]}`, ""},
		"that is not closed": {"user", "user", `{"time":1794294001,"user":["a"`, ""},
		"that is cut":        {"user", "user", `{"time":1794294001,"user":["a",`, ""},
		"a time":             {"user", "user", `{"time":["1794294001"],"user":"a"}`, "a"},
	} {
		text := c.line + "\n" + `{"time":1794294001,"` + c.field + `":"9.9.9.9","request":{"headers":{"X-Forwarded-For":"9.9.9.9","Authorization":"9.9.9.9"}}}`
		l, got := read(t, Options{Key: c.key}, write(t, "access.json", text))
		if c.want == "" {
			assert.Len(t, l.Files[0].Skipped, 1, name)
			assert.Len(t, got, 1, name)
			continue
		}
		assert.Equal(t, []string{"07:00:01 " + c.want + " 1", "07:00:01 9.9.9.9 1"}, got, name)
	}
}

// TestNamesOfNestedFieldsAreBounded: a long name in front of many fields would
// otherwise be kept with each of them.
func TestNamesOfNestedFieldsAreBounded(t *testing.T) {
	line := `{"time":1,"ip":"a","` + strings.Repeat("x", 1<<18) + `":{"a":1` + strings.Repeat(`,"a":1`, 1<<16) + `},"b":{"c":2}}`
	names, _ := jsonSurvey([][]byte{[]byte(line)}, false)
	assert.Equal(t, []string{"b.c", "ip", "time"}, names)
}

// TestLongKeysAreCutAndToldApart: of a key that is too long to be kept its beginning is
// told, and a hash.
func TestLongKeysAreCutAndToldApart(t *testing.T) {
	same := strings.Repeat("é", 200)
	text := "1\t" + same + "a\n2\t" + same + "b\n3\t" + same + "a\n4\t" + strings.Repeat("x", 256) + "\n5\t" + strings.Repeat("\x80", 300) + "\n"
	var keys []string
	l, err := Open([]string{write(t, "access.tsv", text)}, nil, Options{})
	require.NoError(t, err)
	require.NoError(t, l.Read(t.Context(), func(b Batch) error {
		for _, r := range b.Requests {
			keys = append(keys, string(r.Key))
		}
		return nil
	}))
	assert.Regexp(t, "^é{118}…[0-9a-f]{16}$", keys[0])
	assert.Equal(t, keys[0], keys[2])
	assert.NotEqual(t, keys[0], keys[1])
	assert.Regexp(t, "^é{118}…[0-9a-f]{16}$", keys[1])
	assert.Equal(t, strings.Repeat("x", 256), keys[3], "as long as may be")
	assert.Len(t, keys[4], longestKey, "of no characters")
}
