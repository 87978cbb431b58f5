package tune

import (
	"fmt"
	"math"
	"sync"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
)

// search looks for the plan that reaches the goal of an evaluator.
type search struct{ *evaluator }

// breakingMargin is the multiple of the stated traffic below which a plan for a rate
// has no breaking point: 2, and 10 % for the error of a simulation.
const breakingMargin = 2.2

// improvementRounds are the improvements of a shape, each of all its parts.
const improvementRounds = 2

// bySimulation returns the plan for traffic that is described.
func (s *search) bySimulation() (spec.Dimensions, error) {
	if s.goal.FalseDenialRate == 0 && s.goal.LostShare == 0 {
		best, _ := s.improve(s.goal.MemoryBytes, s.need.Shape(s.goal.MemoryBytes))
		return s.need.Spend(s.goal.MemoryBytes, best)
	}
	memory, best, err := s.least()
	if err != nil {
		return spec.Dimensions{}, err
	}
	if most := s.goal.MemoryBytes; most > 0 && memory > most {
		best, _ = s.improve(most, best)
		plan, _ := s.need.Spend(most, best)
		e := s.stated(plan).expected
		return spec.Dimensions{}, fmt.Errorf("tune: Goal.MemoryBytes %d, must be at least %d for that goal; it gives FalseDenialRate %.1g and LostShare %.1g",
			most+s.audit, memory+s.audit, e.FalseDenialRate, e.LostShare)
	}
	return s.need.Spend(memory, best)
}

// secured adds memory, ever more, until a simulation as large as the forecast's reaches
// the goal: what is rare, such as a full bucket of heavy keys, may be missing from
// those of the search. Low limits may err more under even traffic than in bursts, so
// the goal is reached for that as well.
func (s *search) secured(memory int, how sizing.Shape) (int, error) {
	for factor := 1.05; ; factor *= factor {
		plan, err := s.need.Spend(memory, how)
		if err != nil {
			return 0, err
		}
		reached := s.missed(s.stated(plan).expected) <= 1
		if reached && s.calm != nil {
			reached = s.missed(s.calm.stated(plan).expected) <= 1
		}
		if reached {
			return memory, nil
		}
		if memory = int(min(float64(memory)*factor, spec.MaxMemory+1)); memory > spec.MaxMemory {
			return 0, s.unreachable()
		}
	}
}

func (s *search) unreachable() error {
	return fmt.Errorf("tune: Goal.FalseDenialRate %v and LostShare %v take more than %d bytes",
		s.goal.FalseDenialRate, s.goal.LostShare, spec.MaxMemory)
}

// least returns the least memory that reaches the goal, to 3 %, and how it is spent.
// What an improvement is worth small simulations tell with some luck: the usual shape
// is tried as well.
func (s *search) least() (memory int, best sizing.Shape, err error) {
	smallest := s.smallest()
	memory = max(smallest, int(float64(s.traffic.Keys)*float64(s.need.Rule.Generations())/2))
	best = s.need.Shape(memory)
	// Twice as much or half as much, until the goal lies in between; then what
	// suits there is taken to the edge.
	for down := s.reached(memory, best); ; {
		next := memory * 2
		if down {
			next = max(memory/2, smallest)
		}
		if next > spec.MaxMemory {
			return 0, sizing.Shape{}, s.unreachable()
		}
		if next == memory {
			memory, err = s.secured(memory, best)
			return memory, best, err
		}
		if reached := s.reached(next, best); reached != down {
			memory = max(memory, next)
			break
		}
		memory = next
	}
	usual := best
	best, _ = s.improve(int(float64(memory)/math.Sqrt2), best)
	least, err := s.secured(s.down(memory, best), best)
	if err != nil || usual == best {
		return least, best, err
	}
	if other, err := s.secured(s.down(memory, usual), usual); err == nil && other < least {
		return other, usual, nil
	}
	return least, best, nil
}

// down returns the least memory down to half of what is enough that reaches the goal,
// to 3 %.
func (s *search) down(enough int, how sizing.Shape) int {
	least := float64(enough)
	for step := least / 2; step > float64(enough)/40; step /= 2 {
		if next := max(int(least-step), s.smallest()); s.reached(next, how) {
			least = float64(next)
		}
	}
	return int(least)
}

