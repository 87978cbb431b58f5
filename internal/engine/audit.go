package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// tellAudit lets the audit count a decision on n units of a sampled key beside those that are held, unless no bucket or window
// could admit them.
func tellAudit(r request, p rotating.Position, n, held, limit int64, admitted bool, use audit.Use) {
	if limit < 1 || n < 1 || n+held > r.e.Quota(limit) {
		return
	}
	r.e.Audit.Count(audit.Event{
		Hash: r.h, At: r.e.Timeline.UnixNano(p), N: n, Held: held, Limit: limit, Admitted: admitted, Use: use,
		OverCapacity: r.e.OverCapacity != nil && mayExceed(r, p),
	})
}

// tellCharge lets the audit count units of a sampled key that are charged.
func tellCharge(r request, p rotating.Position, n, limit int64) {
	if limit >= 1 && n >= 1 {
		r.e.Audit.Count(audit.Event{Hash: r.h, At: r.e.Timeline.UnixNano(p), N: n, Limit: limit, Charge: true})
	}
}

// mayExceed reports whether the key may have got more than its limit, as the operator has chosen.
func mayExceed(r request, p rotating.Position) bool {
	if r.e.Evicts() {
		return r.e.OverCapacity.LastEvicted(r.e.Timeline.UnixNano(p), r.e.Fills()).Active
	}
	return r.state().Mode() != overcapacity.Exact
}
