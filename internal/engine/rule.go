package engine

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Rule is what is limited. Window has the generations, also those of a bucket.
type Rule struct {
	windowmath.Window
	limit  int64
	reach  int64 // units of a key that may be in use, or in a window's generation: more than now if limits were higher
	coarse bool
	bucket gcra.Bucket
	spare  *Spare // nil where all is denied that cannot be shown to be within the limit
}

// NewWindow returns the rule of a window that keeps so many generations of a length: 1 for a fixed window,
// one more than its sub-windows for a sliding one.
func NewWindow(limit int, length time.Duration, generations int) Rule {
	return Rule{Window: windowmath.New(length, generations), limit: int64(limit), reach: int64(limit)}
}

// NewBucket returns the rule of a token bucket of burst units, of which limit flow back in span.
// Its generations are as long as its cells reach.
func NewBucket(limit, burst int, span time.Duration) Rule {
	b, length := gcra.New(int64(limit), int64(burst), int64(span))
	return Rule{Window: windowmath.New(length, 1), limit: int64(limit), reach: int64(burst), bucket: b}
}

// Sparing returns the rule of a window that spares keys beyond the plan, see [heavyhitter.FitsOffered].
func (w Rule) Sparing(s *Spare) Rule {
	w.spare = s
	return w
}

// Spares tells whether keys are spared beyond the plan.
func (w *Rule) Spares() bool { return w.spare != nil }

// Limit returns the units per window.
func (w *Rule) Limit() int64 { return w.limit }

// Generations returns how many generations are kept.
func (w *Rule) Generations() int { return w.Ring.Buffers() }

// IsBucket tells a token bucket from a window.
func (w *Rule) IsBucket() bool { return w.bucket.Burst > 0 }

// Burst returns the units in a full bucket; 0 for a window.
func (w *Rule) Burst() int64 { return w.bucket.Burst }

// BurstAt returns the units in a full bucket at a lower limit.
func (w *Rule) BurstAt(limit int64) int64 { return w.bucket.Most(limit, w.limit) }

// Fills returns the time in which an empty bucket fills, ns rounded up.
func (w *Rule) Fills() int64 { return w.bucket.Takes(w.bucket.Burst, w.limit) }

// Span returns the time that the limit is meant for.
func (w *Rule) Span() time.Duration {
	if w.IsBucket() {
		return time.Duration(w.bucket.Span)
	}
	return w.Window.Span()
}

// Grid returns the ns that times are to be multiples of to be whole ticks of a bucket, if times of a
// resolution are such multiples; otherwise, and for a window, 1.
func (w *Rule) Grid(resolution time.Duration) int64 {
	if w.IsBucket() && int64(resolution)%w.bucket.Grid() == 0 {
		return w.bucket.Grid()
	}
	return 1
}

// quota returns the units of a key that has used none, at a limit.
func (w *Rule) quota(limit int64) int64 {
	if w.IsBucket() {
		return w.bucket.Most(limit, w.limit)
	}
	return limit
}

// Counted returns the units by which a request for n units that is denied at a limit raises a statistic: 0 … the quota, so
// that no client's cost can ruin the sum. A request whose limit is 0 counts as one unit.
func (w *Rule) Counted(n, limit int64) uint64 {
	return uint64(max(0, min(n, max(1, w.quota(limit)))))
}
