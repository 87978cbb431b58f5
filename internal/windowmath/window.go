// Package windowmath is the arithmetic of fixed and sliding windows: what counts weigh,
// and when they weigh nothing any more. It counts whole units and nanoseconds. Only the
// answer is rounded, and that against the request.
package windowmath

import (
	"math"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// Never is the RetryAfter of a request that no amount of waiting makes admissible.
const Never time.Duration = math.MaxInt64

// MaxWindow is the longest window, ns: sums of three windows fit an int64.
const MaxWindow = 1 << 61

// Window is a window of generations. A fixed window keeps one generation, a sliding one
// keeps one more than its sub-windows. Ages count from the current generation, which
// has the age 0.
type Window struct {
	Timeline rotating.Timeline
	Ring     rotating.Ring
}

// New returns a window that keeps ≥ 1 generations of a length.
func New(length time.Duration, generations int) Window {
	return Window{rotating.NewTimeline(length), rotating.NewRing(generations)}
}

// Span returns the time that the window covers.
func (w *Window) Span() time.Duration {
	return time.Duration(w.Timeline.Length()) * time.Duration(max(1, w.Ring.Buffers()-1))
}

// Weighted returns how many units of quota a count takes up, rounded up. Of a sliding
// window's generations the oldest counts by the part of it that the window still
// covers. All others, and a fixed window's only one, count in full.
//
// Rounding up loses nothing: for whole n, count×weight + n ≤ free is the same as
// ⌈count×weight⌉ + n ≤ free. At a generation's first instant the weight is 1.
func (w *Window) Weighted(count int64, age int, elapsed time.Duration) int64 {
	if age == 0 || age < w.Ring.Buffers()-1 {
		return count
	}
	length := w.Timeline.Length()
	hi, lo := bits.Mul64(uint64(count), uint64(length-int64(elapsed)))
	q, r := bits.Div64(hi, lo, uint64(length))
	if r > 0 {
		q++
	}
	return int64(q)
}

// WeighsAtMost reports whether a count in the oldest generation of a sliding window
// takes up no more than free units, ≥ 0. It does without a division.
func (w *Window) WeighsAtMost(count int64, elapsed time.Duration, free int64) bool {
	length := w.Timeline.Length()
	hi, lo := bits.Mul64(uint64(count), uint64(length-int64(elapsed)))
	freeHi, freeLo := bits.Mul64(uint64(free), uint64(length))
	return hi < freeHi || hi == freeHi && lo <= freeLo
}

// RetryAfter returns the time from a position until n units are admitted at a limit, if
// nothing else comes; Never if n is not within the limit. count returns the key's count
// in the generation of an age.
//
// It goes through the generations to come. In each, what is now age a has aged by the
// rotations, the oldest left decays, and the rest stays until the next rotation.
func (w *Window) RetryAfter(p rotating.Position, n, limit int64, count func(age int) int64) time.Duration {
	if n < 1 || n > limit {
		return Never
	}
	length, generations := time.Duration(w.Timeline.Length()), w.Ring.Buffers()
	if generations == 1 {
		return length - p.Elapsed
	}
	full := int64(0)
	for age := range generations - 1 {
		full += count(age)
	}
	for rotations := 0; ; rotations++ { // an empty window admits n, so it ends
		if free := limit - n - full; free >= 0 {
			oldest := count(generations - 1 - rotations)
			return time.Duration(rotations)*length + w.decay(oldest, free) - p.Elapsed
		}
		full -= count(generations - 2 - rotations)
	}
}

// decay returns how far into its last generation a count weighs no more than free.
func (w *Window) decay(count, free int64) time.Duration {
	if count <= free {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(w.Timeline.Length()))
	q, _ := bits.Div64(hi, lo, uint64(count))
	return time.Duration(w.Timeline.Length() - int64(q))
}

// ResetAfter returns the time from a position until a key weighs nothing whose youngest
// generation with a count has the age newest; 0 if that is the number of generations,
// and so there is none.
func (w *Window) ResetAfter(p rotating.Position, newest int) time.Duration {
	if newest == w.Ring.Buffers() {
		return 0
	}
	return time.Duration(w.Ring.Buffers()-newest)*time.Duration(w.Timeline.Length()) - p.Elapsed
}
