package sizing

import (
	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

const (
	auditShare  = 20       // of a limiter's memory is its audit's
	minAudit    = 8 << 10  // bytes of the audit of a limiter that has eight times as much
	smallAudit  = 1 << 10  // and of a smaller one
	maxAudit    = 64 << 10 // however much it has
	auditedFrom = 16 << 10 // bytes of a limiter from which on it has one
)

// NewAudit returns the audit of a limiter of so many bytes, which has not started. It
// takes as many as are asked for, if that is not 0; none below 0.
func NewAudit(rule *spec.Rule, limiter, asked int) *audit.Audit {
	bytes := max(0, asked)
	switch {
	case asked != 0 || limiter < auditedFrom:
	case limiter >= 8*minAudit:
		bytes = min(max(limiter/auditShare, minAudit), maxAudit)
	default:
		bytes = max(limiter/auditShare, smallAudit)
	}
	return audit.Of(rule, bytes&^(spec.HeapUnit(bytes)-1))
}

// MinAudit returns the fewest bytes of an audit for a rule; 0 of a bucket that cannot
// be counted exactly.
func MinAudit(rule *spec.Rule) int {
	for bytes := smallAudit; bytes <= maxAudit<<10; bytes *= 2 {
		if audit.Of(rule, bytes).Bytes() > 0 {
			return bytes
		}
	}
	return 0
}

// AuditBytes returns what an audit takes of the heap.
func AuditBytes(a *audit.Audit) int {
	if a.Bytes() == 0 {
		return 0
	}
	const around = 448 // the Audit and what it refers to beside its table, where pointers have 64 bits
	return around + spec.HeapBytes(a.Bytes())
}
