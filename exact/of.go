package exact

import (
	"cmp"
	"fmt"

	"github.com/sketchlimit/sketchlimit"
)

// Of returns the exact form of the limiter that a Config asks for.
func Of(c sketchlimit.Config) (Limiter, error) {
	switch {
	case c.Algorithm == sketchlimit.FixedWindow:
		return NewFixedWindow(c.Limit, c.Window)
	case c.Algorithm == sketchlimit.SlidingWindow && c.SubWindows > 1:
		return NewSlots(c.Limit, c.Window, c.SubWindows)
	case c.Algorithm == sketchlimit.SlidingWindow:
		return NewSlidingWindow(c.Limit, c.Window)
	case c.Algorithm == sketchlimit.TokenBucket:
		return NewGCRA(c.Limit, c.Window, cmp.Or(c.Burst, c.Limit))
	}
	return nil, fmt.Errorf("exact: algorithm %v: it has no exact form", c.Algorithm)
}
