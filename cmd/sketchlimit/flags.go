package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
	"github.com/spf13/pflag"
)

// options is what the command line of report asks for; a field at zero was not
// given, given tells those apart for which zero means something.
type options struct {
	trace    string
	log      accesslog.Options // how to read the trace
	speed    float64
	workload string

	limit      int
	window     time.Duration
	algorithm  sketchlimit.Algorithm
	subWindows int
	burst      int

	memory int
	keys   int
	rate   float64

	budget bool

	seed uint64
	json bool
	html string

	given func(flag string) bool
}

const (
	maxWindow = 640_000 * time.Hour
	maxSized  = 1e8 // keys that a limiter is sized for
)

// register declares the flags. Every text ends with an example.
func (o *options) register(f *pflag.FlagSet) {
	o.given = f.Changed
	f.SortFlags = false

	f.Var(parsed(&o.trace, "", parseText), "trace", "replay the requests in the log `FILE`, which is read as whatif does, or from standard input if -"+
		"\ne.g. --trace access.log.gz")
	registerLog(f, &o.log)
	f.Var(parsed(&o.speed, "1", number(1e-6, 1e9)), "speed", "replay the trace so many `TIMES` as fast (default 1)"+
		"\ne.g. --speed 4")
	f.Var(parsed(&o.workload, "", parseText), "workload", "replay made-up traffic, `KIND`[:parameter][,field=value…] as above"+
		"\ne.g. --workload zipf:1.0,keys=1e6,requests=2e6")

	f.BoolVar(&o.budget, "budget", false, "compare ways to limit requests whose cost shows only when they end; a trace has the blocks of prompts "+
		"then, --workload made-up answers, alone or to a trace's prompts"+
		"\ne.g. --budget --workload lognormal:1,cap=1000")

	f.Var(parsed(&o.limit, "", count(1, math.MaxInt32)), "limit", "`UNITS` per key and window (default 100; 10 for the trace carried along; "+
		"with --budget 20,000, and 200,000 for traces)"+
		"\ne.g. --limit 60")
	f.Var(parsed(&o.window, "", parseWindow), "window", "`SPAN` that the limit is for (default 1m; 10m for the trace carried along, but not with --budget)"+
		"\ne.g. --window 10m")
	f.Var(parsed(&o.algorithm, "sliding", parseAlgorithm), "algorithm", "`NAME` of the rule: sliding (default) or fixed window, or token bucket"+
		"\ne.g. --algorithm bucket")
	f.Var(parsed(&o.subWindows, "1", count(1, maxParts)), "sub-windows", "cut a sliding window into so `MANY` parts, for a sharper edge (default 1)"+
		"\ne.g. --sub-windows 6")
	f.Var(parsed(&o.burst, "", count(1, math.MaxInt32)), "burst", "`UNITS` in a full token bucket (default: as many as --limit)"+
		"\ne.g. --burst 20")

	f.Var(parsed(&o.memory, "", parseMemory(minMemory, maxReplayed, "256KiB")), "memory", "`SIZE` of the limiter, everything included (default: what --keys need; "+
		"64KiB for the trace carried along)"+
		"\ne.g. --memory 2MiB")
	f.Var(parsed(&o.keys, "", count(1, maxSized)), "keys", "size the limiter for so `MANY` distinct keys in a window (default: as many "+
		"as the fullest window of the stream has)"+
		"\ne.g. --keys 1e6")
	f.Var(parsed(&o.rate, "", parseRate), "false-denial-rate", "size the limiter so that no more than this `SHARE` of the requests of "+
		"light keys is denied wrongly (default 1e-5)"+
		"\ne.g. --false-denial-rate 1e-6")

	f.Var(parsed(&o.seed, "1", parseSeed), "seed", "`NUMBER` that hashes and made-up traffic follow from; 0 draws one (default 1)"+
		"\ne.g. --seed 7")
	f.BoolVar(&o.json, "json", false, "print one JSON object instead of tables: source, config, replay, sweep, "+
		"ablation, algorithms; with --budget source, config, costs, budget"+
		"\ne.g. --json | jq .replay.false_denial_rate")
	f.Var(parsed(&o.html, "", parseText), "html", "also write a page with tables and plots to `FILE`, which needs no other"+
		"\ne.g. --html report.html")
}

