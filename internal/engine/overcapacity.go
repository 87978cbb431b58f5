package engine

import (
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// A limiter that denies, over capacity, only keys that are proven over their limit decides that for each shard.
//
// Each shard begins by itself, when it is about to deny a key whose own units do not certify that, and a look at its cells
// shows that too many light keys would be denied. From then on it reads and counts in its table alone, and denies certified
// keys: those that have used their limit by what their entries have counted of their own. Keys without an entry compete for
// one, see compete. It ends with a generation in which less has come than in the window before it began.

// spareState is a shard's, in words of its memory.
type spareState struct {
	mode   mode
	turns  int32   // settling: generations that are left
	from   uint64  // units admitted when it began
	now    int64   // of the current generation: entries that were taken over, and times momentUnit the moment of the last look
	before int64   // units of the generation before
	looked uint64  // units admitted when it looked last
	start  uint64  // units admitted when the current generation began
	bears  int64   // units of a window when it began to spare
	rate   float64 // of false denials, averaged over a recent part of a window: as of the last look
}

// mode is how a shard decides that may spare keys.
type mode int32

const (
	exactly  mode = iota // it denies what cannot be shown to be within the limit
	sparing              // it denies what is certified to be above
	settling             // exactly, while generations still count in which it spared
)

// saved makes a copy of the state one of a shard that has admitted nothing yet.
func (s *spareState) saved(admitted uint64) {
	s.start, s.looked, s.from = s.start-admitted, s.looked-admitted, s.from-admitted
}

// average returns the average rate when one is found after a part of a window. A shard looks when it denies, so where it
// has not for long, the rate was less.
func (s *spareState) average(rate, passed float64) float64 {
	return s.rate*max(0, 1-passed/averaged) + rate*min(passed, 1./64)/averaged
}

const (
	spareWords = int(unsafe.Sizeof(spareState{})) / 8
	momentUnit = 1 << 32
	// averaged is the part of a window over which the rate is averaged. At the end of a fixed window within the plan it may be
	// high for a moment, which denies hardly anybody.
	averaged = 1. / 4
)

// Episode returns the last time that the limiter was over capacity, at a position or later.
func (e *Engine) Episode(p rotating.Position) overcapacity.Episode {
	switch {
	case e.OverCapacity == nil:
		return overcapacity.Episode{}
	case e.Evicts():
		return e.OverCapacity.LastEvicted(e.Timeline.UnixNano(p), e.Fills())
	}
	active := func() (on bool, units uint64) {
		for one := e; one != nil; one = one.before() {
			active, more := one.overCapacityUnits(p)
			on, units = on || active, units+more
		}
		return on, units
	}
	return e.OverCapacity.Last(active, func(generation int64) int64 {
		return e.Timeline.UnixNano(rotating.Position{Generation: generation + int64(e.Ring.Buffers())})
	})
}

// overCapacityUnits reports whether a shard is over capacity that a request would not find to have ended, at a position or
// later, and returns the units of all shards.
func (e *Engine) overCapacityUnits(p rotating.Position) (on bool, units uint64) {
	for i := range e.shards {
		r := e.request(i, 0)
		r.s.mu.Lock()
		s := r.state()
		on = on || s.mode == sparing && r.s.number+1 >= p.Generation
		if s.mode != exactly {
			units += r.s.admitted - s.from
		}
		r.s.mu.Unlock()
	}
	return on, units
}

var _ = [1]struct{}{}[unsafe.Sizeof(spareState{})-spec.StateBytes] // are as large
