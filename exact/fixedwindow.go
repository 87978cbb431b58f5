package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// FixedWindow admits n units while count + n ≤ limit, counted in windows that begin
// at multiples of their length since the Unix epoch.
//
// It is exact for its own windows; across the edge of two of them, up to twice the
// limit passes within a span of one window. RetryAfter and ResetAfter are both the
// rest of the window. Memory: 16 bytes a key and the map around them.
type FixedWindow struct {
	keyed[exactmath.WindowCount]
}

// NewFixedWindow returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, for every key.
func NewFixedWindow(limit int, window time.Duration, options ...Option) (*FixedWindow, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	f, r := new(FixedWindow), exactmath.NewFixedWindow(int64(limit), int64(window))
	return orNil(f, f.init(&r, ofWindow(limit, window, window), exactmath.WindowCount{}, options))
}
