package sketchlimit

import (
	"fmt"
	"time"
)

// Overload is what a [Limiter] does when more comes than its memory is for.
type Overload int

const (
	// Deny denies what cannot be shown to be within the limit: it never admits too much, and denies ordinary clients
	// the more often, the more there is beyond the plan.
	Deny Overload = iota
	// Spare denies, beyond the plan, only keys that are certified to be above their limit: those whose own units the
	// heavy table has counted. All others are admitted, so a heavy key may get more than its limit. Within the plan it
	// is Deny. See [Spared].
	Spare
)

// String returns the setting's name.
func (o Overload) String() string {
	switch o {
	case Deny:
		return "deny"
	case Spare:
		return "spare"
	}
	return fmt.Sprintf("Overload(%d)", int(o))
}

// Spared tells what [Spare] has done.
type Spared struct {
	// Active tells that some keys are spared now: only those are denied that are certified to be above their limit.
	Active bool
	// Since is when that began, by the limiter's clock, the last time; the zero Time if it never did.
	Since time.Time
	// Exact is from when on nothing is over-admitted any more, if Active stays false: one window after the end. The
	// zero Time while it is Active, or if it never was.
	Exact time.Time
	// Times counts how often it began.
	Times uint64
	// Units were admitted since construction although they could not be shown to be within the limit.
	Units uint64
}
