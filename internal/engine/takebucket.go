package engine

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// takeTime is [request.take] for a bucket, in the shard's generation.
func (r request) takeTime(p rotating.Position, n, limit int64, e Effort) Verdict {
	b := &r.bucket
	if last := r.lastRounded(); last != nil && limit > 0 {
		return r.takeLast(last, p, n, limit)
	}
	h := keyhash.Mix(r.h, r.timeSeed)
	ticks, between := b.Ticks(p.Elapsed)
	now, full := int64(ticks), int64(r.cells.Estimate(r.memory, r.first, h))
	ahead, most := max(0, full-now), b.Most(limit, r.limit)
	if n < 1 || n > most || ahead > b.Flows(most-n, limit, r.limit) { // free would take a division to tell
		return r.refuseTime(p, n, limit, r.deniedTime(p, full, ahead, b.Free(ahead, limit, r.limit), n, limit))
	}
	if ahead == 0 {
		if between || !b.Even(limit, r.limit) {
			return r.takeLast(r.setLastRounded(p, limit), p, n, limit)
		}
		full = now
	}
	r.s.admitted += uint64(n)
	r.s.last.Clear()
	if r.looked() {
		r.lookTime(p, n, limit, ahead)
	}
	if limit == r.limit {
		full += n * b.Unit
	} else {
		full += b.Charged(n, limit, r.limit)
	}
	r.cells.Raise(r.memory, r.first, h, uint32(full))
	if e == Brief {
		return Verdict{Allowed: true}
	}
	if ahead > 0 {
		most = b.Free(ahead, limit, r.limit)
	}
	return Verdict{Allowed: true, Remaining: int(most - n), ResetAfter: b.Until(p.Elapsed, full)}
}

// setLastRounded makes the key, whose bucket is full, the shard's lastRounded.
func (r request) setLastRounded(p rotating.Position, limit int64) *lastRounded {
	last := r.lastWords()
	*last = lastRounded{r.h, gcra.Time{Nanos: r.Timeline.UnixNano(p), Of: uint64(limit)}}
	r.s.peaks.current = r.lastTag()
	return last
}

// takeLast is takeTime for the shard's lastRounded.
func (r request) takeLast(last *lastRounded, p rotating.Position, n, limit int64) Verdict {
	b, now := &r.bucket, r.Timeline.UnixNano(p)
	t := last.At(now, limit)
	most := b.Most(limit, r.limit)
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
		r.lookTime(p, n, limit, b.TicksUp(time.Duration(t.Up()-now)))
	}
	t = t.Add(b, n)
	last.Time = t
	full := b.TicksUp(time.Duration(t.Up() - now + int64(p.Elapsed)))
	r.cells.Raise(r.memory, r.first, keyhash.Mix(r.h, r.timeSeed), uint32(min(full, math.MaxUint32)))
	return Verdict{Allowed: true, Remaining: int(free - n), ResetAfter: time.Duration(t.Up() - now)}
}

// refuseTime counts a request that is denied, and remembers its key if that has nothing left.
func (r request) refuseTime(p rotating.Position, n, limit int64, v Verdict) Verdict {
	r.s.denied += r.Counted(n, limit)
	if n == 1 && limit > 0 {
		r.remember(p, limit, v)
	}
	return v
}

// deniedTime is the Verdict on a request for n units that are not free.
func (r request) deniedTime(p rotating.Position, full, ahead, free, n, limit int64) Verdict {
	v := Verdict{Remaining: int(max(free, 0)), RetryAfter: r.bucket.RetryAfter(p.Elapsed, full, n, limit, r.limit)}
	if ahead > 0 {
		v.ResetAfter = r.bucket.Until(p.Elapsed, full)
	}
	return v
}

// peekTime is [request.peek] for a bucket. The position may lie generations ahead of
// the shard's.
func (r request) peekTime(p rotating.Position, n, limit int64) Verdict {
	b := &r.bucket
	if last := r.lastRounded(); last != nil && limit > 0 {
		now, most := r.Timeline.UnixNano(p), b.Most(limit, r.limit)
		t := last.At(now, limit)
		v := Verdict{ResetAfter: time.Duration(t.Up() - now)}
		free := t.Free(b, now, most)
		if v.Allowed, v.Remaining = n >= 1 && n <= free, int(max(free, 0)); !v.Allowed {
			v.RetryAfter = t.RetryAfter(b, now, n, most)
		}
		return v
	}
	cell := r.cells.Estimate(r.memory, r.first, keyhash.Mix(r.h, r.timeSeed))
	cell -= min(cell, b.Passed(r.s.number, p.Generation))
	now, _ := b.Ticks(p.Elapsed)
	full := int64(cell)
	ahead := max(0, full-int64(now))
	free := b.Free(ahead, limit, r.limit)
	v := r.deniedTime(p, full, ahead, free, n, limit)
	if v.Allowed = n >= 1 && n <= free; v.Allowed {
		v.RetryAfter = 0
	}
	return v
}

// rotateBucket brings the cells of a bucket forward to a later generation. None is cleared: a time that has passed reads 0.
func (r request) rotateBucket(to int64) {
	forward(r.memory[r.first:][:r.generation], r.bucket.Passed(r.s.number, to))
	r.s.number = to
}
