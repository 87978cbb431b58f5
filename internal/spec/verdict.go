package spec

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Never is the RetryAfter of a request that no amount of waiting makes admissible.
const Never = windowmath.Never

// Verdict is a decision in the four words that the compiler keeps in registers. Its durations
// are counted from the position that was asked for.
type Verdict struct {
	Allowed                bool
	Remaining              int
	RetryAfter, ResetAfter time.Duration
}

// After returns the verdict for a caller who counts from a time that is earlier by lag.
func (v Verdict) After(lag time.Duration) Verdict {
	v.RetryAfter, v.ResetAfter = Later(v.RetryAfter, lag), Later(v.ResetAfter, lag)
	return v
}

// Later returns a duration, unless it is 0 or Never, for a caller who counts from a time that is earlier by lag.
func Later(d, lag time.Duration) time.Duration {
	if d == 0 || d == Never {
		return d
	}
	return d + min(lag, Never-1-d)
}

// Tighter tells whether v leaves less than u does.
func (v Verdict) Tighter(u Verdict) bool {
	switch {
	case v.Allowed != u.Allowed:
		return u.Allowed
	case v.Allowed && v.Remaining != u.Remaining:
		return v.Remaining < u.Remaining
	}
	return v.RetryAfter > u.RetryAfter
}
