package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// settle takes, and unlocks the shard in the end.
func (r request) settle(p rotating.Position, n, limit int64, e Effort) spec.Verdict {
	return unlocked(r.s, r.take(p, n, limit, e))
}

// unlocked unlocks a shard, and returns the verdict that it has come to.
func unlocked(s *shard, v spec.Verdict) spec.Verdict {
	s.mu.Unlock()
	return v
}

// take admits and counts n units, or does not. A limit below the window's is a window of
// which some units are held back.
func (r request) take(p rotating.Position, n, limit int64, e Effort) spec.Verdict {
	v := decide(r, p, n, limit, e)
	if r.sampled() {
		tellAudit(r, r.clamp(p), n, 0, limit, v.Allowed, audit.Now)
	}
	return v
}

// decide is take of which the audit is not told.
func decide(r request, p rotating.Position, n, limit int64, e Effort) spec.Verdict {
	if p.Generation != r.s.number {
		q := r.rotate(p)
		return decide(r, q, n, limit, e).After(r.span(p, q))
	}
	return r.e.algorithm.take(r, p, n, limit, e)
}

// peek returns what take would, but for what is left afterwards. It does not rotate the shard, and
// reads it as if it had.
func (r request) peek(p rotating.Position, n, limit int64) spec.Verdict {
	q := r.clamp(p)
	return r.e.algorithm.peek(r, q, n, limit).After(r.span(p, q))
}
