package tune

import (
	"math"
	"slices"
	"sort"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// wait is how far the cells that a key meets at random are ahead: the chance of more than
// i steps, and, because what is near a full bucket decides, of more than it takes to fill less
// i quarters of a unit.
type wait struct {
	fills, unit float64 // ns
	grain       int64   // units that are lost together: a large bucket's are too many to go through one by one
	step        float64 // ns
	steps       []float64
	last        []float64
}

const (
	mostSteps = 512
	lastUnits = 16
	grains    = 1024 // of a bucket at most
)

func newWait(fills int64, unit float64) wait {
	n := int(min(2*float64(fills)/unit, mostSteps))
	grain := max(1, int64(float64(fills)/unit/grains))
	return wait{float64(fills), unit, grain, float64(fills) / float64(n), make([]float64, n+1), make([]float64, 4*lastUnits+1)}
}

// add adds a part of the mean: what a shard's counters are at a position.
func (w *wait) add(rule *window, p rotating.Position, g *errorrate.Generation, part float64) {
	part /= float64(g.Sketch.Lanes())
	for lane := range g.Sketch.Lanes() {
		var rows [][]uint32
		for row := range g.Sketch.Depth() {
			rows = append(rows, slices.Sorted(g.Sketch.Cells(row, lane)))
		}
		beyond := func(ns float64) float64 {
			chance := part
			for _, row := range rows {
				i, _ := slices.BinarySearch(row, rule.Beyond(p, int64(ns)))
				chance *= float64(len(row)-i) / float64(len(row))
			}
			return chance
		}
		for i := range w.steps {
			w.steps[i] += beyond(float64(i) * w.step)
		}
		for i := range w.last {
			w.last[i] += beyond(max(0, w.fills-float64(i)*w.unit/4))
		}
	}
}

// beyond returns the chance of more than so many ns.
func (w *wait) beyond(ns float64) float64 {
	if near := 4 * (w.fills - ns) / w.unit; near < float64(len(w.last)-1) {
		return between0(w.last, near)
	}
	return between0(w.steps, ns/w.step)
}

// between0 reads between two entries; before the first one it is that, beyond the last one 0.
func between0(of []float64, i float64) float64 {
	whole := int(max(i, 0))
	if whole >= len(of)-1 {
		return 0
	}
	part := max(i, 0) - float64(whole)
	return of[whole] + part*(of[whole+1]-of[whole])
}

// lag is how much later than by its own units the limiter takes a key's bucket to be full:
// the chance of more than i steps. What others have left in its cells when it comes it keeps,
// until its bucket is full.
type lag struct {
	*wait
	chances, next []float64
}

func (g *lag) of(ns float64) float64 { return between0(g.chances, ns/g.step) }

// change gives each step its new chance.
func (g *lag) change(chance func(ns float64) float64) {
	for i := range g.next {
		g.next[i] = chance(float64(i) * g.step)
	}
	g.chances, g.next = g.next, g.chances
}

// meet is for a request of a key whose bucket is full again so far ahead, and had been full for
// a while: that is made good, and cells are read.
func (g *lag) meet(ahead, idle float64) {
	g.change(func(ns float64) float64 { return max(g.of(ns+idle), g.beyond(ahead+ns)) })
}

// lose takes n units that leave so much room, and returns how many of them are denied. Those
// bring the lag down. Of the first ones, so many, it returns as well how many are denied: the last are so first.
func (g *lag) lose(room float64, n, first int64) (units, denied float64) {
	for u := int64(0); u < n; u += g.grain {
		one, end := g.of(room+float64(u)*g.unit), min(u+g.grain, n)
		units += one * float64(end-u)
		denied += one * float64(max(0, end-max(u, n-first)))
	}
	grain := float64(g.grain) * g.unit
	g.change(func(ns float64) float64 {
		switch {
		case ns <= room-grain:
			return g.of(ns)
		case ns >= room:
			return 0
		}
		chance := 0.0
		for m := 0.0; ns+m*grain < g.fills; m++ {
			chance += g.of(ns+m*grain) - g.of(room+m*grain)
		}
		return max(0, chance)
	})
	return units, denied
}

// expected returns the rates by what cells are ahead, or as counted where so much is denied that
// what one key loses is what another one gets.
func (s *bucketSimulation) expected() Expected {
	e := Expected{EstimateError: ratio(s.excessUnits, s.total)}
	if e.FalseDenialRate, e.WithheldShare = s.predicted(); e.FalseDenialRate > cliffRate/2 {
		// Among the few keys that are simulated there may be none of those that are denied.
		e.FalseDenialRate, e.WithheldShare = max(cliffRate/2, ratio(s.denied, s.innocent)), max(0, ratio(s.withheld, s.units))
	}
	return e
}

// predicted are the rates by what cells are ahead.
func (s *bucketSimulation) predicted() (falseDenialRate, withheldShare float64) {
	byKey := make([][]passage, len(s.users))
	keys := 0
	for _, p := range s.passed {
		if len(byKey[p.key]) == 0 {
			keys++
		}
		byKey[p.key] = append(byKey[p.key], p)
	}
	once := s.lastOnce * s.others.beyond(s.others.fills-s.others.unit)
	var sum toll
	step := max(1, float64(len(s.passed))/float64(keys)*float64(len(s.passed))/rememberedRequests)
	g := lag{&s.others, make([]float64, len(s.others.steps)), make([]float64, len(s.others.steps))}
	at := s.random.Float64() * step
	for _, passed := range byKey {
		if at += float64(len(passed)); at < step {
			continue
		}
		picks := float64(int(at / step))
		at -= picks * step
		clear(g.chances)
		sum.add(s.follow(&g, passed, s.slower(s.keys[passed[0].key].rate)), picks*step/float64(len(passed)))
	}
	return ratio(sum.denied+once, sum.innocent+s.lastOnce), ratio(sum.lost+once, sum.units+s.lastOnce)
}

// toll is what some requests ask for and what they do not get: requests of an innocent key,
// those of them that are denied, units that the exact algorithm admits, those of them that
// the limiter does not.
type toll struct{ innocent, denied, units, lost float64 }

func (t *toll) add(u toll, weight float64) {
	t.innocent += weight * u.innocent
	t.denied += weight * u.denied
	t.units += weight * u.units
	t.lost += weight * u.lost
}

// slower returns the chance that a key of so many requests a window is slower to take a unit
// that has flowed than those which keep the cells of all of its rows full. Each of these is a
// key above the limit.
func (s *bucketSimulation) slower(rate float64) float64 {
	faster := len(s.fast) - sort.SearchFloat64s(s.fast, rate)
	return math.Pow(ratio(float64(faster), float64(len(s.fast))), float64(s.limiter.dims.Depth))
}

// follow follows a key through its requests, of which those of the last window count.
func (s *bucketSimulation) follow(g *lag, passed []passage, slower float64) (sum toll) {
	full, requests := int64(0), 0.0
	for _, p := range passed {
		if p.counted {
			requests += float64(p.n)
		}
	}
	for _, p := range passed {
		idle := max(0, p.at-full)
		full = p.at + p.ahead + s.flows(p.admits)
		innocent := min(p.n, max(0, (s.Burst()+1)/2-s.used(p.ahead))) // the others come when it has used half
		t := toll{units: float64(p.admits), innocent: float64(innocent)}
		if p.admits == p.n || s.bursts {
			g.meet(float64(p.ahead), float64(idle))
			t.lost, t.denied = g.lose(s.others.fills-float64(full-p.at), p.admits, innocent)
		} else {
			clear(g.chances)
			t.lost = t.units * slower * s.raced(requests)
			t.denied = min(t.lost, t.innocent)
		}
		if p.counted {
			sum.add(t, 1)
		}
	}
	return sum
}

// raced returns which share of its units a key loses that takes each as soon as it has flowed,
// with so many requests a window: others, who do the same in all of its cells, are faster.
func (s *bucketSimulation) raced(requests float64) (share float64) {
	const parts = 32
	room := min(s.others.fills, s.others.unit*(1+float64(s.limit)/max(1, requests)))
	for i := range parts {
		share += s.others.beyond(s.others.fills - room*(1-(float64(i)+0.5)/parts))
	}
	return min(1, share/parts*room/s.others.unit)
}
