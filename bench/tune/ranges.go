package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// rangeSeeds is how many limiters a range is held against.
const rangeSeeds = 60

// ranges compares the range that is predicted for a limiter with one window of limiters
// with other seeds.
func (b *bench) ranges() {
	b.head("traffic", "limit", "algorithm", "keys", "KiB", "shards",
		"false denials: predicted", "range", "limiters in it", "lost: predicted", "range", "limiters in it")
	steady := tune.Traffic{Even: true, Steady: true}
	for _, c := range []struct {
		name    string
		traffic tune.Traffic
		goal    tune.Goal
		keys    int
	}{
		{"uniform", steady, tune.Goal{Limit: 5, MemoryBytes: 64 << 10}, 8000},
		{"Zipf 0.8", tune.Traffic{Exponent: 0.8, Even: true, Steady: true}, tune.Goal{Limit: 20, MemoryBytes: 16 << 10}, 20_000},
		{"Zipf 1.1", tune.Traffic{Exponent: 1.1, Even: true, Steady: true}, tune.Goal{Limit: 100, MemoryBytes: 6 << 10}, 35_000},
		{"1 % abusers", tune.Traffic{Abusers: 0.01, Even: true, Steady: true}, tune.Goal{Limit: 100, MemoryBytes: 8 << 10}, 15_000},
		{"Zipf 0.8, bursts", tune.Traffic{Exponent: 0.8}, tune.Goal{Limit: 20, MemoryBytes: 32 << 10}, 12_000},
		{"Zipf 1.1, bursts", tune.Traffic{Exponent: 1.1}, tune.Goal{Limit: 100, MemoryBytes: 32 << 10}, 20_000},
		{"1 % abusers, bursts", tune.Traffic{Abusers: 0.01}, tune.Goal{Limit: 20, MemoryBytes: 48 << 10}, 12_000},
		{"Zipf 1.1, bursts", tune.Traffic{Exponent: 1.1}, tune.Goal{Limit: 20, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 16 << 10}, 20_000},
	} {
		l := load{c.name, c.traffic}
		t := l.at(float64(c.keys), c.goal.Limit)
		plan, f := planned(t, c.goal)
		predicted := must(tune.Predict(t, c.goal, plan))
		e := predicted.Stated()
		came := arrival{0, 1, false}
		if !t.Even {
			came = arrival{0, 0.1, true}
		}
		denied, lost := 0, 0
		for seed := range rangeSeeds {
			r := newTimed(t, c.goal, plan, came, uint64(seed)+1)
			r.most = countedWindows(t)
			r.enough = math.MaxInt
			r.run()
			denied += within(e.FalseDenialRange, float64(r.denied)/float64(r.innocent))
			lost += within(e.LostRange, float64(r.units-r.admitted)/float64(r.units))
		}
		b.row(c.name, strconv.Itoa(c.goal.Limit), c.goal.Algorithm.String(), strconv.Itoa(t.Keys),
			strconv.Itoa(f.MemoryBytes>>10), strconv.Itoa(plan.Shards),
			fmt.Sprintf("%.1e", e.FalseDenialRate), span(e.FalseDenialRange), percent(denied),
			fmt.Sprintf("%.1e", e.LostShare), span(e.LostRange), percent(lost))
	}
}

// countedWindows is what a rate is predicted for: bursts in sliding windows leave a key
// little in every second window.
func countedWindows(t tune.Traffic) int {
	if t.Even {
		return 1
	}
	return 2
}

func span(r tune.Range) string { return fmt.Sprintf("%.1e … %.1e", r.Low, r.High) }

func percent(n int) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/rangeSeeds) }

// within is 1 if a rate lies in a range.
func within(r tune.Range, rate float64) int {
	if rate >= r.Low && rate <= r.High {
		return 1
	}
	return 0
}
