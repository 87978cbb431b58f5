package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
	"github.com/sketchlimit/sketchlimit/tune"
)

// warning is what has to be seen first, if anything has: a plan for memory alone may be
// of no use, and a replay may show more than was expected.
func (p *plans) warning() string {
	if p.file == nil {
		return p.wrong()
	}
	return behind(damage([]*accesslog.File{p.file}), p.wrong())
}

// wrong is a warning of the plan.
func (p *plans) wrong() string {
	switch e, goal := p.Forecast.Stated(), p.goal.FalseDenialRate; {
	case e.FalseDenialRate > tooMany:
		return fmt.Sprintf("This memory is far too small: %s of the requests of light keys would be denied.",
			shareText(e.FalseDenialRate))
	case p.Verified == nil:
		return p.tooMuchToState()
	case p.Verified.FalseDenialRate > tooMany:
		return fmt.Sprintf("The plan is far too small: the replay denied %s of the requests of light keys.",
			shareText(p.Verified.FalseDenialRate))
	case goal > 0 && p.Verified.FalseDenialRate > goal:
		return fmt.Sprintf("The replay missed the goal: it denied %s of the requests of light keys, not %s.",
			shareText(p.Verified.FalseDenialRate), shareText(goal))
	}
	return p.tooMuchToState()
}

// tooMuchToState warns of traffic for which a limiter needs this plan: one that New
// sizes by Keys and UnitsPerKey misses its goal.
func (p *plans) tooMuchToState() string {
	units := p.unitsPerKey()
	if p.goal.Algorithm == sketchlimit.TokenBucket || !tooManyUnits(units, p.goal.Limit) {
		return ""
	}
	return fmt.Sprintf("Use the plan, and do not set UnitsPerKey to the %.3g units that a key uses: above 0.6 times the limit, "+
		"New by Keys and UnitsPerKey makes a limiter that denies first requests of new keys.", units)
}

// unitsPerKey returns the units that a key uses in a window on average, without those
// of abusers and of keys that come once; 0 if a trace says it.
func (p *plans) unitsPerKey() float64 {
	r := p.traffic
	switch {
	case r.Trace != nil:
		return 0
	case r.Requests == 0:
		return 5
	}
	or(&r.Excess, 3)
	abusers := r.Abusers * float64(r.Keys)
	units := float64(r.Requests)*(1-r.OneHit) - abusers*max(1, r.Excess*float64(p.goal.Limit))
	return units / max(1, float64(r.Keys)-abusers)
}

// tooManyUnits reports whether a limiter that is sized for units a key and window misses
// its goal, see Config.UnitsPerKey.
func tooManyUnits(units float64, limit int) bool { return limit > 16 && units > 0.6*float64(limit) }

// summary is the chosen plan in a sentence, behind a warning if there is one.
func (p *plans) summary() string { return behind(p.warning(), p.sentence()) }

func (p *plans) sentence() string {
	f := &p.Forecast
	keys := plural(p.keys(), "key", "keys")
	if p.traffic.OneHit > 0 {
		keys += " and those that come once"
	}
	return fmt.Sprintf("A limiter of %s for %s in %s, %s each: %s bytes a key.%s", bytesText(f.MemoryBytes), keys,
		span(p.window), plural(p.goal.Limit, "unit", "units"), p.bytesPerKey(f), p.supposed())
}

// supposed is the traffic that a plan is for, beside its keys. Where nothing was said,
// it names the flag that says otherwise.
func (p *plans) supposed() string {
	if p.trace != "" {
		return ""
	}
	r := p.traffic
	requests, abusers, arrivals := "5 requests a key", "no abusers", "in bursts"
	if r.Requests > 0 {
		requests = decimal(float64(r.Requests)/float64(r.Keys)) + " requests a key in all"
	}
	if r.Abusers > 0 {
		or(&r.Excess, 3)
		abusers = fmt.Sprintf("%s of the keys abusers of %g × the limit", shareText(r.Abusers), r.Excess) +
			p.unsaid("excess")
	}
	if r.Even {
		arrivals = "spread over the window"
	}
	all := []string{requests + p.unsaid("requests"), abusers + p.unsaid("abusers"), arrivals + p.unsaid("even")}
	if p.goal.FalseDenialRate > 0 || p.goal.LostShare > 0 {
		headroom := "no headroom"
		if p.goal.Headroom > 1 {
			headroom = fmt.Sprintf("headroom up to %g × that", p.goal.Headroom)
		}
		all = append(all, headroom+p.unsaid("headroom"))
	}
	return " Assumed: " + strings.Join(all, ", ") + "."
}