// check refuses flags that contradict each other.
func (o *options) check() error {
	both := func(a, b string) bool { return o.given(a) && o.given(b) }
	if err := checkLog(o.given, &o.log); err != nil {
		return err
	}
	if o.budget {
		if err := o.checkBudget(); err != nil {
			return err
		}
	}
	switch {
	case both("trace", "workload") && !o.budget:
		return errors.New("--trace with --workload, only one of them may be given")
	case both("speed", "workload") && !o.recorded():
		return fmt.Errorf("--speed %g, goes with a trace, not with --workload", o.speed)
	case both("memory", "keys"):
		return errors.New("--memory with --keys, only one of them may be given")
	case both("memory", "false-denial-rate"):
		return errors.New("--memory with --false-denial-rate, only one of them may be given")
	case o.subWindows > 1 && o.algorithm != sketchlimit.SlidingWindow:
		return fmt.Errorf("--sub-windows %d, goes with --algorithm sliding only", o.subWindows)
	case o.burst > 0 && o.algorithm != sketchlimit.TokenBucket:
		return fmt.Errorf("--burst %d, goes with --algorithm bucket only", o.burst)
	}
	return o.tryLimiter()
}

// tryLimiter finds what only the library knows to be wrong, before a long replay
// does. Where the size is not known yet, any will do.
func (o *options) tryLimiter() error {
	c := o.config()
	c.Keys, c.FalseDenialRate = 0, 0
	if c.MemoryBytes == 0 {
		c.MemoryBytes = maxReplayed
	}
	_, _, err := c.Size()
	return inFlags(err)
}

// config is the limiter asked for, as far as that is known without the stream.
func (o *options) config() sketchlimit.Config {
	return sketchlimit.Config{
		Limit: o.limit, Window: o.window, Algorithm: o.algorithm, SubWindows: o.subWindows, Burst: o.burst,
		MemoryBytes: o.memory, Keys: o.keys, FalseDenialRate: o.rate, Seed: o.seed,
	}
}

// inFlags says what is wrong with a limiter's Config, or a Goal or Traffic, in the
// words of the command line.
func inFlags(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "sketchlimit: "), "tune: ")
	return errors.New(configFields.ReplaceAllStringFunc(text, func(field string) string {
		return flagOf[field[strings.LastIndex(field, ".")+1:]]
	}))
}

var flagOf = map[string]string{
	"Limit": "--limit", "LowestLimit": "--lowest-limit", "Window": "--window", "SubWindows": "--sub-windows", "Algorithm": "--algorithm", "Burst": "--burst",
	"MemoryBytes": "--memory", "Keys": "--keys", "FalseDenialRate": "--false-denial-rate",
	"LostShare": "--lost-share", "Requests": "--requests", "Exponent": "--zipf", "Abusers": "--abusers",
	"Excess": "--excess", "OneHit": "--one-hit", "Sample": "--trace",
}

var configFields = regexp.MustCompile(`\b((Goal|Traffic)\.)?(Limit|LowestLimit|Window|SubWindows|Algorithm|Burst|MemoryBytes|Keys|FalseDenialRate|` +
	`LostShare|Requests|Exponent|Abusers|Excess|OneHit|Sample)\b`)

// value is a flag that checks its text. Its error says what is allowed; flag and
// value are named by flagError.
type value[T any] struct {
	to    *T
	text  string
	parse func(string) (T, error)
}

// parsed is a flag that sets to. otherwise is its default as text, or "" if to
// stays as it is; help texts name it themselves.
func parsed[T any](to *T, otherwise string, parse func(string) (T, error)) *value[T] {
	if otherwise != "" {
		t, err := parse(otherwise)
		if err != nil {
			panic(err)
		}
		*to = t
	}
	return &value[T]{to: to, parse: parse}
}

