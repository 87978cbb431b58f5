package stats

import (
	"iter"
	"math"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/internal/shared"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// section is a copy of what decides on a part of the keys of a window, those of one
// shard or less.
type section struct {
	*engine.Copy
	of          int                    // pieces there are
	predecessor []errorrate.Generation // the generations of a predecessor, or as many that are missing
	share       *shared.Counters       // nil if the limit is not shared
	others      [][]uint64             // its counters of others, by age
}

// sections ranges over an engine and what it has replaced. Their shards have the keys
// in the same order: parts of the keys that share a shard of either are looked at one
// after another.
func sections(e *engine.Engine, p rotating.Position) iter.Seq[*section] {
	return func(yield func(*section) bool) {
		generations := e.Ring.Buffers()
		s := &section{Copy: e.NewCopy(), of: engine.ShardsOf(e).Count(), predecessor: make([]errorrate.Generation, generations), share: shared.Of(e)}
		before, copied := e.Before(), (*engine.Copy)(nil)
		if before != nil {
			s.of, copied = max(s.of, engine.ShardsOf(before).Count()), before.NewCopy()
		}
		if s.share != nil {
			s.others = make([][]uint64, generations)
			for age := range s.others {
				s.others[age] = make([]uint64, s.share.PartWords())
			}
		}
		for i := range s.of {
			s.read(e, i, p)
			if copied != nil {
				copied.Read(i*engine.ShardsOf(before).Count()/s.of, rotating.Position{Generation: math.MinInt64}, nil)
				s.predecessor = errorrate.Aligned(copied.Ages, s.At.Generation-copied.At.Generation)
			}
			if !yield(s) {
				return
			}
		}
	}
}

// read copies the shard of a piece, and its counters of those that share the limit.
func (s *section) read(e *engine.Engine, i int, p rotating.Position) {
	var locked func()
	if s.share != nil {
		locked = func() { s.share.CopyOthers(s.others, i*s.share.Parts()/s.of, p.Generation) }
	}
	s.Read(i*engine.ShardsOf(e).Count()/s.of, p, locked)
}

// unseen returns what decides on an unseen key.
func (s *section) unseen() errorrate.Unseen {
	u := s.Unseen(s.predecessor)
	if s.share != nil {
		u.Others, u.Blocks, u.CounterBits = s.others, s.share.Blocks(), s.share.CellBits()
	}
	return u
}

// denied returns the chance that an unseen key is denied n units at a limit: 0 where a
// shard is over capacity.
func (s *section) denied(n, limit int64) float64 {
	if s.OverCapacity {
		return 0
	}
	u := s.unseen()
	return u.Denied(n, limit)
}

// deniedInWindow is denied, and returns the mean of that chance over a window as well.
func (s *section) deniedInWindow(n, limit int64) (now, mean float64) {
	if s.OverCapacity {
		return 0, 0
	}
	u := s.unseen()
	return u.DeniedInWindow(n, limit)
}
