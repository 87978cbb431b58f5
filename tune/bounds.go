package tune

import (
	"fmt"

	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// keysOfByte bounds the keys that share a byte of a generation. A simulation sends its smallest part of a limiter their
// share of the traffic: with more keys to a byte it would never end, and hardly a limit could be held in so little.
const keysOfByte = 16

// smallest returns the least memory that is planned and predicted.
func (s *search) smallest() int {
	bytes := s.traffic.distinct(s.goal.Limit) * float64(s.need.Rule.Generations()) / keysOfByte
	return max(s.need.Smallest(), int(min(bytes, spec.MaxMemory+1)))
}

// bounded refuses a goal of less memory than that.
func (s *search) bounded() error {
	if given := s.goal.MemoryBytes; given > 0 && given < s.smallest() {
		return fmt.Errorf("tune: Goal.MemoryBytes %d, %w", given+s.audit, s.crowded())
	}
	return nil
}

func (s *search) crowded() error {
	return fmt.Errorf("must be at least %d for %.0f keys in a window", s.smallest(), s.traffic.distinct(s.goal.Limit))
}

// distinct returns the keys of a window at most, those that come once included.
func (t *Traffic) distinct(limit int) float64 {
	if t.OneHit == 0 {
		return float64(t.Keys)
	}
	return float64(t.Keys) + t.OneHit*t.requests(limit)
}
