package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// none samples no key.
var none = new(audit.Audit)

// NewAudit returns an audit for a rule that has not started, of at most so many bytes.
func (w *Rule) NewAudit(bytes int) (a *audit.Audit) {
	if w.IsBucket() {
		a = audit.Bucket(w.limit, w.bucket.Span, w.bucket.Burst, w.Fills(), bytes)
	} else {
		a = audit.Window(w.limit, w.Timeline.Length(), w.Ring.Buffers(), bytes)
	}
	if a.Bytes() == 0 {
		return none
	}
	return a
}

// Audit lets an audit count the decisions of the engine and of those that replace it.
func (e *Engine) Audit(a *audit.Audit) { e.audit = a }

// Audited returns the audit of the engine.
func (e *Engine) Audited() *audit.Audit { return e.audit }

// sampled reports whether the key is counted exactly as well. It goes no shorter way past the lock then.
func (r request) sampled() bool { return r.e.audit.Sampled(r.h) }

// count tells the audit of a decision on n units of a sampled key beside those that are held. What no bucket or window could
// admit tells nothing.
func (r request) count(p rotating.Position, n, held, limit int64, admitted bool, use audit.Use) {
	if limit < 1 || n < 1 || n+held > r.e.quota(limit) {
		return
	}
	r.e.audit.Count(audit.Event{
		Hash: r.h, At: r.e.Timeline.UnixNano(p), N: n, Held: held, Limit: limit, Admitted: admitted, Use: use,
		Spared: r.e.spare != nil && r.mayExceed(p),
	})
}

// charged tells the audit of units of a sampled key that are charged.
func (r request) charged(p rotating.Position, n, limit int64) {
	if limit >= 1 && n >= 1 {
		r.e.audit.Count(audit.Event{Hash: r.h, At: r.e.Timeline.UnixNano(p), N: n, Limit: limit, Charge: true})
	}
}

// mayExceed reports whether the key may have got more than its limit, as the operator has chosen.
func (r request) mayExceed(p rotating.Position) bool {
	if r.e.Evicts() {
		return r.e.spare.evicted(r.e.Timeline.UnixNano(p), r.e.Fills()).Active
	}
	return r.state().mode != exactly || overCapacity{r}.formerSpares(p)
}