func (v *value[T]) String() string { return v.text }
func (v *value[T]) Type() string   { return "value" }

func (v *value[T]) Set(text string) error {
	t, err := v.parse(text)
	if err == nil {
		*v.to, v.text = t, text
	}
	return err
}

func parseText(text string) (string, error) {
	if text == "" {
		return "", errors.New("must not be empty")
	}
	return text, nil
}

// registerLog declares the flags that say how a log is read.
func registerLog(f *pflag.FlagSet, o *accesslog.Options) {
	f.Var(parsed(&o.Format, "auto", accesslog.ParseFormat), "format", "`FORMAT` of the log, a name or a pattern of nginx or Apache (default auto: the one "+
		"that reads most of a file's first lines)\ne.g. --format '$remote_addr [$time_local] \"$request\" $status'")
	f.Var(parsed(&o.Key, "", accesslog.ParseKey), "key", "limit by `FIELD`, several by commas; FIELD/64 takes IPv6 addresses by prefix, "+
		"FIELD/24/48 both kinds (default: a field named key, or else ip/64)\ne.g. --key user,path")
	f.Var(parsed(&o.Time, "", parseText), "time", "`FIELD` of the time (default: the first of the usual names that holds one)\ne.g. --time ts")
	f.Var(parsed(&o.Cost, "", parseText), "cost", "`FIELD` of the units of a request, rounded up, at least 1 (default: a field named cost, "+
		"or else 1 each)\ne.g. --cost bytes")
}

// checkLog refuses flags of a log where there is none.
func checkLog(given func(flag string) bool, o *accesslog.Options) error {
	for _, f := range []struct{ flag, value string }{{"format", string(o.Format)}, {"key", o.Key}, {"time", o.Time}, {"cost", o.Cost}} {
		if given(f.flag) && !given("trace") {
			return fmt.Errorf("--%s %s, goes with --trace only", f.flag, shown(f.value))
		}
	}
	return nil
}

func parseAlgorithm(text string) (sketchlimit.Algorithm, error) {
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		if text == a.String() {
			return a, nil
		}
	}
	return 0, errors.New("must be sliding, fixed or bucket")
}

var parseWindow = parseSpan(time.Millisecond, maxWindow)

func parseSpan(least, most time.Duration) func(string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > most {
			return 0, fmt.Errorf("must be a duration %v … %gh such as 30s or 10m", least, most.Hours())
		}
		return d, nil
	}
}

func parseMemory(least, most int, such string) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := humanize.ParseBytes(text)
		if err != nil || n < uint64(least) || n > uint64(most) {
			return 0, fmt.Errorf("must be a size of %s … %s such as %s", bytesText(least), bytesText(most), such)
		}
		return int(n), nil
	}
}

func parseRate(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v < 1) { // NaN fails
		return 0, errors.New("must be a number above 0 and below 1 such as 1e-5")
	}
	return v, nil
}

func parseSeed(text string) (uint64, error) {
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, errors.New("must be a whole number 0 … 1<<64-1")
	}
	return v, nil
}

// count parses a whole number, which may be written as 1e6.
func count(lo, hi float64) func(string) (int, error) {
	hi = min(hi, math.MaxInt) // which may have 32 bits
	return func(text string) (int, error) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != math.Trunc(v) || v < lo || v > hi {
			return 0, fmt.Errorf("must be a whole number %s … %s", humanize.Comma(int64(lo)), humanize.Comma(int64(hi)))
		}
		return int(v), nil
	}
}

func number(lo, hi float64) func(string) (float64, error) {
	return func(text string) (float64, error) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= lo && v <= hi) { // NaN fails
			return 0, fmt.Errorf("must be a number %g … %g", lo, hi)
		}
		return v, nil
	}
}
