package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/meancost"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Fits reports whether n units of a key are free beside the held ones, and counts
// nothing. The caller holds units of the key, and must let no other caller hold any
// meanwhile. Remaining is what is free once these n are held too.
//
// The shard rotates as for a decision: what is admitted here is counted later, and must not find an earlier generation.
func (e *Engine) Fits(word int64, h uint64, held, n, limit int64) spec.Verdict {
	r := e.lock(h)
	defer r.s.mu.Unlock()
	asked, limit := r.from(e, e.Timeline.Unpack(word), limit)
	p := r.rotate(asked)
	quota := r.e.Quota(limit)
	if n < 1 || n > quota {
		return r.e.redact(spec.Verdict{RetryAfter: spec.Never, Remaining: int(max(0, int64(r.peek(p, 1, limit).Remaining)-held))}, p, limit)
	}
	v := r.peek(p, held+n, limit)
	if v.Allowed && meancost.Sampled(r.s.admitted) {
		meancost.Note(r.e.flooded, n)
	}
	if r.sampled() {
		tellAudit(r, p, n, held, limit, v.Allowed, audit.Later)
	}
	if v.RetryAfter == spec.Never { // what is held and asked for is more than the limit
		v.RetryAfter = r.peek(p, n, limit).RetryAfter
	}
	if v.Remaining -= int(held); v.Allowed {
		v.Remaining -= int(n)
	}
	v.Remaining = max(v.Remaining, 0)
	return r.e.redact(v.After(r.span(asked, p)), p, limit)
}

// Charge counts n units of a key, at least 1, whether they are free or not. It returns how many of those that nobody had
// held were not free beside the units of the key that were held.
//
// A window remembers at most its limit of a key in one generation, and a bucket at most as many units of debt as it holds.
// Statistics count at most the engine's quota.
func (e *Engine) Charge(word int64, h uint64, n, unheld, held, limit int64) (over int64) {
	r := e.lock(h)
	defer r.s.mu.Unlock()
	asked, limit := r.from(e, e.Timeline.Unpack(word), limit)
	p := r.rotate(asked)
	free := r.e.algorithm.charge(r, p, n, limit, unheld > 0)
	if r.sampled() {
		tellCharge(r, p, n, limit)
	}
	return max(0, unheld-max(0, free-held))
}

// Over returns what Charge would return for n units that were not held, at a position
// that may lie generations ahead. It counts nothing.
func (e *Engine) Over(p rotating.Position, h uint64, n, held, limit int64) (over int64) {
	r := e.lock(h)
	p, limit = r.from(e, p, limit)
	free := int64(r.peek(p, min(n, r.e.Quota(limit)), limit).Remaining)
	r.s.mu.Unlock()
	return max(0, n-max(0, free-held))
}
