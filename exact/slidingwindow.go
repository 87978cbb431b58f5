package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

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
	keyed[exactmath.WindowPair]
}

// NewSlidingWindow returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, for every key.
func NewSlidingWindow(limit int, window time.Duration, options ...Option) (*SlidingWindow, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	w, r := new(SlidingWindow), exactmath.NewSlidingWindow(int64(limit), int64(window))
	return orNil(w, w.init(&r, ofWindow(limit, window, window), exactmath.WindowPair{}, options))
}
