package engine

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// The cells of a bucket hold the times of [gcra.Bucket]: a sketch of times. A cell holds the greatest that any key of the
// cell has, and of a key's cells the least is read. So a reading is never too early, and an idle key's bucket fills by time
// passing, without anything being cleared.

// NewBucket returns the rule of a token bucket of burst units, of which limit flow back in span.
// Its generations are as long as its cells reach.
func NewBucket(limit, burst int, span time.Duration) Rule {
	b, length := gcra.New(int64(limit), int64(burst), int64(span))
	return Rule{Window: windowmath.New(length, 1), limit: int64(limit), reach: int64(burst), extra: uint8(lastWords), bucket: b}
}

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

// buckets is the algorithm of token buckets.
type buckets struct{}

func (buckets) check(d *Dimensions, rule *Rule) error {
	switch {
	case d.BloomBytes != 0:
		return fmt.Errorf("sketchlimit: Plan.BloomBytes %d, must be 0 for a TokenBucket", d.BloomBytes)
	case d.HeavyEntries != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for a TokenBucket", d.HeavyEntries)
	case d.CellBits != BucketBits:
		return fmt.Errorf("sketchlimit: Plan.CellBits %d, must be %d for a TokenBucket", d.CellBits, BucketBits)
	case rule.reach > (math.MaxUint32-rule.bucket.Length)/rule.bucket.Unit: // of a successor
		return fmt.Errorf("its times do not reach as far as %d units, which may be in use", rule.reach)
	}
	return nil
}

func (buckets) quota(rule *Rule, limit int64) int64 { return rule.bucket.Most(limit, rule.limit) }

func (buckets) resetAfter(rule *Rule, _ rotating.Position, quota, limit int64) time.Duration {
	if limit == 0 {
		return 0
	}
	return time.Duration(rule.bucket.Takes(quota, limit))
}

func (buckets) lead(rule *Rule, n, limit int64) int64 {
	b, most := &rule.bucket, rule.bucket.Most(limit, rule.limit)
	if n < 1 || n > most {
		return 0
	}
	return b.Burst*b.Unit - b.Flows(most-n, limit, rule.limit)
}

func (buckets) least(rule *Rule, p rotating.Position) uint32 { return rule.Beyond(p, 0) }

func (buckets) take(r request, p rotating.Position, n, limit int64, e Effort) Verdict {
	return bucket{r}.takeTime(p, n, limit, e)
}

func (buckets) peek(r request, p rotating.Position, n, limit int64) Verdict {
	return bucket{r}.peekTime(p, n, limit)
}

func (buckets) charge(r request, p rotating.Position, n, limit int64, _ bool) (free int64) {
	return bucket{r}.chargeTime(p, n, limit)
}

func (buckets) look(r request, p rotating.Position, n, limit int64) {
	now, _ := r.e.bucket.Ticks(p.Elapsed)
	full := int64(r.e.cells.Estimate(r.e.memory, r.first, keyhash.Mix(r.h, r.e.timeSeed)))
	sampler{r}.lookTime(p, n, limit, max(0, full-int64(now)))
}

// rotate brings the cells forward. None is cleared: a time that has passed reads 0.
func (buckets) rotate(r request, to int64) {
	forward(r.e.memory[r.first:][:r.e.generation], r.e.bucket.Passed(r.s.number, to))
	r.s.number = to
}

func (buckets) prefetch(r request, _ int64, _ bool) {
	shard := unsafe.Pointer(r.s)
	r.prefetchCells(shard, shard, r.first, keyhash.Mix(r.h, r.e.timeSeed))
}

func (buckets) adopt(next *Engine, r request, at int64) { retime(next, r, at) }

func (buckets) unknown() peaks { return peaks{} } // nothing is lastRounded

// lastTag is kept in the shard, which every decision reads, so that other keys need not look further.
func (r bucket) lastTag() uint32 { return uint32(r.h) | 1 }

// lastRounded returns the shard's lastRounded if it is the request's key, or else nil.
func (r bucket) lastRounded() *lastRounded {
	if r.s.peaks.current != r.lastTag() {
		return nil
	}
	if last := r.lastWords(); last.key == r.h {
		return last
	}
	return nil
}

func (r bucket) lastWords() *lastRounded {
	return (*lastRounded)(unsafe.Pointer((*[lastWords]uint64)(r.e.memory[r.first+r.e.generation:])))
}

