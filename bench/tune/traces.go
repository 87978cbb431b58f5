package main

import (
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/tune"
)

// speeds are those of traces whose requests lie hours apart.
var speeds = map[string]float64{"aws_honeypot": 10_000, "reconstructr_sessions": 1000}

const seedsOfTrace = 10 // of limiters, which tune has not seen

// traced is a trace at one limit and window, with what the exact algorithm makes of
// each request.
type traced struct {
	requests []accuracy.Request
	innocent []bool // that the exact algorithm admits, of a key below half of its limit
	calm     int    // requests of light keys
	units    int    // that the exact algorithm admits
	limit    int
	window   time.Duration
}

func newTraced(requests []accuracy.Request, limit int, window time.Duration) *traced {
	t := &traced{requests: requests, innocent: make([]bool, len(requests)), limit: limit, window: window}
	oracle := must(exact.Of(sketchlimit.Config{Limit: limit, Window: window}))
	for i, r := range requests {
		d := oracle.TakeAt(r.Time, r.Key, r.Cost)
		free := d.Remaining
		if d.Allowed {
			free += r.Cost
			t.units += r.Cost
		}
		if 2*(limit-free) < limit {
			t.calm++
			t.innocent[i] = d.Allowed
		}
	}
	return t
}

// outcome is what a limiter of a plan and a seed did.
type outcome struct{ denied, keys, lost int }

func (t *traced) replay(p sketchlimit.Plan, seed uint64) (w outcome) {
	l := must(sketchlimit.New(sketchlimit.Config{Limit: t.limit, Window: t.window, Plan: &p, Seed: seed}))
	defer l.Close()
	keys := map[string]bool{}
	w.lost = t.units
	for i, r := range t.requests {
		if l.TakeAt(r.Time, r.Key, r.Cost).Allowed {
			w.lost -= r.Cost
		} else if t.innocent[i] {
			w.denied++
			keys[r.Key] = true
		}
	}
	w.keys = len(keys)
	return w
}

// replays does so with each seed.
func (t *traced) replays(p sketchlimit.Plan) []outcome {
	out := make([]outcome, seedsOfTrace)
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() { out[i] = t.replay(p, 0x9e3779b97f4a7c15*uint64(i+1)) })
	}
	all.Wait()
	return out
}

// What traces are planned for.
var (
	traceWindows = []time.Duration{time.Minute, 10 * time.Minute}
	traceLimits  = []int{5, 20, 100, 1000}
	traceGoals   = []float64{1e-2, 1e-3, 1e-5}
)

// traces holds what tune.Plan says of recorded traffic, every trace of the folder at
// limits, windows and goals, against replays through limiters with other seeds. Plans
// of six tenths are judged as well.
func (b *bench) traces() { printTraces(b.out, b.data, b.load) }

// printTraces prints what tune says of the traces of a folder, and what replays with
// other seeds say.
func printTraces(out io.Writer, folder, match string) {
	fmt.Fprintln(out, "| trace | window | limit | goal | memory | replayed | measured, mean … worst of ten | keys | lost, replayed | measured | goal held | within 1/10 … 3 |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for name, source := range sources(folder, match) {
		requests := slices.Collect(source.Requests())
		for _, window := range traceWindows {
			recorded := source.Traffic(window)
			for _, limit := range traceLimits {
				t := newTraced(requests, limit, window)
				for _, goal := range traceGoals {
					began := time.Now()
					g := tune.Goal{Limit: limit, FalseDenialRate: goal}
					p, forecast := planned(tune.Traffic{Trace: recorded}, g)
					took := time.Since(began)
					t.row(out, fmt.Sprintf("| %s | %v | %d | %.0e", name, window, limit, goal), goal, p, forecast, asReplayed)
					fmt.Fprintf(out, " | %.1fs\n", took.Seconds())
					q := p
					q.Width = max(64/q.CellBits, int(0.6*float64(q.Width))/(64/q.CellBits)*(64/q.CellBits))
					q.HeavyEntries = int(0.6*float64(q.HeavyEntries)) / 16 * 16
					f := must(tune.Predict(tune.Traffic{Trace: recorded}, g, q))
					t.row(out, fmt.Sprintf("| %s × 0.6 | %v | %d | %.0e", name, window, limit, goal), 1, q, f, asReplayed)
					fmt.Fprintln(out)
				}
			}
		}
	}
}

// sources yields the traces of a folder whose names contain a text.
func sources(folder, match string) iter.Seq2[string, *accuracy.Trace] {
	return func(yield func(string, *accuracy.Trace) bool) {
		for _, file := range must(filepath.Glob(filepath.Join(folder, "*.tsv*"))) {
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			if !strings.Contains(name, match) {
				continue
			}
			f := must(os.Open(file))
			source := must(accuracy.ReadTrace(f, name))
			f.Close()
			if speed, ok := speeds[name]; ok {
				source = must(source.Speed(speed))
			}
			if !yield(name, source) {
				return
			}
		}
	}
}

// What measured rates may be of what tune says, where 20 keys were wronged or 20 units
// lost.
var (
	asReplayed = [2]float64{0.1, 3}
	tomorrow   = [2]float64{0, 10}
)

// row prints how replays through limiters of a plan compare with what tune says of it.
func (t *traced) row(out io.Writer, head string, goal float64, p sketchlimit.Plan, f tune.Forecast, may [2]float64) {
	e := f.Stated()
	held, within := true, true
	sum, worst, keys, lost, worstLost := 0, 0, 0, 0, 0
	judge := func(measured, predicted float64) {
		if ratio := measured / predicted; !(ratio >= may[0] && ratio <= may[1]) {
			within = false
		}
	}
	for _, w := range t.replays(p) {
		sum, worst, keys = sum+w.denied, max(worst, w.denied), max(keys, w.keys)
		lost, worstLost = lost+w.lost, max(worstLost, w.lost)
		most := float64(w.denied)
		if float64(t.calm)*goal >= 3 {
			n := most + 1
			most = n * math.Pow(1-1/(9*n)+1.645/(3*math.Sqrt(n)), 3)
		}
		held = held && most <= float64(t.calm)*goal
		if w.keys >= 20 {
			judge(float64(w.denied)/float64(t.calm), e.FalseDenialRate)
		}
		if w.lost >= 20 {
			judge(float64(w.lost)/float64(t.units), e.LostShare)
		}
	}
	calm, units := float64(t.calm), float64(t.units)
	fmt.Fprintf(out, "%s | %.1f KiB | %.1e | %.1e … %.1e | %d | %.1e | %.1e … %.1e | %v | %v", head, float64(f.MemoryBytes)/1024,
		e.FalseDenialRate, float64(sum)/calm/seedsOfTrace, float64(worst)/calm, keys, e.LostShare, float64(lost)/units/seedsOfTrace,
		float64(worstLost)/units, held, within)
}
