package engine

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/meancost"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Consume locks the i-th shard and decides on one of its keys, which is not remembered to be denied: in place for most, and
// through settle for all others.
//
// Most keys have no entry in the table, are admitted and get none. For them it first computes the quota that the older
// generations leave; then it reads and raises the current cells in one pass. All others go on to settle.
//
// Two claims make this the decision that take would make. A build with the tag invariants asserts them:
//
//   - free less the current count is never above what usage returns as free. Where a generation is not read, a bound takes
//     its place that no reading of it exceeds: its peak, at its weight or in full, and the bound of a Share.
//   - count ≤ most ⇒ take admits. The cells are raised only if the key then reads at most most, and most ≤ free.
//
// It is the longest function because it is the hottest: its dozen values stay in registers, which a call in the
// middle would empty.
func (e *Engine) Consume(i int, word int64, h uint64, units int, limit int64, effort Effort) spec.Verdict {
	r, p, n := e.request(i, h), e.Timeline.Unpack(word), int64(units)
	if r.e.IsBucket() {
		bucket{r}.prefetchLine()
	} else if r.e.far {
		e.algorithm.prefetch(r, p.Generation, effort == Brief)
	}
	r.s.mu.Lock()
	if e.next.Load() != nil { // it may have read this shard already
		r.s.mu.Unlock()
		return e.forward(word, h, units, limit, effort)
	}
	if p.Generation != r.s.number || r.sampled() {
		return r.settle(p, n, limit, effort)
	}
	if r.e.IsBucket() {
		return unlocked(r.s, buckets{}.take(r, p, n, limit, effort))
	}
	w, entries := window{r}, r.entries()
	if entry := r.e.heavy.Find(entries, h); entry != nil || r.isOverCapacity() {
		return w.settleEntry(p, n, limit, effort, entry)
	}
	most := r.e.Limit // units of this generation that a key has without an entry
	if r.e.heavy.HasRoom(entries) {
		most = r.e.light + int64(r.s.peaks.thresholdBoost)
	}
	free := int64(0) // units that are not in use, whatever the previous generation holds of the key
	if effort == Brief && r.e.Ring.Buffers() == 2 {
		if free = limit - w.peakBefore(); free < most { // to weigh it takes a division
			free = limit - r.e.Weighted(w.peakBefore(), 1, p.Elapsed)
		}
	}
	here := limit // units that are not in use elsewhere
	if x := r.e.external.Load(); x != nil {
		others, ok := (*x).Bound(h, word)
		if !ok {
			return r.settle(p, n, limit, effort)
		}
		here -= others
		free -= others
	}
	if free < n {
		free = here
		for age := 1; age < r.e.Ring.Buffers(); age++ {
			first, h := w.buffer(age), w.hashAt(p.Generation-int64(age))
			if r.e.filterFirst {
				free -= r.e.Weighted(w.estimate(first, h), age, p.Elapsed)
			} else {
				free -= r.e.Weighted(int64(r.e.cells.Estimate(r.e.memory, first+r.e.cellsFirst, h)), age, p.Elapsed)
			}
		}
	}
	if most = min(free, most); n < 1 || n > most {
		return r.settle(p, n, limit, effort)
	}
	if invariants.On {
		w.checkConsume(p, free, most, n, limit)
	}
	first, h := w.buffer(0), w.hashAt(p.Generation)
	c, ok := uint32(0), false
	if r.e.filterFirst {
		c, ok = w.addGuarded(first, h, n, most)
	} else {
		c, ok = r.e.cells.AddBounded(r.e.memory, first+r.e.cellsFirst, h, uint32(n), uint32(most))
	}
	if !ok {
		return r.settle(p, n, limit, effort)
	}
	if invariants.On {
		invariants.Assert(int64(c) <= most, "a count of %d was admitted, at most %d may be", c, most)
	}
	if !r.e.filterFirst && h%Sampled == 0 {
		r.e.filter.TestAndAdd(r.e.memory, first, h)
	}
	if meancost.Sampled(r.s.admitted) {
		meancost.Note(r.e.flooded, n)
	}
	r.s.peaks.current = max(r.s.peaks.current, c)
	r.s.admitted += uint64(n)
	r.s.denials.Clear()
	if x := r.e.external.Load(); x != nil {
		(*x).Admit(r.s.number, r.h, int64(c))
	}
	if effort == Brief {
		r.s.mu.Unlock()
		return spec.Verdict{Allowed: true}
	}
	v := spec.Verdict{Allowed: true, Remaining: int(free - int64(c)), ResetAfter: r.e.ResetAfter(p, 0)}
	r.s.mu.Unlock()
	return v
}