// takeTime is [request.take] for a bucket, in the shard's generation.
func (r bucket) takeTime(p rotating.Position, n, limit int64, e Effort) Verdict {
	b := &r.e.bucket
	if last := r.lastRounded(); last != nil && limit > 0 {
		return r.takeLast(last, p, n, limit)
	}
	h := keyhash.Mix(r.h, r.e.timeSeed)
	ticks, between := b.Ticks(p.Elapsed)
	now, full := int64(ticks), int64(r.e.cells.Estimate(r.e.memory, r.first, h))
	ahead, most := max(0, full-now), b.Most(limit, r.e.limit)
	if n < 1 || n > most || ahead > b.Flows(most-n, limit, r.e.limit) { // free would take a division to tell
		return r.refuseTime(p, n, limit, r.deniedTime(p, full, ahead, b.Free(ahead, limit, r.e.limit), n, limit))
	}
	if ahead == 0 {
		if between || !b.Even(limit, r.e.limit) {
			return r.takeLast(r.setLastRounded(p, limit), p, n, limit)
		}
		full = now
	}
	r.s.admitted += uint64(n)
	r.s.last.Clear()
	if r.looked() {
		sampler(r).lookTime(p, n, limit, ahead)
	}
	if limit == r.e.limit {
		full += n * b.Unit
	} else {
		full += b.Charged(n, limit, r.e.limit)
	}
	r.e.cells.Raise(r.e.memory, r.first, h, uint32(full))
	if e == Brief {
		return Verdict{Allowed: true}
	}
	if ahead > 0 {
		most = b.Free(ahead, limit, r.e.limit)
	}
	return Verdict{Allowed: true, Remaining: int(most - n), ResetAfter: b.Until(p.Elapsed, full)}
}

// setLastRounded makes the key, whose bucket is full, the shard's lastRounded.
func (r bucket) setLastRounded(p rotating.Position, limit int64) *lastRounded {
	last := r.lastWords()
	*last = lastRounded{r.h, gcra.Time{Nanos: r.e.Timeline.UnixNano(p), Of: uint64(limit)}}
	r.s.peaks.current = r.lastTag()
	return last
}

// takeLast is takeTime for the shard's lastRounded.
func (r bucket) takeLast(last *lastRounded, p rotating.Position, n, limit int64) Verdict {
	b, now := &r.e.bucket, r.e.Timeline.UnixNano(p)
	t := last.At(now, limit)
	most := b.Most(limit, r.e.limit)
	free := t.Free(b, now, most)
	if n < 1 || n > free {
		return r.refuseTime(p, n, limit, Verdict{
			Remaining:  int(max(free, 0)),
			RetryAfter: t.RetryAfter(b, now, n, most),
			ResetAfter: time.Duration(t.Up() - now),
		})
	}
	r.s.admitted += uint64(n)
	r.s.last.Clear()
	if r.looked() {
		sampler(r).lookTime(p, n, limit, b.TicksUp(time.Duration(t.Up()-now)))
	}
	t = t.Add(b, n)
	last.Time = t
	full := b.TicksUp(time.Duration(t.Up() - now + int64(p.Elapsed)))
	r.e.cells.Raise(r.e.memory, r.first, keyhash.Mix(r.h, r.e.timeSeed), uint32(min(full, math.MaxUint32)))
	return Verdict{Allowed: true, Remaining: int(free - n), ResetAfter: time.Duration(t.Up() - now)}
}

// refuseTime counts a request that is denied, and remembers its key if that has nothing left.
func (r bucket) refuseTime(p rotating.Position, n, limit int64, v Verdict) Verdict {
	r.s.denied += r.e.Counted(n, limit)
	if n == 1 && limit > 0 {
		r.remember(p, limit, v)
	}
	return v
}

// deniedTime is the Verdict on a request for n units that are not free.
func (r bucket) deniedTime(p rotating.Position, full, ahead, free, n, limit int64) Verdict {
	v := Verdict{Remaining: int(max(free, 0)), RetryAfter: r.e.bucket.RetryAfter(p.Elapsed, full, n, limit, r.e.limit)}
	if ahead > 0 {
		v.ResetAfter = r.e.bucket.Until(p.Elapsed, full)
	}
	return v
}

