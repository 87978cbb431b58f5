package sketchlimit

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// WindowManager tells time in generations: spans of one length, aligned to the Unix
// epoch, numbered floor(unix time / length).
//
// Its generations never go back. A time before the latest generation that the
// manager has seen is taken as that generation's first instant, so a clock that
// steps back reopens no window that has closed: until it has caught up, what is
// left of the current quota is all there is. Inside the latest generation times are
// taken as they are. A jump ahead, however far, is a turn like any other.
//
// A WindowManager is safe for concurrent use.
type WindowManager struct {
	clock  func() time.Time
	length int64        // of a generation, ns
	latest atomic.Int64 // the latest generation seen
	turns  atomic.Uint64
}

// Position is a moment as a limiter sees it.
type Position struct {
	Generation int64         // its number since the Unix epoch
	Elapsed    time.Duration // since the generation began: 0 … length-1ns
}

// NewWindowManager returns a manager of generations of the given length (above 0).
// A nil clock is the wall clock at the moment of the call, carried on by the
// monotonic clock: steps of the wall clock do not reach it.
func NewWindowManager(length time.Duration, clock func() time.Time) (*WindowManager, error) {
	if length <= 0 {
		return nil, fmt.Errorf("sketchlimit: generation of %v, must be above 0", length)
	}
	if clock == nil {
		start := time.Now()
		clock = func() time.Time { return start.Add(time.Since(start)) }
	}
	w := &WindowManager{clock: clock, length: int64(length)}
	generation, _ := w.split(clock())
	w.latest.Store(generation)
	return w, nil
}

// Now returns the position of the clock.
func (w *WindowManager) Now() Position { return w.At(w.clock()) }

// At returns the position of now, and makes its generation the latest if it is ahead.
func (w *WindowManager) At(now time.Time) Position {
	generation, elapsed := w.split(now)
	for {
		latest := w.latest.Load()
		if generation == latest {
			return Position{generation, elapsed}
		}
		if generation < latest {
			return Position{latest, 0}
		}
		if w.latest.CompareAndSwap(latest, generation) {
			w.turns.Add(1)
			return Position{generation, elapsed}
		}
	}
}

// Look returns the position that [WindowManager.At] would, and leaves the latest
// generation as it is.
func (w *WindowManager) Look(now time.Time) Position {
	generation, elapsed := w.split(now)
	if latest := w.latest.Load(); generation < latest {
		return Position{latest, 0}
	}
	return Position{generation, elapsed}
}

// Latest returns the latest generation seen.
func (w *WindowManager) Latest() int64 { return w.latest.Load() }

// Turns returns how often a later generation has become the latest; a jump over
// several counts once.
func (w *WindowManager) Turns() uint64 { return w.turns.Load() }

// split returns the generation of a time and how far into it the time lies.
func (w *WindowManager) split(now time.Time) (generation int64, elapsed time.Duration) {
	ns := unixNano(now)
	generation, rest := ns/w.length, ns%w.length
	if rest < 0 { // before 1970: round down, not towards 0
		generation, rest = generation-1, rest+w.length
	}
	return generation, time.Duration(rest)
}

// unixNano is [time.Time.UnixNano], which is undefined for the years before 1678 and
// after 2262, with those years drawn to the ends of the range.
func unixNano(t time.Time) int64 {
	const last = math.MaxInt64/int64(time.Second) - 1
	switch s := t.Unix(); {
	case s > last:
		return math.MaxInt64
	case s < -last:
		return math.MinInt64
	}
	return t.UnixNano()
}