// unsaid is the flag that says what was not said.
func (p *plans) unsaid(flag string) string {
	if p.given(flag) {
		return ""
	}
	return " (--" + flag + ")"
}

// keys are those of a window: as stated, or of a trace that says it itself.
func (p *plans) keys() int {
	if p.traffic.Keys > 0 {
		return p.traffic.Keys
	}
	return int(max(1, math.Round(p.Forecast.Keys)))
}

func (p *plans) bytesPerKey(f *tune.Forecast) string {
	keys := float64(p.keys())
	if p.traffic.OneHit > 0 {
		keys = max(1, p.Forecast.Keys)
	}
	return decimal(float64(f.MemoryBytes) / keys)
}

func (p *plans) sections() []section {
	s := []section{p.compared(), p.chosen()}
	if f := p.file; f != nil {
		rows := [][]string{{"file", filepath.Base(f.Name) + "; " + logText(f, true)}}
		s = append(s, section{ID: "log", Title: "The log", Prose: "The requests that the plan is for.", Table: grid{Rows: rows, Mark: -1}, Notes: clientTexts(f)})
	}
	if p.Verified != nil {
		s = append(s, p.verified())
	}
	return s
}

// compared is the plan beside those of half and twice its memory.
func (p *plans) compared() section {
	table := grid{Head: []string{"memory", "bytes\na key", "breaking point", p.how()}, Text: 4}
	for _, e := range p.Forecast.At {
		table.Head = append(table.Head, fmt.Sprintf("× %g", e.Load))
	}
	for _, one := range p.shown() {
		f := &one.Forecast
		if one == &p.planned {
			table.Mark = len(table.Rows)
		}
		denied := []string{bytesText(f.MemoryBytes), p.bytesPerKey(f), breakingPointText(f), "false-denial rate"}
		lost := []string{"", "", "", "lost share"}
		estimate := []string{"", "", "", "estimate error"}
		for _, e := range f.At {
			denied = append(denied, rangedText(e.FalseDenialRate, e.FalseDenialRange, e.Replayed))
			lost = append(lost, rangedText(e.LostShare, e.LostRange, e.ReplayedUnits))
			estimate = append(estimate, decimal(e.EstimateError))
		}
		table.Rows = append(table.Rows, denied, lost, estimate)
	}
	return section{
		ID:    "plans",
		Title: "Plans",
		Prose: "The plan for the goal (marked), and the best ones in half and in twice its memory. " + p.source() + ": the share of the requests of light keys (below half of their limit) that are denied wrongly, the share of the units lost that " +
			"the exact algorithm admits, and the units held against a key beyond what it has used, on average. The breaking point is the multiple from which on " +
			"more than one in ten requests of light keys are denied." + p.assumed(),
		Table: table,
	}
}

// assumed is what a plan for stated traffic assumes about time, and what a range of
// rates is.
func (p *plans) assumed() string {
	text := ""
	if e := p.Forecast.Stated(); isWide(e.FalseDenialRange) || isWide(e.LostRange) {
		text = " Where luck decides, a range stands for a rate: nine in ten limiters with other seeds are in it."
	}
	if p.trace != "" {
		return text
	}
	arrivals := "in bursts, all of a window's within a tenth of it (--even: spread over the window)"
	heavy := "change from window to window (--steady: stay the same)"
	if p.traffic.Even {
		arrivals = "spread over the window"
	}
	if p.traffic.Steady {
		heavy = "stay the same from window to window"
	}
	return fmt.Sprintf("%s A key's requests are taken to come %s, and heavy keys to %s.", text, arrivals, heavy)
}

// how returns how the rates of the plans were found: predicted, or replayed.
func (p *plans) how() string {
	if p.Forecast.Stated().Replayed > 0 {
		return "replayed"
	}
	return "predicted"
}

// source is how in a sentence's beginning.
func (p *plans) source() string {
	if p.Forecast.Stated().Replayed > 0 {
		return "Replayed with several seeds, mean and a standard deviation, for multiples of the trace's traffic"
	}
	return "Predicted, for multiples of the stated keys and requests"
}

// expectedText is a share that was counted on so many requests or units or, if these
// are 0, predicted: unless that is too low to tell.
func expectedText(v float64, replayed uint64) string {
	if replayed > 0 {
		return resolved(v, replayed)
	}
	if v < belowTelling {
		return "below " + scientific(belowTelling)
	}
	return shareText(v)
}

