package tune

import (
	"math"
	"sync"

	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Range is where luck leaves a rate: of limiters that differ in their seeds alone, one in twenty lies below Low and one
// in twenty above High. It is zero where that is not known.
type Range struct{ Low, High float64 }

// rangeOf returns the range that rates of limiters with different seeds come from. Wrongs come together, so the rates are
// taken as multiples of a Poisson count that has their mean and variance.
func rangeOf(rates []float64) Range {
	n, sum, squares := float64(len(rates)), 0., 0.
	for _, r := range rates {
		sum += r
	}
	mean := sum / n
	for _, r := range rates {
		squares += (r - mean) * (r - mean)
	}
	variance := squares / (n - 1) * (1 + 1/n) // of another one, by a mean that errs as well
	if !(mean > 0 && variance > 0) {
		return Range{}
	}
	each, count := variance/mean, mean*mean/variance
	return Range{each * quantile(count, 0.05), each * quantile(count, 0.95)}
}

// quantile returns that of a Poisson distribution: as a whole number where it is small, and otherwise as the normal one.
func quantile(mean, p float64) float64 {
	if mean > 100 {
		return mean + math.Sqrt(2*mean)*math.Erfinv(2*p-1)
	}
	term := math.Exp(-mean)
	below, n := term, 0.
	for below < p {
		n++
		term *= mean / n
		below += term
	}
	return n
}

const (
	mostSeeds   = 40
	fewestSeeds = 8 // with fewer of them a range would be luck itself
)

// replicas simulates the whole plan request by request under the traffic as stated, with as many seeds as there is time
// for. Of a large plan it is one, and a part.
func (s *search) replicas(plan spec.Dimensions) []*simulation {
	events := min(max(countedEvents, countedKeys*s.events(fine)), mostEvents)
	n := int(min(mostSeeds, events/(float64(s.traffic.Keys)*s.events(fine))))
	sims := make([]*simulation, max(1, n))
	var all sync.WaitGroup
	for i := range sims {
		all.Go(func() { sims[i] = s.simulate(plan, 1, events, fine, nil, tuneSeed+uint64(i)) })
	}
	all.Wait()
	return sims
}

// fewRequests tells whether there is time for enough replicas.
func (s *search) fewRequests() bool {
	return float64(s.traffic.Keys)*s.events(fine)*fewestSeeds <= countedEvents
}

// ranges puts in where the rates of simulations with different seeds lie.
func (e *Expected) ranges(sims []*simulation) {
	if len(sims) < fewestSeeds {
		return
	}
	var denied, withheld []float64
	wronged, robbed := 0, 0
	for _, sim := range sims {
		denied = append(denied, ratio(sim.denied, sim.innocent))
		withheld = append(withheld, max(0, ratio(sim.withheld, sim.units)))
		wronged, robbed = wronged+sim.wrongedKeys, robbed+sim.robbedKeys
	}
	if wronged >= enoughOfAll {
		e.FalseDenialRange = rangeOf(denied)
	}
	if robbed >= enoughOfAll {
		e.WithheldRange = rangeOf(withheld)
	}
}
