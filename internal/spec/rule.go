// Package spec says what an engine limits and what it is made of: a [Rule], and
// [Dimensions], which are those of a sketchlimit.Plan, with the bytes that they take.
// It has no state.
package spec

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Rule is what is limited. Window has the generations, also those of a bucket.
type Rule struct {
	windowmath.Window
	Limit  int64       // units per window
	Reach  int64       // units of a key that may be in use, or in a window's generation: more than now if limits were higher
	Coarse bool        // decide the same, and tell less of it
	Bucket gcra.Bucket // of no burst for a window
	// OverCapacity is nil where all is denied that cannot be shown to be within the
	// limit. Otherwise a window denies, over capacity, only keys that are proven over
	// it, see [heavyhitter.FitsOffered]; and in a bucket a key that finds no place
	// takes that of the entry which passes first.
	OverCapacity *overcapacity.Episodes
}

// NewWindow returns the rule of a window that keeps so many generations of a length: 1
// for a fixed window, one more than its sub-windows for a sliding one.
func NewWindow(limit int, length time.Duration, generations int) Rule {
	return Rule{Window: windowmath.New(length, generations), Limit: int64(limit), Reach: int64(limit)}
}

// NewBucket returns the rule of a token bucket of burst units, of which limit flow back
// in span. Its generations are as long as its cells reach.
func NewBucket(limit, burst int, span time.Duration) Rule {
	b, length := gcra.New(int64(limit), int64(burst), int64(span))
	return Rule{Window: windowmath.New(length, 1), Limit: int64(limit), Reach: int64(burst), Bucket: b}
}

// Span returns the time that the limit is meant for.
func (w *Rule) Span() time.Duration {
	if w.IsBucket() {
		return time.Duration(w.Bucket.Span)
	}
	return w.Window.Span()
}

// Grid returns the ns that times are to be multiples of to be whole ticks of a bucket,
// if times of a resolution are such multiples; otherwise, and for a window, 1.
func (w *Rule) Grid(resolution time.Duration) int64 {
	if w.IsBucket() && int64(resolution)%w.Bucket.Grid() == 0 {
		return w.Bucket.Grid()
	}
	return 1
}

// DeniesProven reports whether a window denies only proven keys over capacity.
func (w *Rule) DeniesProven() bool { return w.OverCapacity != nil && !w.IsBucket() }

// Evicts reports whether entries of a bucket give way whose times have not passed.
func (w *Rule) Evicts() bool { return w.OverCapacity != nil && w.IsBucket() }

// StateWords returns the words of state that a shard has beside its generations and its
// table.
func (w *Rule) StateWords() int {
	if w.IsBucket() || w.DeniesProven() {
		return StateBytes / 8
	}
	return 0
}

// Generations returns how many generations are kept.
func (w *Rule) Generations() int { return w.Ring.Buffers() }

// Kept returns after how many generations nothing counts any more.
func (w *Rule) Kept() int64 {
	if w.IsBucket() {
		return 2 + math.MaxUint32/w.Bucket.Length
	}
	return int64(w.Ring.Buffers())
}

// IsBucket reports whether the rule is a token bucket, not a window.
func (w *Rule) IsBucket() bool { return w.Bucket.Burst > 0 }

// Burst returns the units in a full bucket; 0 for a window.
func (w *Rule) Burst() int64 { return w.Bucket.Burst }

// BurstAt returns the units in a full bucket at a lower limit.
func (w *Rule) BurstAt(limit int64) int64 { return w.Bucket.Most(limit, w.Limit) }

// Fills returns the time in which an empty bucket fills, ns rounded up.
func (w *Rule) Fills() int64 { return w.Bucket.Takes(w.Bucket.Burst, w.Limit) }
