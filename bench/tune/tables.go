package main

import (
	"fmt"
	"log"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// rates compares false-denial rates and lost shares.
func (b *bench) rates() { b.compare(loads, sketchlimit.SlidingWindow) }

// buckets is rates for token buckets.
func (b *bench) buckets() { b.compare([]load{uniform, loads[2], abusers}, sketchlimit.TokenBucket) }

func (b *bench) compare(loads []load, algorithm sketchlimit.Algorithm) {
	b.head(algorithm.String(), "limit", "keys", "bytes a key", "rows", "table", "false denials: predicted", "measured", "ratio", "lost: predicted", "measured", "ratio")
	for _, limit := range limits {
		for _, l := range loads {
			if (b.limit == 0 || b.limit == limit) && strings.HasPrefix(l.name, b.load) {
				b.compareAt(&l, tune.Goal{Limit: limit, Algorithm: algorithm, FalseDenialRate: target, LostShare: lostOfTarget * target})
			}
		}
	}
}

// compareAt compares what is predicted and measured of one load.
func (b *bench) compareAt(l *load, g tune.Goal) {
	s := sizedFor(l, g, l.most(b.keys, g.Limit))
	r := replay(s.traffic, g, s.plan)
	row := []string{l.name, strconv.Itoa(g.Limit), strconv.Itoa(s.traffic.Keys), fmt.Sprintf("%.3g", bytes(s.plan, g)/float64(s.traffic.Keys)),
		strconv.Itoa(s.plan.Depth), yes(s.plan.HeavyEntries > 0)}
	row = append(row, compared(s.expected.FalseDenialRate, r.denied, r.innocent)...)
	row = append(row, compared(s.expected.LostShare, r.units-r.admitted, r.units)...)
	b.row(row...)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// sized is a plan and the traffic at which it just reaches a goal.
type sized struct {
	plan     sketchlimit.Plan
	traffic  tune.Traffic
	expected tune.Expected
}

// sizedFor takes the plan of tune.Plan for so many keys in smaller shards, as few as
// just reach the goal for about so many keys still.
func sizedFor(l *load, g tune.Goal, keys float64) (s sized) {
	p, _ := planned(l.at(keys, g.Limit), g)
	cut(&p)
	predict := func(each float64) sized {
		p.Shards = int(math.Max(1, math.Round(keys/each)))
		t := l.at(each*float64(p.Shards), g.Limit)
		return sized{p, t, must(tune.PredictAt(t, g, p, 1))}
	}
	reached := func(s sized) bool {
		return s.expected.FalseDenialRate <= g.FalseDenialRate && s.expected.LostShare <= g.LostShare
	}
	lo := keys / float64(p.Shards)
	for s = predict(lo); !reached(s); s = predict(lo) {
		lo /= 2
	}
	hi := 2 * lo
	for next := predict(hi); reached(next); next = predict(hi) {
		s, lo, hi = next, hi, 2*hi
	}
	for hi/lo > 1.01 {
		mid := math.Sqrt(lo * hi)
		if next := predict(mid); reached(next) {
			s, lo = next, mid
		} else {
			hi = mid
		}
	}
	return s
}

// cut makes shards a sixteenth of what they are, and as many more. Where rates rise a
// thousandfold within some per cent of the load, it is the luck of a shard's seeds that
// decides what it denies, and neither a simulation nor some windows of a few shards
// show the mean.
func cut(p *sketchlimit.Plan) {
	const parts, line, bucket = 16, 64, 8 // Bloom filters are whole lines, tables whole buckets
	lanes := 64 / p.CellBits
	p.Shards *= parts
	p.Width = max(1, p.Width/parts/lanes) * lanes
	p.BloomBytes = (p.BloomBytes/line + parts - 1) / parts * line
	p.HeavyEntries = (p.HeavyEntries/bucket + parts - 1) / parts * bucket
}

func bytes(p sketchlimit.Plan, g tune.Goal) float64 {
	c := sketchlimit.Config{Limit: g.Limit, Window: window, Algorithm: g.Algorithm, Plan: &p}
	_, n, err := c.Size()
	return float64(must(n, err))
}

// compared is predicted, measured and measured by predicted; what was not seen once in
// n is 0.
func compared(predicted float64, counted, n int) []string {
	if counted <= 0 {
		return []string{fmt.Sprintf("%.1e", predicted), fmt.Sprintf("0 of %.0e", float64(n)), ""}
	}
	measured := float64(counted) / float64(n)
	return []string{fmt.Sprintf("%.1e", predicted), fmt.Sprintf("%.1e", measured), fmt.Sprintf("%.2g", measured/predicted)}
}

// breaking points compares the loads from which a limiter denies everybody: by replays
// of loads ever closer together.
func (b *bench) breakingPoints() {
	b.head("load", "limit", "keys", "KiB", "breaking point: predicted", "measured", "ratio")
	for _, limit := range limits[1:] {
		for _, l := range []load{uniform, abusers} {
			if (b.limit == 0 || b.limit == limit) && strings.HasPrefix(l.name, b.load) {
				b.breakingPoint(&l, limit)
			}
		}
	}
}

func (b *bench) breakingPoint(l *load, limit int) {
	t, g := l.at(l.most(b.keys, limit), limit), tune.Goal{Limit: limit, FalseDenialRate: 1e-5}
	plan, forecast := planned(t, g)
	predicted := forecast.BreakingPoint
	lo, hi := 0.7*predicted, 1.4*predicted
	for hi/lo > 1.05 {
		mid := math.Sqrt(lo * hi)
		if r := replay(l.at(mid*float64(t.Keys), limit), g, plan); 10*r.denied > r.innocent {
			hi = mid
		} else {
			lo = mid
		}
	}
	measured := math.Sqrt(lo * hi)
	b.row(l.name, strconv.Itoa(limit), strconv.Itoa(t.Keys), strconv.Itoa(forecast.MemoryBytes>>10),
		fmt.Sprintf("%.2f", predicted), fmt.Sprintf("%.2f", measured), fmt.Sprintf("%.2f", measured/predicted))
}

// live compares Stats.FalseDenialRate with the share of keys never seen that would be
// denied at that moment, the middle of the last window.
func (b *bench) live() {
	b.head("load", "limit", "times the plan's load", "live rate", "share of 1e7 probes denied", "live / probes")
	for _, c := range []struct {
		load  load
		limit int
		times []float64
	}{
		{uniform, 5, []float64{1, 2, 4}},
		{abusers, 10, []float64{2, 3, 4}},
		{abusers, 100, []float64{2.2, 2.4, 3}},
	} {
		t := c.load.at(b.keys, c.limit)
		plan, _ := planned(t, tune.Goal{Limit: c.limit, FalseDenialRate: 1e-4})
		for _, times := range c.times {
			live, denied := probe(c.load.at(times*b.keys, c.limit), c.limit, plan)
			ratio := ""
			if denied > 0 {
				ratio = fmt.Sprintf("%.3f", live/denied)
			}
			b.row(c.load.name, strconv.Itoa(c.limit), fmt.Sprint(times), fmt.Sprintf("%.2e", live), fmt.Sprintf("%.2e", denied), ratio)
		}
	}
}

// probe sends the traffic up to the middle of the last window, and returns the live
// rate and the share of keys never seen that are denied then.
func probe(t tune.Traffic, limit int, p sketchlimit.Plan) (live, denied float64) {
	var now time.Time
	l := must(sketchlimit.New(sketchlimit.Config{Limit: limit, Window: window, Plan: &p, Seed: 1, Clock: func() time.Time { return now }}))
	src := source(t, limit, 2)
	left := src.Len() * 3 / 4
	for r := range src.Requests() {
		now = r.Time
		l.TakeAt(now, r.Key, 1)
		if left--; left == 0 {
			break
		}
	}
	const probes = 1e7
	n := 0
	for i := range int64(probes) {
		if !l.Peek("probe" + strconv.FormatInt(i, 36)).Allowed {
			n++
		}
	}
	return l.Stats().FalseDenialRate, float64(n) / probes
}

// memory compares budgets with what plans for them take on the heap.
func (b *bench) memory() {
	b.head("limit", "budget, bytes", "stated", "on the heap", "heap / budget")
	for _, limit := range []int{1, 100, 1000} {
		for _, budget := range []int{20_000, 1 << 20, 10_000_000, 256 << 20} {
			g := tune.Goal{Limit: limit, MemoryBytes: budget}
			plan, forecast := planned(uniform.at(b.keys, limit), g)
			heap := heapOf(sketchlimit.Config{Limit: limit, Window: window, Plan: &plan})
			b.row(strconv.Itoa(limit), strconv.Itoa(budget), strconv.Itoa(forecast.MemoryBytes), strconv.Itoa(heap),
				fmt.Sprintf("%.4f", float64(heap)/float64(budget)))
		}
	}
}

// heapOf returns the bytes of the heap that a limiter lives in, at the most of a few.
func heapOf(c sketchlimit.Config) (most int) {
	for range 5 {
		before := liveHeap()
		l := must(sketchlimit.New(c))
		most = max(most, liveHeap()-before)
		if err := l.Close(); err != nil {
			log.Fatal(err)
		}
	}
	return most
}

// liveHeap is the heap in use after collections: what a sync.Pool holds outlives one.
func liveHeap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
