package exact

import (
	"math/bits"
	"time"
)

// maxCount is where the count of a generation saturates, far above any limit, so
// that the sum over all slots is an int64.
const maxCount = 1 << 46

// SlidingWindow admits n units while
//
//	count(current) + count(previous) × (1 − elapsed/window) + n ≤ limit
//
// compared without rounding, in windows that begin at multiples of their length
// since the Unix epoch. Published versions round the product: down admits a unit
// too many now and then, up denies one that fits.
//
// It approximates [SlidingLog] by taking the previous window's units as spread
// evenly; where they were not, a span of one window may hold up to twice the limit,
// or less than it. RetryAfter lies in this window if the previous count's decay
// suffices, else in the next, where the current count is the previous one. Charges
// are counted up to 1<<46 units a window. Memory: 24 bytes a key and the map around
// them.
//
// Sources: Cloudflare, "How we built rate limiting capable of scaling to millions of
// domains" (2017); Kong, "How to design a scalable rate limiting algorithm" (2017).
type SlidingWindow struct {
	keyed[windowPair]
	window int64
}

type windowPair struct{ generation, current, previous int64 }

// NewSlidingWindow returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, for every key.
func NewSlidingWindow(limit int, window time.Duration) (*SlidingWindow, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	w := &SlidingWindow{window: int64(window)}
	w.init(w, limit, window, windowPair{})
	return w, nil
}

// at returns the state turned to the generation of t, and how far into it t lies.
func (w *SlidingWindow) at(s windowPair, t int64) (windowPair, int64) {
	generation, elapsed := split(t, w.window)
	switch generation - s.generation {
	case 0:
	case 1:
		s = windowPair{generation, 0, s.current}
	default:
		s = windowPair{generation, 0, 0}
	}
	return s, elapsed
}

func (w *SlidingWindow) wait(s windowPair, t, n int64) time.Duration {
	s, elapsed := w.at(s, t)
	if free := w.limit - n - s.current; free >= 0 {
		return time.Duration(max(0, decay(s.previous, free, w.window)-elapsed))
	}
	return time.Duration(w.window - elapsed + decay(s.current, w.limit-n, w.window))
}

func (w *SlidingWindow) left(s windowPair, t int64) (int64, time.Duration) {
	s, elapsed := w.at(s, t)
	units := w.limit - s.current - weighted(s.previous, elapsed, w.window)
	switch {
	case s.current > 0:
		return units, time.Duration(2*w.window - elapsed)
	case s.previous > 0:
		return units, time.Duration(w.window - elapsed)
	}
	return units, 0
}

func (w *SlidingWindow) spend(s windowPair, t, n int64) windowPair {
	s, _ = w.at(s, t)
	s.current += min(n, maxCount-s.current)
	return s
}

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

func (w *SlidingWindow) since(windowPair) int64 { return -maxTime } // keyed knows the latest generation