// peekTime is [request.peek] for a bucket. The position may lie generations ahead of
// the shard's.
func (r bucket) peekTime(p rotating.Position, n, limit int64) Verdict {
	b := &r.e.bucket
	if last := r.lastRounded(); last != nil && limit > 0 {
		now, most := r.e.Timeline.UnixNano(p), b.Most(limit, r.e.limit)
		t := last.At(now, limit)
		v := Verdict{ResetAfter: time.Duration(t.Up() - now)}
		free := t.Free(b, now, most)
		if v.Allowed, v.Remaining = n >= 1 && n <= free, int(max(free, 0)); !v.Allowed {
			v.RetryAfter = t.RetryAfter(b, now, n, most)
		}
		return v
	}
	cell := r.e.cells.Estimate(r.e.memory, r.first, keyhash.Mix(r.h, r.e.timeSeed))
	cell -= min(cell, b.Passed(r.s.number, p.Generation))
	now, _ := b.Ticks(p.Elapsed)
	full := int64(cell)
	ahead := max(0, full-int64(now))
	free := b.Free(ahead, limit, r.e.limit)
	v := r.deniedTime(p, full, ahead, free, n, limit)
	if v.Allowed = n >= 1 && n <= free; v.Allowed {
		v.RetryAfter = 0
	}
	return v
}

// chargeTime is Charge for a bucket. It returns what was free.
func (r bucket) chargeTime(p rotating.Position, n, limit int64) (free int64) {
	b, unix := &r.e.bucket, r.e.Timeline.UnixNano(p)
	last := r.lastRounded()
	h := keyhash.Mix(r.h, r.e.timeSeed)
	ticks, between := b.Ticks(p.Elapsed)
	now, full := int64(ticks), int64(r.e.cells.Estimate(r.e.memory, r.first, h))
	most := b.Most(limit, r.e.limit)
	if last == nil && full <= now && (between || !b.Even(limit, r.e.limit)) {
		last = r.setLastRounded(p, limit)
	}
	r.s.admitted += r.e.Counted(n, r.e.limit)
	r.s.last.Clear()
	free = b.Free(max(0, full-now), limit, r.e.limit)
	debt := min(n, 2*most) // of a full bucket
	if last != nil {
		t := last.At(unix, limit)
		free = t.Free(b, unix, most)
		last.Time = t.Add(b, debt)
		if deepest := (gcra.Time{Nanos: unix, Of: uint64(limit)}).Add(b, 2*most); deepest.Before(&last.Time) {
			last.Time = deepest
		}
		if last.Before(&t) { // of a clock that has stepped back
			last.Time = t
		}
		full = b.TicksUp(time.Duration(last.Up() - unix + int64(p.Elapsed)))
	} else {
		deepest := now + b.Charged(2*most, limit, r.e.limit)
		if between {
			deepest++
		}
		full = min(max(full, now)+b.Charged(debt, limit, r.e.limit), deepest)
	}
	r.e.cells.Raise(r.e.memory, r.first, h, uint32(min(full, math.MaxUint32)))
	return free
}

// forward brings cells forward by so many ticks: what has passed by then reads 0.
func forward(cells []uint64, ticks uint32) {
	if ticks == math.MaxUint32 {
		clear(cells)
		return
	}
	t := uint64(ticks)
	for i, w := range cells {
		hi, lo := w>>32, w&math.MaxUint32
		cells[i] = (hi-min(hi, t))<<32 | (lo - min(lo, t))
	}
}

// retime makes the times in a shard of a bucket of another limit its own, as of a unix time in ns or of the shard's
// generation, if that is later. All is rounded against the request.
func retime(e *Engine, r request, at int64) {
	p := r.rotate(r.e.Timeline.Position(at))
	was, _ := r.e.bucket.Ticks(p.Elapsed)
	p = e.Timeline.Position(r.e.Timeline.UnixNano(p))
	is := uint64(e.bucket.TicksUp(p.Elapsed))
	cell := func(c uint64) uint64 {
		if c <= was {
			return 0
		}
		return min(is+uint64(gcra.CeilDiv(int64(c-was), e.bucket.Unit, r.e.bucket.Unit)), math.MaxUint32)
	}
	for i, w := range r.e.memory[r.first:][:r.e.generation] {
		if w != 0 {
			r.e.memory[r.first+i] = cell(w>>32)<<32 | cell(w&math.MaxUint32)
		}
	}
	r.s.number, r.s.peaks = p.Generation, peaks{} // nothing is lastRounded
}

// bucketTail returns the chance that a new key's bucket is full again more than so many ticks from now.
func bucketTail(b *gcra.Bucket, p rotating.Position, cells *cms.Sketch, ticks int64) float64 {
	least := min(int64(b.Beyond(p.Elapsed, 0))+ticks, math.MaxUint32)
	sum := 0.0
	for lane := range cells.Lanes() {
		chance := 1.0
		for row := range cells.Depth() {
			chance *= cells.Tail(row, lane, uint32(least))
		}
		sum += chance
	}
	return sum / float64(cells.Lanes())
}
