package spec

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Never is the RetryAfter of a request that no amount of waiting makes admissible.
const Never = windowmath.Never

// Verdict is a decision in the four words that the compiler keeps in registers. Its
// durations are counted from the position that was asked for.
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

// Later returns a duration, unless it is 0 or Never, for a caller who counts from a
// time that is earlier by lag.
func Later(d, lag time.Duration) time.Duration {
	if d == 0 || d == Never {
		return d
	}
	return d + min(lag, Never-1-d)
}

// Tighter reports whether v leaves less than u does.
func (v Verdict) Tighter(u Verdict) bool {
	switch {
	case v.Allowed != u.Allowed:
		return u.Allowed
	case v.Allowed && v.Remaining != u.Remaining:
		return v.Remaining < u.Remaining
	}
	return v.RetryAfter > u.RetryAfter
}

// coarseSteps are the steps in which a coarse rule tells what a key has used.
const coarseSteps = 4

// Coarse returns what is told of a verdict so that who asks does not learn by a unit or
// two which keys share counters. ResetAfter is that of a quota that is used up now.
// Remaining is in steps. Even an unused quota is told as one step less: otherwise one
// unit could be told from none. RetryAfter is exact: a request is only denied where its
// quota is used up, by all that is counted.
func (v Verdict) Coarse(quota int64, reset time.Duration) Verdict {
	if v.Remaining > 0 {
		step := (quota + coarseSteps - 1) / coarseSteps
		used := (quota-int64(v.Remaining))/step + 1
		v.Remaining = int(max(1, quota-used*step))
	}
	v.ResetAfter = max(v.ResetAfter, reset)
	return v
}
