package sketchlimit

import "github.com/sketchlimit/sketchlimit/internal/audit"

// Audit is the counts of a limiter's audit since construction.
//
// An audit counts a sample of the keys exactly, beside the sketch, and compares each
// decision on them with the exact algorithm, by code that decides nothing. The sample
// is a slice of the hash space, as large as a small table allows, see
// [Config.AuditBytes]: all keys if they are few. A key counts once the audit has seen
// all that it may have used.
//
// In a limiter that is shared the audit sees the requests of this limiter only, so
// units that others have used look like false denials.
//
// Counts are scaled to all keys, each sampled key counting as 1 / Share, but for
// OverAdmitted. They never fall; [Audit.Since] returns the counts of a span of time.
type Audit struct {
	Share    float64 // of all keys that are sampled and count now, 0 … 1
	Keys     uint64  // that made a request, counted anew in each window
	Requests uint64  // of light keys, which by the exact algorithm had used less than half of their limit, for what was free
	Units    uint64  // of these requests
	Denied   uint64  // of these requests, wrongly

	// Admitted are the units of all keys, and Exact those that the exact algorithm
	// alone would have admitted, charged ones in both. What is between them was
	// lost; with [DenyProven] Admitted may be more.
	Admitted, Exact uint64
	// OverAdmitted are units of sampled keys that were admitted beyond the limit, but
	// for those that [DenyProven] lets through: 0, or the limiter has a fault. It is also
	// logged once, by the default logger of log/slog.
	OverAdmitted uint64

	squares audit.Squares
}

// auditOf returns what was counted.
func auditOf(share float64, c audit.Counts) Audit {
	return Audit{
		Share: share, Keys: c.Keys, Requests: c.Requests, Units: c.Units, Denied: c.Denied,
		Admitted: c.Admitted, Exact: c.Exact, OverAdmitted: c.Over, squares: c.Squares,
	}
}

func (a *Audit) counts() audit.Counts {
	return audit.Counts{
		Keys: a.Keys, Requests: a.Requests, Units: a.Units, Denied: a.Denied,
		Admitted: a.Admitted, Exact: a.Exact, Over: a.OverAdmitted, Squares: a.squares,
	}
}

// Since returns what was counted since an earlier Audit of the same limiter, with the
// Share of now.
func (a Audit) Since(before Audit) Audit {
	earlier := before.counts()
	return auditOf(a.Share, a.counts().Minus(&earlier))
}

// Rate returns the share of the requests of light keys that were denied wrongly, and
// the ends of a 99.9 % confidence interval: 0 … 1 without requests. If none was denied,
// high is the least rate that could be told from 0. The interval takes the requests of
// one key together, since they are often denied together. An Audit decoded from JSON
// has lost the interval.
func (a Audit) Rate() (rate, low, high float64) { return a.counts().Rate() }
