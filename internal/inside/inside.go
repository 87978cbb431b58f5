// Package inside gives packages of this module what a sketchlimit.Limiter is made of,
// where they decide with it in ways that its methods do not have.
package inside

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/growth"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Parts are what a limiter is made of.
type Parts struct {
	Engine *atomic.Pointer[engine.Engine]
	Hasher *keyhash.Hasher // restoring a snapshot changes it
	Line   rotating.Timeline
	Now    func() (word int64, lag time.Duration)
	Lower  func(limit int) int64 // the limit that a request's own comes to, 0 if it is below the lowest
	Lowest int64                 // limit
	TooLow *atomic.Uint64        // requests with limits below the lowest
	Growth *growth.Growth        // nil unless the limiter grows
}

// Of returns what a *sketchlimit.Limiter is made of. Package sketchlimit sets it.
var Of func(limiter any) Parts

// Locked returns what a limiter of package exact is to a Group: the locks of its keys,
// and decisions under them. It returns nil for any other limiter. Package exact sets
// it, and package sketchlimit knows the type: neither can name it here.
var Locked = func(limiter any) any { return nil }

// Unitless returns what a Duration was probably meant to be that is so short that it
// has no unit: the end of an error.
func Unitless(d time.Duration) string {
	if d <= 0 || d >= 100*time.Microsecond { // a day of seconds is 86.4µs
		return ""
	}
	return fmt.Sprintf(": a number without a unit is nanoseconds, was %d * time.Second meant?", int64(d))
}
