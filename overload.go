package sketchlimit

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
)

// Overload is what a [Limiter] does when more comes than its memory is for. A limiter
// with [Config.MaxMemoryBytes] grows first. docs/overload.md says which setting to
// choose.
type Overload int

const (
	// Deny denies whatever is not shown to be within the limit. It never admits too
	// much, and denies ordinary clients more often the more traffic exceeds the plan.
	Deny Overload = iota
	// DenyProven denies, beyond the plan, only keys that are certified to be above
	// their limit: those whose own units the heavy table has counted. All others are
	// admitted, so a heavy key may get more than its limit, until it has won an entry
	// of the table. Within the plan DenyProven is Deny. What it has done is in
	// [OverCapacity].
	//
	// Each shard begins by itself, when the false-denial rate of new keys at the mean
	// cost, averaged over a quarter of a window, has passed ten times
	// [Config.FalseDenialRate], and ends with a window, when that load has gone. The
	// table has a quarter of the memory of all else for it, from construction on, and
	// decisions allocate nothing.
	//
	// In a TokenBucket an unseen key that finds no place takes that of the key whose
	// bucket is full first; that key may then get its units again.
	DenyProven
)

// String returns the setting's name.
func (o Overload) String() string {
	switch o {
	case Deny:
		return "deny"
	case DenyProven:
		return "deny_proven"
	}
	return fmt.Sprintf("Overload(%d)", int(o))
}

// OverCapacity counts what [DenyProven] has done.
type OverCapacity struct {
	// Active reports whether some shards are over capacity: they deny only keys that are
	// proven to be above their limit.
	Active bool
	// Since is when that began, by the limiter's clock, the last time; the zero Time if
	// it never did.
	Since time.Time
	// Exact is from when on nothing is over-admitted any more, if Active stays false:
	// one window after the end, or twice the time in which a bucket fills. The zero
	// Time while it is Active, or if it never was.
	Exact time.Time
	// Times counts how often it began.
	Times uint64
	// Units were admitted since construction by shards over capacity, until they were
	// exact again; of a TokenBucket, had not flowed back to keys that gave way. Over
	// all keys, no more than that was used above limits.
	Units uint64
}

// overCapacityFrom is the multiple of Config.FalseDenialRate from which on a shard is
// over capacity.
const overCapacityFrom = 10

// check refuses a DenyProven that a checked Config cannot have.
func (o Overload) check(c *Config) error {
	switch {
	case o < Deny || o > DenyProven:
		return fmt.Errorf("sketchlimit: Overload %d, must be Deny or DenyProven", int(o))
	case o == Deny:
		return nil
	case c.Algorithm == TokenBucket:
		return nil
	case c.SubWindows > 1:
		return fmt.Errorf("sketchlimit: Overload %v with SubWindows %d, must be at most 1", o, c.SubWindows)
	case !heavyhitter.FitsOffered(c.Limit):
		return fmt.Errorf("sketchlimit: Overload %v with Limit %d, must be 2 … %d", o, c.Limit, maxLimitDenyProven)
	case c.Plan != nil && c.Plan.HeavyEntries == 0:
		return fmt.Errorf("sketchlimit: Overload %v with Plan.HeavyEntries 0, must be above 0", o)
	}
	return nil
}

// maxLimitDenyProven is the greatest limit of a limiter over capacity: the entries of
// its heavy table count each key twice.
const maxLimitDenyProven = 1<<14 - 1
