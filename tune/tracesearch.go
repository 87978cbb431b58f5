package tune

import (
	"fmt"

	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// traceStep is by what the search for the least memory goes up and down.
const traceStep = 1.25

// byReplay returns the plan for a trace. A simulation of its fullest window tells which
// shape suits the traffic; how much memory it takes, replays of the whole trace do, and
// whether the usual shape does with less.
func (s *search) byReplay() (spec.Dimensions, error) {
	most := s.goal.MemoryBytes
	if s.goal.FalseDenialRate == 0 && s.goal.LostShare == 0 {
		usual := s.need.Shape(most)
		best, _ := s.improve(most, usual)
		return s.lesser(most, usual, best)
	}
	start, best, err := s.least()
	if err != nil {
		return spec.Dimensions{}, err
	}
	memory, err := s.leastOfTrace(s.sample, start, best)
	if err != nil {
		return spec.Dimensions{}, err
	}
	if usual := s.need.Shape(start); usual != best {
		if other, err := s.leastOfTrace(s.sample, memory, usual); err == nil && other < memory {
			memory, best = other, usual
		}
	}
	if s.sample != s.replays {
		if memory, err = s.leastOfTrace(s.replays, memory, best); err != nil {
			return spec.Dimensions{}, err
		}
	}
	if most > 0 && memory > most {
		d, err := s.need.Spend(most, best)
		if err != nil {
			return spec.Dimensions{}, err
		}
		denied, lost := s.replays.expected(d, 1, s.replays.runs)
		return spec.Dimensions{}, fmt.Errorf("tune: Goal.MemoryBytes %d, must be at least %d for that goal; it gives FalseDenialRate %.1g and LostShare %.1g",
			most+s.audit, memory+s.audit, denied, lost)
	}
	return s.need.Spend(memory, best)
}

// lesser returns that of two shapes which errs less in replays.
func (s *search) lesser(memory int, a, b sizing.Shape) (spec.Dimensions, error) {
	best, err := s.need.Spend(memory, a)
	if err != nil || a == b {
		return best, err
	}
	other, err := s.need.Spend(memory, b)
	if err != nil {
		return best, nil
	}
	miss := func(d spec.Dimensions) float64 {
		denied, lost := s.likeness(d).expected(d, 1, s.replays.runs)
		return s.missed(Expected{FalseDenialRate: denied, LostShare: lost})
	}
	if miss(other) < miss(best) {
		return other, nil
	}
	return best, nil
}

// leastOfTrace returns the least memory for a shape at which replays reach the goal, to
// a fifth, beginning the search at a guess.
func (s *search) leastOfTrace(r *replays, guess int, how sizing.Shape) (int, error) {
	smallest := s.smallest()
	memory := max(guess, smallest)
	if s.holds(r, memory, how) {
		for memory > smallest {
			next := max(int(float64(memory)/traceStep), smallest)
			if !s.holds(r, next, how) {
				break
			}
			memory = next
		}
		return memory, nil
	}
	for {
		if memory = int(traceStep * float64(memory)); memory > spec.MaxMemory {
			return 0, s.unreachable()
		}
		if s.holds(r, memory, how) {
			return memory, nil
		}
	}
}

// holds reports whether replays reach the goal with memory bytes at the multiple of the
// traffic that the goal states, and whether the breaking point lies above twice the
// trace.
func (s *search) holds(r *replays, memory int, how sizing.Shape) bool {
	d, err := s.need.Spend(memory, how)
	if err != nil || s.likeness(d).denies(d, breakingMargin) {
		return false
	}
	if r == s.sample {
		r = s.likeness(d)
	}
	_, holds := r.all(scaleDimensions(d, 1/(r.load*s.goal.Headroom)), searchSeed, r.runs, r.reaches)
	return holds
}
