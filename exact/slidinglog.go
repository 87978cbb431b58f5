package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// SlidingLog admits n units while the units admitted during the last window, plus n,
// are at most limit: the exact sliding window, also called floating window. The
// window is half-open: a unit counts while its age is below window, and a unit of
// age exactly window counts no longer, so that limit units every window pass.
//
// RetryAfter is the age at which enough units have left the window. Times of a key
// do not run backwards: a time before its last admitted request is taken as the
// time of that request. Memory: 16 bytes for every distinct time of admission within
// the window, up to twice that while the log grows, and 32 a key and the map around
// them; a decision takes time in proportion to the logarithm of the log.
type SlidingLog struct {
	keyed[exactmath.TimeLog]
}

// NewSlidingLog returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, for every key.
func NewSlidingLog(limit int, window time.Duration, options ...Option) (*SlidingLog, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	l, r := new(SlidingLog), exactmath.NewSlidingLog(int64(limit), int64(window))
	return orNil(l, l.init(&r, ofWindow(limit, window, 0), exactmath.TimeLog{}, options))
}
