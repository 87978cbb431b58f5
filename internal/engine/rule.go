package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Rule is what is limited. Window has the generations, also those of a bucket.
type Rule struct {
	windowmath.Window
	limit  int64
	reach  int64 // units of a key that may be in use, or in a window's generation: more than now if limits were higher
	coarse bool
	extra  uint8 // words of a shard beside its generations and its table
	bucket gcra.Bucket
	spare  *overcapacity.Episodes // nil where all is denied that cannot be shown to be within the limit
}

// Sparing returns the rule of a window that spares keys beyond the plan, see [heavyhitter.FitsOffered].
//
// A bucket spares keys that find no place in the table: they take that of the entry which passes first.
func (w Rule) Sparing(s *overcapacity.Episodes) Rule {
	if w.spare = s; !w.IsBucket() {
		w.extra = uint8(spareWords)
	}
	return w
}

// Spares reports whether keys of a window are spared beyond the plan.
func (w *Rule) Spares() bool { return w.spare != nil && !w.IsBucket() }

// Evicts reports whether entries of a bucket give way whose times have not passed.
func (w *Rule) Evicts() bool { return w.spare != nil && w.IsBucket() }

// Limit returns the units per window.
func (w *Rule) Limit() int64 { return w.limit }

// Generations returns how many generations are kept.
func (w *Rule) Generations() int { return w.Ring.Buffers() }

// Kept returns after how many generations nothing counts any more.
func (w *Rule) Kept() int64 {
	if w.IsBucket() {
		return 2 + math.MaxUint32/w.bucket.Length
	}
	return int64(w.Ring.Buffers())
}

// IsBucket tells a token bucket from a window.
func (w *Rule) IsBucket() bool { return w.bucket.Burst > 0 }

// Burst returns the units in a full bucket; 0 for a window.
func (w *Rule) Burst() int64 { return w.bucket.Burst }

// BurstAt returns the units in a full bucket at a lower limit.
func (w *Rule) BurstAt(limit int64) int64 { return w.bucket.Most(limit, w.limit) }

// Fills returns the time in which an empty bucket fills, ns rounded up.
func (w *Rule) Fills() int64 { return w.bucket.Takes(w.bucket.Burst, w.limit) }
