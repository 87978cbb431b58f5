package main

import (
	"fmt"

	"github.com/sketchlimit/sketchlimit"
)

const (
	plannedKeys  = 1_000_000 // Config.Keys, at full size
	plannedUse   = limit / 5 // units a key in a window
	headroom     = 2
	plannedHeavy = 0.01 // share of keys that are abusers
	plannedTimes = 3    // limits that they ask for
)

// kind is in what way there is more than planned.
type kind int

const (
	byKeys  kind = iota // more keys of the planned use
	byUnits             // keys of twice the planned use, and then more of them
	byCosts             // more keys of the planned use, in requests of 2, 5 and 10 units
	byFlood             // a flood beside the planned load
)

// row is one kind of overload.
type row struct {
	algorithm sketchlimit.Algorithm
	kind      kind
	load      float64 // multiple of the units of the plan; not of floods
	flooders  int     // keys of a flood, at full size
	asks      int     // requests of each of them in a window
	abusers   float64 // share of the keys, those of a flood not counted
	times     int     // limits that each abuser asks for
	start     int     // percent of a window that have passed when it begins
	burst     bursts
}

// String says what comes.
func (r row) String() string {
	text := ""
	switch r.kind {
	case byKeys:
		text = fmt.Sprintf("×%g by keys", r.load)
	case byUnits:
		text = fmt.Sprintf("×%g by units", r.load)
	case byCosts:
		text = fmt.Sprintf("×%g by costs", r.load)
	case byFlood:
		text = fmt.Sprintf("flood %s × %d", short(r.flooders), r.asks)
	}
	text += fmt.Sprintf(", %g %% ask %d ×, from %d %%", 100*r.abusers, r.times, r.start)
	if r.algorithm == sketchlimit.FixedWindow {
		text += ", fixed"
	}
	if r.burst.innocent > 1 {
		text += fmt.Sprintf(", %d in a row", r.burst.innocent)
	}
	if r.burst.abuser > 1 {
		text += fmt.Sprintf(", abusers %d in a row", r.burst.abuser)
	}
	return text
}

// short writes 65536 as 65 k.
func short(n int) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%d M", n/1_000_000)
	}
	return fmt.Sprintf("%d k", n/1000)
}

// lateAbusers is when the second half of the abusers comes: most limiters treat those
// well who come after them.
const lateAbusers = 3 * slots / 2

// traffic returns the requests of the row, at a scale.
func (r row) traffic(scale float64) traffic {
	scaled := func(n float64) int { return max(1, int(n*scale)) }
	planned := scaled(plannedKeys)
	innocents := planned
	var overload []crowd
	switch r.kind {
	case byKeys:
		innocents = scaled(r.load * headroom * plannedKeys)
		overload = []crowd{{0, innocents, plannedUse, 1, 0}}
	case byUnits:
		innocents = scaled(r.load * headroom / 2 * plannedKeys)
		overload = []crowd{{0, innocents, 2 * plannedUse, 1, 0}}
	case byCosts:
		innocents = scaled(r.load * headroom * plannedKeys)
		third := innocents / 3
		overload = []crowd{
			{0, third, plannedUse, 2, 0}, {third, third, plannedUse, 5, 0},
			{2 * third, innocents - 2*third, plannedUse, 10, 0},
		}
	case byFlood:
		overload = []crowd{{0, planned, plannedUse, 1, 0}}
	}
	t := traffic{start: r.start * slots / 100, abusers: innocents, burst: r.burst}
	if r.kind == byFlood {
		flooders := scaled(float64(r.flooders))
		overload = append(overload, crowd{innocents, flooders, float64(r.asks), 1, 0})
		t.keys = innocents + flooders
		if r.asks <= limit {
			t.abusers = t.keys
		}
	}
	t.keys = max(t.keys, innocents)
	half := max(1, int(r.abusers*float64(innocents))/2)
	heavy := min(half, max(1, int(plannedHeavy*float64(planned)))) // of the planned load
	t.planned = []crowd{{0, planned, plannedUse, 1, 0}, {t.keys, heavy, plannedTimes * limit, 1, 0}}
	t.overload = append(overload, crowd{t.keys, half, float64(r.times * limit), 1, 0},
		crowd{t.keys + half, half, float64(r.times * limit), 1, lateAbusers})
	t.keys += 2 * half
	return t
}

// mainRows are all kinds and loads with one in a hundred abusers who ask for three
// times their limit, from 30 % of a window on; at four times the plan by keys, all
// other abusers and beginnings; floods; and the fixed window.
func mainRows() (rows []row) {
	usual := row{load: 4, abusers: 0.01, times: 3, start: 30}
	with := func(change func(*row)) {
		r := usual
		change(&r)
		rows = append(rows, r)
	}
	for k := byKeys; k < byFlood; k++ {
		for _, load := range []float64{1, 2, 4, 10} {
			if load > 1 || k == byKeys { // 1: at the end of the plan
				with(func(r *row) { r.kind, r.load = k, load })
			}
		}
	}
	for _, share := range []float64{0.001, 0.003, 0.01} {
		for _, times := range []int{3, 30} {
			if share < 0.01 || times > 3 {
				with(func(r *row) { r.abusers, r.times = share, times })
			}
		}
	}
	with(func(r *row) { r.start = 0 })
	with(func(r *row) { r.start = 70 })
	for _, flood := range [][2]int{{65_536, 100}, {65_536, 300}, {1e6, 1}, {1e6, 30}, {1e6, 100}, {1e6, 300}} {
		with(func(r *row) { r.kind, r.load, r.flooders, r.asks = byFlood, 0, flood[0], flood[1] })
	}
	usual.algorithm = sketchlimit.FixedWindow
	with(func(r *row) { r.load = 2 })
	with(func(r *row) {})
	with(func(r *row) { r.kind = byCosts })
	for _, flooders := range []int{65_536, 1e6} {
		with(func(r *row) { r.kind, r.load, r.flooders, r.asks = byFlood, 0, flooders, 100 })
	}
	return rows
}

// allRows are the whole matrix: every kind, load, share of abusers, excess and
// beginning with both windows.
func allRows() (rows []row) {
	var kinds []row
	for k := byKeys; k < byFlood; k++ {
		for _, load := range []float64{2, 4, 10} {
			kinds = append(kinds, row{kind: k, load: load})
		}
	}
	for _, flooders := range []int{65_536, 1e6} {
		for _, asks := range []int{1, 10, 30, 100, 300} {
			kinds = append(kinds, row{kind: byFlood, flooders: flooders, asks: asks})
		}
	}
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		for _, r := range kinds {
			for _, r.abusers = range []float64{0.001, 0.003, 0.01} {
				for _, r.times = range []int{3, 30} {
					for _, r.start = range []int{0, 30, 70} {
						r.algorithm = algorithm
						rows = append(rows, r)
					}
				}
			}
		}
	}
	return rows
}

// quickRows are a few that take seconds.
func quickRows() []row {
	return []row{
		{kind: byCosts, load: 2, abusers: 0.003, times: 3, start: 30},
		{kind: byCosts, load: 4, abusers: 0.001, times: 3, start: 70, algorithm: sketchlimit.FixedWindow},
		{kind: byFlood, flooders: 65_536, asks: 300, abusers: 0.001, times: 3},
	}
}