// reached reports whether the goal is reached with memory bytes.
func (s *search) reached(memory int, how sizing.Shape) bool {
	return s.miss(memory, how, math.Nextafter(1, 2)) <= 1
}

// improve returns what comes closest to the goal with so much memory: each part in turn
// takes the value that does best, as long as that helps.
func (s *search) improve(memory int, best sizing.Shape) (sizing.Shape, float64) {
	miss := s.miss(memory, best, math.Inf(1))
	for range improvementRounds {
		before := miss
		for _, variants := range s.variants(best) {
			misses := make([]float64, len(variants))
			var all sync.WaitGroup
			for i, v := range variants {
				all.Go(func() { misses[i] = s.miss(memory, v, miss) })
			}
			all.Wait()
			for i, m := range misses {
				if m < miss {
					best, miss = variants[i], m
				}
			}
		}
		if !(miss < before*0.8) { // also where both are infinite, or 0
			break
		}
	}
	return best, miss
}

// variants returns the sizing.Shapes that differ from one in one part.
func (s *search) variants(from sizing.Shape) (groups [][]sizing.Shape) {
	vary := func(change func(*sizing.Shape) bool) []sizing.Shape {
		v := from
		if !change(&v) {
			return nil
		}
		return []sizing.Shape{v}
	}
	var depths, filters, probes, heavies, thresholds []sizing.Shape
	if s.goal.Algorithm == sketchlimit.TokenBucket {
		for _, entries := range timetable.Entries {
			depths = append(depths, vary(func(v *sizing.Shape) bool { v.Depth = entries; return from.Depth != entries })...)
		}
		return [][]sizing.Shape{depths}
	}
	for rows := 2; rows <= 6 && s.goal.Limit > 1; rows++ {
		depths = append(depths, vary(func(v *sizing.Shape) bool {
			different := v.Depth != rows
			v.Depth = rows
			return different
		})...)
	}
	switch {
	case s.goal.Limit == 1:
		for _, step := range []int{-1, 1, 3} {
			probes = append(probes, vary(func(v *sizing.Shape) bool { v.Probes += step; return v.Probes >= 1 && v.Probes <= 12 })...)
		}
	case from.Probes == 1:
		filters = append(filters, from.FilterFirst())
	default:
		filters = append(filters, vary(func(v *sizing.Shape) bool { v.Probes = 1; return true })...)
		for _, factor := range []float64{0.5, 0.75, 1.4, 2} {
			filters = append(filters, vary(func(v *sizing.Shape) bool { v.Filter *= factor; return v.Filter < 0.9 })...)
		}
		for _, step := range []int{-1, 1, 3} {
			probes = append(probes, vary(func(v *sizing.Shape) bool { v.Probes += step; return v.Probes >= 2 && v.Probes <= 12 })...)
		}
	}
	if s.need.HeavyTable() {
		for _, share := range []float64{0, 0.06, 0.12, 0.25, 0.4, 0.6} {
			heavies = append(heavies, vary(func(v *sizing.Shape) bool {
				different := v.Heavy != share
				v.Heavy = share
				return different
			})...)
		}
		for _, factor := range []float64{0.5, 2} {
			thresholds = append(thresholds, vary(func(v *sizing.Shape) bool {
				v.Threshold = int(float64(v.Threshold) * factor)
				return v.Threshold >= 4 && v.Threshold <= s.goal.Limit
			})...)
		}
	}
	return [][]sizing.Shape{heavies, depths, filters, probes, thresholds}
}

// miss returns how far a plan is from the goal: the greatest ratio of what is expected
// to what is wanted, 1 or less if the goal is reached. Where it is found to be at least
// enough, it may be more than what is returned.
func (s *search) miss(memory int, how sizing.Shape, enough float64) float64 {
	plan, err := s.need.Spend(memory, how)
	if err != nil {
		return math.Inf(1)
	}
	miss := s.denied(plan, breakingMargin) / breakingRate
	if miss >= enough {
		return miss
	}
	return max(miss, s.missed(s.expect(plan, 1, searchEvents)))
}
