package engine

import (
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// Rule is what is limited: the arithmetic of windows and buckets. A window counts whole units and
// nanoseconds; only the answer is rounded, and that against the request.
type Rule struct {
	Timeline rotating.Timeline
	limit    int64
	reach    int64         // units of a key that may be in use, or in a window's generation: more than now if limits were higher
	ring     rotating.Ring // of the generations that are kept: 1 if fixed or a bucket, one more than sub-windows if sliding
	coarse   bool
	bucket   bucket
	spare    *Spare // nil where all is denied that cannot be shown to be within the limit
}

// NewWindow returns the rule of a window that keeps so many generations of a length: 1 for a fixed window,
// one more than its sub-windows for a sliding one.
func NewWindow(limit int, length time.Duration, generations int) Rule {
	return Rule{Timeline: rotating.NewTimeline(length), limit: int64(limit), reach: int64(limit), ring: rotating.NewRing(generations)}
}

// NewBucket returns the rule of a token bucket of burst units, of which limit flow back in span.
// Its generations are as long as its cells reach.
func NewBucket(limit, burst int, span time.Duration) Rule {
	b, length := newBucket(int64(limit), int64(burst), int64(span))
	return Rule{Timeline: rotating.NewTimeline(length), limit: int64(limit), ring: rotating.NewRing(1), reach: int64(burst), bucket: b}
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
func (w *Rule) Generations() int { return w.ring.Buffers() }

// IsBucket tells a token bucket from a window.
func (w *Rule) IsBucket() bool { return w.bucket.burst > 0 }

// Burst returns the units in a full bucket; 0 for a window.
func (w *Rule) Burst() int64 { return w.bucket.burst }

// BurstAt returns the units in a full bucket at a lower limit.
func (w *Rule) BurstAt(limit int64) int64 { return w.bucket.most(limit, w.limit) }

// Fills returns the time in which an empty bucket fills, ns rounded up.
func (w *Rule) Fills() int64 { return w.bucket.takes(w.bucket.burst, w.limit) }

// Window returns the span that the limit is meant for.
func (w *Rule) Window() time.Duration {
	if w.IsBucket() {
		return time.Duration(w.bucket.span)
	}
	return time.Duration(w.Timeline.Length()) * time.Duration(max(1, w.ring.Buffers()-1))
}

// Grid returns the ns that times are to be multiples of to be whole ticks of a bucket, if times of a
// resolution are such multiples; otherwise, and for a window, 1.
func (w *Rule) Grid(resolution time.Duration) int64 {
	if w.IsBucket() && int64(resolution)%int64(w.bucket.ticks.of) == 0 {
		return int64(w.bucket.ticks.of)
	}
	return 1
}

// Weighted returns how many units of quota a count takes up, rounded up. Of a
// sliding window's generations the oldest counts by the part of it that the window
// still covers; all others, and a fixed window's only one, count in full.
//
// Rounding up loses nothing: for whole n, count×weight + n ≤ free is the same as
// ⌈count×weight⌉ + n ≤ free. At a generation's first instant the weight is 1.
func (w *Rule) Weighted(count int64, age int, elapsed time.Duration) int64 {
	if age == 0 || age < w.ring.Buffers()-1 {
		return count
	}
	hi, lo := bits.Mul64(uint64(count), uint64(w.Timeline.Length()-int64(elapsed)))
	q, r := bits.Div64(hi, lo, uint64(w.Timeline.Length()))
	if r > 0 {
		q++
	}
	return int64(q)
}

// room tells whether the oldest generation takes up no more than free (at least 0) units
// even if it counted as much as it may.
func (w *Rule) room(elapsed time.Duration, free int64) bool {
	hi, lo := bits.Mul64(uint64(w.reach), uint64(w.Timeline.Length()-int64(elapsed)))
	freeHi, freeLo := bits.Mul64(uint64(free), uint64(w.Timeline.Length()))
	return hi < freeHi || hi == freeHi && lo <= freeLo
}

// retryAfter returns the time until n units are admitted at a limit of the request's own, if nothing
// else comes. count tells the key's count in the generation of an age.
//
// It goes through the generations to come. In each, what is now age a has aged by
// the turns, the oldest left decays, and the rest stays until the next turn.
func (w *Rule) retryAfter(p rotating.Position, n, limit int64, count func(age int) int64) time.Duration {
	if n < 1 || n > limit {
		return Never
	}
	if w.ring.Buffers() == 1 {
		return time.Duration(w.Timeline.Length()) - p.Elapsed
	}
	full := int64(0)
	for age := range w.ring.Buffers() - 1 {
		full += count(age)
	}
	for turn := 0; ; turn++ { // an empty window admits n, so it ends
		if free := limit - n - full; free >= 0 {
			oldest := count(w.ring.Buffers() - 1 - turn)
			return time.Duration(turn)*time.Duration(w.Timeline.Length()) + w.decay(oldest, free) - p.Elapsed
		}
		full -= count(w.ring.Buffers() - 2 - turn)
	}
}

// decay returns how far into its last generation a count weighs no more than free.
func (w *Rule) decay(count, free int64) time.Duration {
	if count <= free {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(w.Timeline.Length()))
	q, _ := bits.Div64(hi, lo, uint64(count))
	return time.Duration(w.Timeline.Length() - int64(q))
}

// resetAfter returns the time until a key weighs nothing, whose youngest counting
// generation has the age newest (their number if there is none).
func (w *Rule) resetAfter(p rotating.Position, newest int) time.Duration {
	if newest == w.ring.Buffers() {
		return 0
	}
	return time.Duration(w.ring.Buffers()-newest)*time.Duration(w.Timeline.Length()) - p.Elapsed
}

// quota returns the units of a key that has used none, at a limit.
func (w *Rule) quota(limit int64) int64 {
	if w.bucket.burst > 0 {
		return w.bucket.most(limit, w.limit)
	}
	return limit
}

// Counted returns the units by which a request for n units that is denied at a limit raises a statistic: 0 … the quota, so
// that no client's cost can ruin the sum. A request whose limit is 0 counts as one unit.
func (w *Rule) Counted(n, limit int64) uint64 {
	return uint64(max(0, min(n, max(1, w.quota(limit)))))
}
