package engine

import (
	"sync/atomic"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Spare is what the engines of a limiter share that spares keys beyond the plan.
//
// Each shard begins by itself, when it is about to deny a key whose own units do not certify that, and a look at its cells
// shows that too many light keys would be denied. From then on it reads and counts in its table alone, and denies certified
// keys: those that have used their limit by what their entries have counted of their own. Keys without an entry compete for
// one, see compete. It ends with a generation in which less has come than in the window before it began.
type Spare struct {
	Rate   float64 // of false denials from which on a shard spares
	Lowest int64   // limit that the rate of new keys is for
	Grow   func()  // makes the limiter larger, soon; nil if it does not grow

	full atomic.Bool // nothing larger can be had now

	mu    invariants.Mutex
	since int64 // when it began the last time, unix ns
	last  int64 // latest generation in which a shard spared, if there was any; of a bucket unix time, ns
	times uint64
	units uint64 // see Episode: of shards that have ended
	ends  uint64 // how often units were added
	told  uint64 // units, the most: they never become fewer
}

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

// begin notes that a shard begins to spare.
func (s *Spare) begin(p rotating.Position, rule *Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times == 0 || p.Generation > s.last+int64(rule.Ring.Buffers()) {
		s.times++
		s.since = rule.Timeline.UnixNano(p)
	}
	s.last = max(s.last, p.Generation)
}

// goOn notes that a shard goes on in a generation. Those of copies tell nobody.
func (s *Spare) goOn(generation int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, generation)
}

// ended adds the units of a shard of which all generations have gone in which it spared.
func (s *Spare) ended(units uint64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(units)
}

// add adds units to those of the past.
func (s *Spare) add(units uint64) { s.units, s.ends = s.units+units, s.ends+1 }

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
	// SpareBytes are the bytes that a shard takes beside to spare keys.
	SpareBytes = 8 * spareWords
	momentUnit = 1 << 32
	// averaged is the part of a window over which the rate is averaged. At the end of a fixed window within the plan it may be
	// high for a moment, which denies hardly anybody.
	averaged = 1. / 4
)