// Remembers reports whether the key, of the i-th shard, is known to have nothing left at the engine's limit. Take finds
// that out as well, in twice the time. The compiler inlines it.
func (e *Engine) Remembers(i int, word int64, h uint64) bool {
	_, _, ok := e.shards[i].denials.Lookup(h, word)
	return ok && e.next.Load() == nil // or else it may be a word of the successor's timeline
}

// Take admits n units at a limit of at most the engine's, or not. The key's hash chooses the
// shard, and the shard's lock makes check and count one step.
func (e *Engine) Take(word int64, h uint64, n int, limit int64, effort Effort) spec.Verdict {
	i := e.Shard(h)
	if n == 1 && word < e.shards[i].denials.Until() {
		if v, ok := cachedDenial(e.request(i, h), word, limit); ok {
			return e.redact(v, e.Timeline.Unpack(word), limit)
		}
	}
	return e.redact(e.Consume(i, word, h, n, limit, effort), e.Timeline.Unpack(word), limit)
}

// cachedDenial is Take for a key that was the last of its shard to be denied.
func cachedDenial(r request, word, limit int64) (v spec.Verdict, ok bool) {
	until, reset, ok := r.s.denials.Lookup(r.denialHash(limit), word)
	if !ok || r.e.next.Load() != nil { // or it may be a word of the successor's timeline
		return spec.Verdict{}, false
	}
	r.e.flooded.Inc()
	now := r.e.Timeline.UnixNano(r.e.Timeline.Unpack(word))
	return spec.Verdict{
		RetryAfter: time.Duration(r.e.Timeline.UnixNano(r.e.Timeline.Unpack(until)) - now),
		ResetAfter: time.Duration(reset - now),
	}, true
}

// Peek returns what Take would answer at a position, which may lie generations ahead, and changes nothing.
func (e *Engine) Peek(p rotating.Position, h uint64, n int, limit int64) spec.Verdict {
	r := e.lock(h)
	p, limit = r.from(e, p, limit)
	v := r.peek(p, int64(n), limit)
	r.s.mu.Unlock()
	return r.e.redact(v, p, limit)
}

// Reserve is Take for a queue: it also returns the time until all units that were admitted before have flowed.
func (e *Engine) Reserve(p rotating.Position, h uint64, n int, limit int64) (wait time.Duration, v spec.Verdict) {
	r := e.lock(h)
	p, limit = r.from(e, p, limit)
	wait = r.peek(p, int64(n), limit).ResetAfter
	v = r.take(p, int64(n), limit, Whole)
	r.s.mu.Unlock()
	return wait, v
}

// lock locks the key's shard in the engine that decides then: a successor may have read this shard, so nothing
// is counted here any more once there is one.
func (e *Engine) lock(h uint64) request {
	i := e.Shard(h)
	r := e.request(i, h)
	r.s.mu.Lock()
	if e.next.Load() != nil {
		r.s.mu.Unlock()
		return e.heir(i).lock(h)
	}
	return r
}

// redact returns what is told of a verdict on a request at a position and a limit: less where the rule is coarse. The compiler
// inlines it.
func (e *Engine) redact(v spec.Verdict, p rotating.Position, limit int64) spec.Verdict {
	if e.Coarse {
		return e.redactCoarse(v, p, limit)
	}
	return v
}

func (e *Engine) redactCoarse(v spec.Verdict, p rotating.Position, limit int64) spec.Verdict {
	quota := e.Quota(limit)
	return v.Coarse(quota, e.algorithm.resetAfter(&e.Rule, p, quota, limit))
}

// HasEntry reports whether a key has an entry in the heavy table.
func (e *Engine) HasEntry(h uint64) bool {
	r := e.request(e.Shard(h), h)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return overCapacity{r}.find() != nil
}
