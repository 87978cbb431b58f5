package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
)

// tuning is what the command line of tune asks for.
type tuning struct {
	traffic sketchlimit.Traffic
	goal    sketchlimit.Goal
	window  time.Duration
	trace   string
	json    bool
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
		RunE: func(c *cobra.Command, _ []string) error {
			return t.tune(c.Context(), c.InOrStdin(), c.OutOrStdout())
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
	f.Var(parsed(&r.OneHit, "", number(0, 1)), "one-hit", "`SHARE` of the requests that come from further keys, one from each (default 0)"+
		"\ne.g. --one-hit 0.2")
	f.Var(parsed(&t.trace, "", parseText), "trace", "take the requests of each key from the fullest window of `FILE`, as report reads it, "+
		"or of standard input if -\ne.g. --trace access.log.gz")

	f.Var(parsed(&g.Limit, "100", count(1, math.MaxInt32)), "limit", "`UNITS` per key and window (default 100)\ne.g. --limit 60")
	f.Var(parsed(&t.window, "1m", parseWindow), "window", "`SPAN` that the limit is for (default 1m)\ne.g. --window 10m")
	f.Var(parsed(&g.Algorithm, "sliding", parseAlgorithm), "algorithm", "`NAME` of the rule: sliding (default) or fixed window"+
		"\ne.g. --algorithm fixed")
	f.Var(parsed(&g.SubWindows, "1", count(1, 60)), "sub-windows", "cut a sliding window into so `MANY` parts (default 1)\ne.g. --sub-windows 6")

	f.Var(parsed(&g.FalseDenialRate, "", number(1e-12, 0.5)), "false-denial-rate", "deny wrongly at most this `SHARE` of the requests of "+
		"innocent keys (default 1e-5 if no other goal is given)\ne.g. --false-denial-rate 1e-6")
	f.Var(parsed(&g.WithheldShare, "", number(1e-12, 0.5)), "withheld-share", "withhold at most this `SHARE` of what the exact algorithm admits"+
		"\ne.g. --withheld-share 1e-4")
	f.Var(parsed(&g.MemoryBytes, "", parseMemory), "memory", "take at most this `SIZE`, or all of it if no other goal is given"+
		"\ne.g. --memory 8MiB")
	f.BoolVar(&t.json, "json", false, "print the plan as one JSON object\ne.g. --json | jq .Forecast.Cliff")
}

func (t *tuning) check() error {
	for _, flag := range []string{"requests", "zipf", "abusers", "excess", "one-hit"} {
		if t.given("trace") && t.given(flag) {
			return fmt.Errorf("--trace with --%s, only one of them may be given", flag)
		}
	}
	if !t.given("trace") && !t.given("keys") {
		return errors.New("--keys: is missing, must be given unless --trace is")
	}
	if t.goal.SubWindows > 1 && t.goal.Algorithm == sketchlimit.FixedWindow {
		return fmt.Errorf("--sub-windows %d, goes with --algorithm sliding only", t.goal.SubWindows)
	}
	c := t.config()
	c.MemoryBytes = maxMemory // any will do: what is checked is the window
	_, err := c.Bytes()
	return inFlags(err)
}

func (t *tuning) config() sketchlimit.Config {
	return sketchlimit.Config{Limit: t.goal.Limit, Window: t.window, Algorithm: t.goal.Algorithm, SubWindows: t.goal.SubWindows}
}

func (t *tuning) tune(ctx context.Context, in io.Reader, out io.Writer) error {
	if t.goal.WithheldShare == 0 && t.goal.MemoryBytes == 0 {
		or(&t.goal.FalseDenialRate, 1e-5)
	}
	if err := t.check(); err != nil {
		return err
	}
	if t.given("trace") {
		if err := t.readTrace(ctx, in); err != nil {
			return err
		}
	}
	plan, err := interruptible(ctx, func() (sketchlimit.Plan, error) { return sketchlimit.Tune(t.traffic, t.goal) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return inFlags(err)
	}
	text, err := t.text(plan)
	if err != nil {
		return failure{err}
	}
	if _, err := io.WriteString(out, text); err != nil {
		return failure{err}
	}
	return nil
}

// readTrace takes the traffic from the fullest window. More or fewer keys than that has
// may be given: the sample then stands for them.
func (t *tuning) readTrace(ctx context.Context, in io.Reader) error {
	o := options{trace: t.trace, format: accuracy.Auto, speed: 1, given: t.given}
	s, err := o.openTrace(ctx, in)
	if err != nil {
		return err
	}
	t.traffic.Sample = fullest(s, t.window)
	or(&t.traffic.Keys, len(t.traffic.Sample))
	return nil
}

// fullest returns the units that each key of the window with the most keys asks for, in
// ascending order.
func fullest(s accuracy.Source, window time.Duration) []int {
	var most []int
	units := map[string]int{}
	take := func() {
		if len(units) > len(most) {
			most = most[:0]
			for _, n := range units {
				most = append(most, n)
			}
		}
		clear(units)
	}
	current := int64(math.MinInt64)
	for r := range s.Requests() {
		if n := r.Time.UnixNano() / int64(window); n != current {
			take()
			current = n
		}
		units[r.Key] += r.Cost
	}
	take()
	slices.Sort(most) // maps have no order, and the plan must not depend on it
	return most
}

func (t *tuning) text(p sketchlimit.Plan) (string, error) {
	if t.json {
		text, err := json.MarshalIndent(p, "", "  ")
		return string(text) + "\n", err
	}
	code, err := t.code(p)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	f := p.Forecast
	summary := fmt.Sprintf("A limiter of %s for %s in %s, %s each: %s bytes a key.", bytesText(f.MemoryBytes),
		plural(int(math.Round(f.Keys)), "key", "keys"), span(t.window), plural(t.goal.Limit, "unit", "units"), decimal(float64(f.MemoryBytes)/f.Keys))
	writeText(&b, summary, []section{planned(p), expected(f)})
	return b.String() + "\n" + code, nil
}

func planned(p sketchlimit.Plan) section {
	rows := [][]string{
		{"memory", integer(p.Forecast.MemoryBytes) + " bytes"},
		{"shards", integer(p.Shards)},
		{"doorkeeper", fmt.Sprintf("%s bytes, %s", integer(p.BloomBytes), plural(p.BloomProbes, "probe", "probes"))},
		{"sketch", "none"},
		{"heavy table", "none"},
	}
	if p.Width > 0 {
		rows[3][1] = fmt.Sprintf("%d rows × %s cells × %d bits", p.Depth, integer(p.Width), p.CellBits)
	}
	if p.HeavyEntries > 0 {
		rows[4][1] = fmt.Sprintf("%s, from %s on", plural(p.HeavyEntries, "entry", "entries"), plural(p.HeavyThreshold, "unit", "units"))
	}
	return section{Title: "The plan", Table: grid{Rows: rows, Mark: -1},
		Prose: "Each shard has a doorkeeper and a sketch for every generation, and at most one table of heavy keys."}
}

func expected(f *sketchlimit.Forecast) section {
	table := grid{Head: []string{"traffic", "false denials", "withheld", "estimate error"}, Mark: -1}
	for i, load := range sketchlimit.Loads {
		e := f.At[i]
		table.Rows = append(table.Rows, []string{fmt.Sprintf("× %g", load), shareText(e.FalseDenialRate), shareText(e.WithheldShare), decimal(e.EstimateError)})
		if load == 1 {
			table.Mark = i
		}
	}
	cliff := fmt.Sprintf("From %.3g times the stated traffic on, it denies everybody: more than one in ten requests of innocent keys.", f.Cliff)
	if f.Cliff >= 64 {
		cliff = "Even at 64 times the stated traffic it does not deny everybody."
	}
	return section{Title: "What to expect", Table: table, Notes: []string{cliff},
		Prose: "Predicted, for multiples of the stated keys and requests: the share of requests of innocent keys denied wrongly, the share of " +
			"units withheld that the exact algorithm admits, and the units held against a key beyond what it has used."}
}

// code returns the Go statement that makes the limiter. The forecast goes along, because
// Stats tell by it whether the limiter runs outside its plan.
func (t *tuning) code(p sketchlimit.Plan) (string, error) {
	f := *p.Forecast
	p.Forecast = nil
	plan := strings.Replace(fmt.Sprintf("%#v", p), "Forecast:(*sketchlimit.Forecast)(nil)", fmt.Sprintf("Forecast: &%#v", f), 1)
	plan = strings.NewReplacer("{", "{\n", "}", ",\n}", ", ", ",\n").Replace(plan)
	rule := ""
	if t.goal.Algorithm == sketchlimit.FixedWindow {
		rule += "Algorithm: sketchlimit.FixedWindow,\n"
	}
	if t.goal.SubWindows > 1 {
		rule += fmt.Sprintf("SubWindows: %d,\n", t.goal.SubWindows)
	}
	code, err := format.Source([]byte(fmt.Sprintf("limiter, err := sketchlimit.New(sketchlimit.Config{\nLimit: %d,\nWindow: %s,\n%sPlan: &%s,\n})\n",
		t.goal.Limit, inGo(t.window), rule, plan)))
	return string(code), err
}

// inGo is a duration as Go writes it, in the largest unit that divides it.
func inGo(d time.Duration) string {
	for _, unit := range []struct {
		name string
		span time.Duration
	}{{"Hour", time.Hour}, {"Minute", time.Minute}, {"Second", time.Second}, {"Millisecond", time.Millisecond}, {"Nanosecond", 1}} {
		switch {
		case d == unit.span:
			return "time." + unit.name
		case d%unit.span == 0:
			return fmt.Sprintf("%d * time.%s", d/unit.span, unit.name)
		}
	}
	return ""
}
