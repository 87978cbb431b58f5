package exactmath

import (
	"math/bits"
	"time"
)

// maxCount is where the count of a generation saturates, far above any limit, so
// that the sum over all slots is an int64.
const maxCount = 1 << 46

// SlidingWindow admits n units while
// count(current) + count(previous) × (1 − elapsed/window) + n ≤ limit.
type SlidingWindow struct{ limit, window int64 }

// WindowPair is the counts of a generation and of the one before.
type WindowPair struct{ Generation, Current, Previous int64 }

// NewSlidingWindow returns the rule of limit units per window.
func NewSlidingWindow(limit, window int64) SlidingWindow { return SlidingWindow{limit, window} }

// at returns the state turned to the generation of t, and how far into it t lies.
func (w *SlidingWindow) at(s WindowPair, t int64) (WindowPair, int64) {
	generation, elapsed := Split(t, w.window)
	switch generation - s.Generation {
	case 0:
	case 1:
		s = WindowPair{generation, 0, s.Current}
	default:
		s = WindowPair{generation, 0, 0}
	}
	return s, elapsed
}

// Wait implements [Rule]. The time lies in this window if the previous count decays far
// enough, else in the next, where the current count is the previous one.
func (w *SlidingWindow) Wait(s WindowPair, t, n int64) time.Duration {
	s, elapsed := w.at(s, t)
	if free := w.limit - n - s.Current; free >= 0 {
		return time.Duration(max(0, decay(s.Previous, free, w.window)-elapsed))
	}
	return time.Duration(w.window - elapsed + decay(s.Current, w.limit-n, w.window))
}

// Left implements [Rule].
func (w *SlidingWindow) Left(s WindowPair, t int64) (int64, time.Duration) {
	s, elapsed := w.at(s, t)
	units := w.limit - s.Current - weighted(s.Previous, elapsed, w.window)
	switch {
	case s.Current > 0:
		return units, time.Duration(2*w.window - elapsed)
	case s.Previous > 0:
		return units, time.Duration(w.window - elapsed)
	}
	return units, 0
}

// Spend implements [Rule].
func (w *SlidingWindow) Spend(s WindowPair, t, n int64) WindowPair {
	s, _ = w.at(s, t)
	s.Current += min(n, maxCount-s.Current)
	return s
}

// Since implements [Rule]. The caller knows the latest generation.
func (w *SlidingWindow) Since(WindowPair) int64 { return -MaxTime }

// weighted returns ⌈count × (1 − elapsed/length)⌉. To round up loses nothing: whole
// units fit beside the product exactly if they fit beside its ceiling.
func weighted(count, elapsed, length int64) int64 {
	hi, lo := bits.Mul64(uint64(count), uint64(length-elapsed))
	q, r := bits.Div64(hi, lo, uint64(length))
	return int64(q) + btoi(r > 0)
}

// decay returns the first elapsed time at which count × (1 − elapsed/length) ≤ free,
// which is the same as length − elapsed ≤ ⌊free × length / count⌋.
func decay(count, free, length int64) int64 {
	if count <= free {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(length))
	q, _ := bits.Div64(hi, lo, uint64(count))
	return length - int64(q)
}
