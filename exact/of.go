package exact

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/inside"
)

// Of returns the exact limiter for a Config. It uses Limit, LowestLimit, Window,
// Algorithm, SubWindows, Burst and Clock as sketchlimit.New does; the other fields
// concern the memory and errors of sketches and are ignored. Buckets have no
// LowestLimit: they deny requests with a lower limit, and middleware refuses a function
// that returns such limits.
func Of(c sketchlimit.Config, options ...Option) (Limiter, error) {
	if c.Clock != nil {
		options = append([]Option{Clock(c.Clock)}, options...)
	}
	switch {
	case c.Window < time.Millisecond:
		return nil, fmt.Errorf("exact: Window %v, must be at least 1ms%s", c.Window, inside.Unitless(c.Window))
	case c.LowestLimit < 0 || c.LowestLimit > c.Limit:
		return nil, fmt.Errorf("exact: LowestLimit %d, must be 0 … Limit %d", c.LowestLimit, c.Limit)
	case c.Algorithm == sketchlimit.TokenBucket:
		return NewGCRA(c.Limit, c.Window, cmp.Or(c.Burst, c.Limit), options...)
	case c.Algorithm == sketchlimit.FixedWindow:
		l, err := NewFixedWindow(c.Limit, c.Window, options...)
		return lowest(l, err, c.LowestLimit)
	case c.Algorithm == sketchlimit.SlidingWindow && c.SubWindows > 1:
		l, err := NewSlots(c.Limit, c.Window, c.SubWindows, options...)
		return lowest(l, err, c.LowestLimit)
	case c.Algorithm == sketchlimit.SlidingWindow:
		l, err := NewSlidingWindow(c.Limit, c.Window, options...)
		return lowest(l, err, c.LowestLimit)
	}
	return nil, fmt.Errorf("exact: algorithm %v: it has no exact form", c.Algorithm)
}

// lowest sets the lowest limit that a request may come with; 0 is none below the limit.
func lowest[L interface {
	Limiter
	setLowest(int)
}](l L, err error, n int) (Limiter, error) {
	if err != nil {
		return nil, err
	}
	l.setLowest(n)
	return l, nil
}

func (k *keyed[S]) setLowest(n int) { k.lower, k.lowest = n > 0, n }
