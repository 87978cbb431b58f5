package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
	"github.com/sketchlimit/sketchlimit/tune"
)

// tuning is what the command line of tune asks for.
type tuning struct {
	traffic tune.Traffic
	goal    tune.Goal
	window  time.Duration
	trace   string
	log     accesslog.Options // how to read the trace
	file    *accesslog.File   // the trace; nil without one
	json    bool
	html    string
	replay  bool
	given   func(flag string) bool
}

func newTune() *cobra.Command {
	var t tuning
	c := &cobra.Command{
		Use:   "tune",
		Short: "Choose the dimensions of a limiter, and predict what it gets wrong",
		Long: wrap(`Choose the dimensions of a limiter that reaches a goal for stated traffic in the least memory, or errs `+
			`least in given memory. Print them, what to expect under less and more traffic, and the Go code that makes the limiter.`, ""),
		Example: "  sketchlimit tune --keys 5e6 --limit 100 --window 1m --false-denial-rate 1e-5\n" +
			"  sketchlimit tune --trace access.log.gz --limit 60 --memory 8MiB",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("tune %s, takes flags only; a trace is given as --trace %s", shown(args[0]), shown(args[0]))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return t.tune(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	t.register(c.Flags())
	return c
}

func (t *tuning) register(f *pflag.FlagSet) {
	t.given = f.Changed
	f.SortFlags = false
	r, g := &t.traffic, &t.goal

	f.Var(parsed(&r.Keys, "", count(1, math.MaxInt32)), "keys", "so `MANY` distinct keys in a window (with --trace: as many as its "+
		"fullest window has)\ne.g. --keys 5e6")
	f.Var(parsed(&r.Requests, "", count(1, 1<<53)), "requests", "so `MANY` requests in a window (default: five a key, and those of "+
		"abusers)\ne.g. --requests 2e7")
	f.Var(parsed(&r.Exponent, "", number(0, 10)), "zipf", "`EXPONENT` by which some keys come more often than others (default 0: all alike)"+
		"\ne.g. --zipf 0.8")
	f.Var(parsed(&r.Abusers, "", number(0, 1)), "abusers", "`SHARE` of the keys that send far more than the limit (default 0)"+
		"\ne.g. --abusers 0.01")
	f.Var(parsed(&r.Excess, "", number(1e-6, 1e6)), "excess", "each abuser sends so many `TIMES` the limit (default 3)\ne.g. --excess 5")
	f.Var(parsed(&r.OneHit, "", number(0, 0.999999)), "one-hit", "`SHARE` of the requests that come from further keys, one from each (default 0)"+
		"\ne.g. --one-hit 0.2")
	f.BoolVar(&r.Even, "even", false, "a key's requests are spread over the window "+
		"(default: in bursts, all of a window's within a tenth of it)\ne.g. --even")
	f.BoolVar(&r.Steady, "steady", false, "the same keys send the most in every window "+
		"(default: others in each)\ne.g. --steady")
	f.Var(parsed(&t.trace, "", parseText), "trace", "plan for the requests of the log `FILE`, which is read as whatif does, or of standard input if -, by replaying them\n"+
		"e.g. --trace access.log.gz")
	registerLog(f, &t.log)

	f.Var(parsed(&g.Limit, "100", count(1, math.MaxInt32)), "limit", "`UNITS` per key and window (default 100)\ne.g. --limit 60")
	f.Var(parsed(&g.LowestLimit, "", count(1, math.MaxInt32)), "lowest-limit", "fewest `UNITS` that a request's own limit may be (default: --limit)\ne.g. --lowest-limit 10")
	f.Var(parsed(&t.window, "1m", parseWindow), "window", "`SPAN` that the limit is for (default 1m)\ne.g. --window 10m")
	f.Var(parsed(&g.Algorithm, "sliding", parseAlgorithm), "algorithm", "`NAME` of the rule: sliding (default) or fixed window, or token bucket"+
		"\ne.g. --algorithm bucket")
	f.Var(parsed(&g.SubWindows, "1", count(1, maxParts)), "sub-windows", "cut a sliding window into so `MANY` parts (default 1)\ne.g. --sub-windows 6")
	f.Var(parsed(&g.Burst, "", count(1, math.MaxInt32)), "burst", "`UNITS` in a full token bucket (default: as many as --limit)\ne.g. --burst 20")

	f.Var(parsed(&g.FalseDenialRate, "", number(1e-12, 0.5)), "false-denial-rate", "deny wrongly at most this `SHARE` of the requests of "+
		"light keys (default 1e-5 if no other goal is given)\ne.g. --false-denial-rate 1e-6")
	f.Var(parsed(&g.LostShare, "", number(1e-12, 0.5)), "lost-share", "withhold at most this `SHARE` of what the exact algorithm admits"+
		"\ne.g. --lost-share 1e-4")
	f.Var(parsed(&g.MemoryBytes, "", parseMemory(minMemory, maxMemory, "256KiB")), "memory", "take at most this `SIZE`, or all of it if no other goal is given"+
		"\ne.g. --memory 8MiB")
	f.Var(parsed(&g.Headroom, "", number(1, 1000)), "headroom", "reach the goal up to so many `TIMES` the traffic (default 1; with --trace 1.5)\n"+
		"e.g. --headroom 2")
	f.BoolVar(&t.replay, "verify", false, "also replay the traffic in full size, or the trace, through a limiter of the plan and the exact algorithm "+
		"(some 200 bytes of memory a key)\ne.g. --verify")
	f.BoolVar(&t.json, "json", false, "print one JSON object: plan, forecast, half, double, loads and sizes with --html, verified with --verify"+
		"\ne.g. --json | jq .forecast.BreakingPoint")
	f.Var(parsed(&t.html, "", parseText), "html", "also write a page with tables and plots to `FILE`, which needs no other"+
		"\ne.g. --html plan.html")
}

// defaults puts in what the library would.
func (t *tuning) defaults() {
	if t.goal.LostShare == 0 && t.goal.MemoryBytes == 0 {
		or(&t.goal.FalseDenialRate, 1e-5)
	}
}

func (t *tuning) check(in io.Reader) error {
	if err := checkLog(t.given, &t.log); err != nil {
		return err
	}
	for _, flag := range []string{"requests", "zipf", "abusers", "excess", "one-hit", "even", "steady"} {
		if t.given("trace") && t.given(flag) {
			return fmt.Errorf("--trace with --%s, only one of them may be given", flag)
		}
	}
	if !t.given("trace") && !t.given("keys") {
		return errors.New("--keys: is missing, must be given unless --trace is")
	}
	if t.replay && t.given("trace") && t.given("keys") {
		return errors.New("--verify with --trace and --keys, replays the keys of the trace, no other number of them")
	}
	if err := t.checkRequests(); err != nil {
		return err
	}
	if lowest := t.goal.LowestLimit; lowest > t.goal.Limit {
		return fmt.Errorf("--lowest-limit %d, must be 1 … --limit %d", lowest, t.goal.Limit) // 0 is no value of the flag
	}
	if t.html != "" {
		if err := checkTarget(t.html, in, t.trace); err != nil {
			return failure{err}
		}
	}
	if t.goal.SubWindows > 1 && t.goal.Algorithm != sketchlimit.SlidingWindow {
		return fmt.Errorf("--sub-windows %d, goes with --algorithm sliding only", t.goal.SubWindows)
	}
	if t.goal.Burst > 0 && t.goal.Algorithm != sketchlimit.TokenBucket {
		return fmt.Errorf("--burst %d, goes with --algorithm bucket only", t.goal.Burst)
	}
	c := t.config()
	c.MemoryBytes = maxMemory // any will do: what is checked is the window
	_, _, err := c.Size()
	return inFlags(err)
}

// checkRequests refuses keys of a window that do not come in it.
func (t *tuning) checkRequests() error {
	r, who := t.traffic, "each of the keys in a window sends one"
	or(&r.Excess, 3)
	each := 1.0
	if r.Abusers > 0 {
		each, who = 1-r.Abusers+r.Abusers*max(1, r.Excess*float64(t.goal.Limit)), who+", abusers more"
	}
	least := math.Ceil(float64(r.Keys) * each / (1 - r.OneHit))
	if !t.given("requests") || float64(r.Requests) >= least {
		return nil
	}
	return fmt.Errorf("--requests %s, must be at least %s: %s", integer(r.Requests), humanize.Commaf(least), who)
}

func (t *tuning) config() sketchlimit.Config {
	return sketchlimit.Config{Limit: t.goal.Limit, LowestLimit: t.goal.LowestLimit, Window: t.window, Algorithm: t.goal.Algorithm, SubWindows: t.goal.SubWindows,
		Burst: t.goal.Burst}
}

// tune plans and prints. Everything is printed at the end, so that a run that fails
// leaves nothing half done.
func (t *tuning) tune(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	t.defaults()
	if err := t.check(in); err != nil {
		return err
	}
	var src accuracy.Source
	var err error
	switch {
	case t.given("trace"):
		src, err = t.readTrace(ctx, in, errOut)
	case t.replay:
		src, err = t.workload()
	}
	if err != nil {
		return err
	}
	p, err := t.plan(ctx, errOut)
	if err != nil {
		return err
	}
	if t.replay {
		if err := p.verify(ctx, src, errOut); err != nil {
			return err
		}
	}
	return p.print(out)
}

func (p *plans) print(out io.Writer) error {
	text, err := p.text()
	if err != nil {
		return failure{err}
	}
	if _, err := io.WriteString(out, text); err != nil {
		return failure{err}
	}
	if p.html == "" {
		return nil
	}
	page, err := p.page()
	if err != nil {
		return failure{err}
	}
	return page.write(p.html)
}

func (p *plans) text() (string, error) {
	if p.json {
		text, err := json.MarshalIndent(p, "", "  ")
		return string(text) + "\n", err
	}
	code, err := p.code()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	writeText(&b, p.summary(), p.sections())
	return b.String() + "\n" + code, nil
}

// readTrace takes the trace as the traffic. More or fewer keys than its fullest window
// has may be given: it then stands for them.
func (t *tuning) readTrace(ctx context.Context, in io.Reader, errOut io.Writer) (accuracy.Source, error) {
	o := options{trace: t.trace, log: t.log, speed: 1, given: t.given}
	s, err := o.openTrace(ctx, in, errOut)
	if err != nil {
		return nil, err
	}
	t.file = s.File
	t.traffic.Trace = s.Source.(*accuracy.Trace).Traffic(t.window)
	return s, nil
}