// rangedText is expectedText, or the range that nine limiters in ten are in where its
// ends differ by more than a factor of two.
func rangedText(v float64, r tune.Range, replayed uint64) string {
	if !isWide(r) || v < belowTelling {
		return expectedText(v, replayed)
	}
	return shareText(r.Low) + " … " + shareText(r.High)
}

func isWide(r tune.Range) bool { return r.High > 2*r.Low }

func breakingPointText(f *tune.Forecast) string {
	if f.BreakingPoint >= farthest {
		return fmt.Sprintf("> × %d", farthest)
	}
	return fmt.Sprintf("× %.3g", f.BreakingPoint)
}

func (p *plans) chosen() section {
	plan := p.Plan
	rows := [][]string{
		{"memory", integer(p.Forecast.MemoryBytes) + " bytes"},
		{"shards", integer(plan.Shards)},
		{"Bloom filter", "none"},
		{"sketch", "none"},
		{"heavy table", "none"},
	}
	if plan.BloomBytes > 0 {
		rows[2][1] = fmt.Sprintf("%s bytes, %s", integer(plan.BloomBytes), plural(plan.BloomProbes, "probe", "probes"))
	}
	switch {
	case plan.Algorithm == sketchlimit.TokenBucket:
		rows = append(rows[:2], []string{"table", fmt.Sprintf("%s × %d entries", plural(plan.Width, "line", "lines"), plan.Depth)})
	case plan.Width > 0:
		rows[3][1] = fmt.Sprintf("%d rows × %s cells × %d bits", plan.Depth, integer(plan.Width), plan.CellBits)
	}
	if plan.HeavyEntries > 0 {
		rows[4][1] = fmt.Sprintf("%s, from %s on", plural(plan.HeavyEntries, "entry", "entries"), plural(plan.PromoteAt, "unit", "units"))
	}
	return section{ID: "plan", Title: "The plan", Table: grid{Rows: rows, Mark: -1},
		Prose: "Each shard has a Bloom filter and a sketch for every generation, and at most one table of heavy keys; of token buckets one table of fingerprints and times."}
}

// verified holds what was predicted beside what a replay has shown.
func (p *plans) verified() section {
	r, f := p.Verified, &p.Forecast
	e, made := f.Stated(), ""
	if p.Even != nil {
		e, made = *p.Even, " Made-up traffic is spread over the window and has steady heavy keys, and so it is predicted here."
	}
	compare := func(name, predicted, measured string, ratio float64) []string {
		times := "–"
		if ratio > 0 && !math.IsInf(ratio, 1) {
			times = decimal(ratio)
		}
		return []string{name, predicted, measured, times}
	}
	warmUp := ""
	if p.warmUp() > 0 {
		warmUp = ", the first not counted,"
	}
	return section{
		ID:    "verified",
		Title: strings.ToUpper(p.how()[:1]) + p.how()[1:] + " and measured",
		Prose: fmt.Sprintf("%s: %s of %s in %s%s through a limiter of this plan, and the exact algorithm beside it. A rate below (<) one in so "+
			"many means that not one was seen in so many requests or units."+made, strings.ReplaceAll(r.Source, ",", ", "), plural(r.Units, "unit", "units"), plural(r.Keys, "key", "keys"), plural(r.Windows, "window", "windows"), warmUp),
		Table: grid{
			Head: []string{"", p.how(), "measured", "measured /\n" + p.how()}, Text: 1, Mark: -1,
			Rows: [][]string{
				compare("false-denial rate", expectedText(e.FalseDenialRate, e.Replayed), resolved(r.FalseDenialRate, r.LightRequests), r.FalseDenialRate/e.FalseDenialRate),
				compare("lost share", expectedText(e.LostShare, e.ReplayedUnits), resolved(max(r.LostShare, 0), r.OracleAdmittedUnits), r.LostShare/e.LostShare),
				compare("estimate error, units", decimal(e.EstimateError), decimal(r.EstimateError.Mean()), r.EstimateError.Mean()/e.EstimateError),
				compare("keys in the fullest window", integer(int(math.Round(f.Keys))), integer(r.PeakKeys), float64(r.PeakKeys)/f.Keys),
				compare("over-admissions", "0", integer(r.OverAdmissions), 0),
			},
		},
	}
}
