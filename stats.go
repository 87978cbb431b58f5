package sketchlimit

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/stats"
)

// Stats is the state of a [Limiter] at one time. Counts are since construction.
//
// No request adds more units to Admitted, Denied or Overdraft than the limit that it is
// held against (of a bucket, Burst), so a client that chooses its cost cannot distort
// the sums. A request below Config.LowestLimit adds one unit to Denied. Charges are
// held against Config.Limit.
type Stats struct {
	Admitted  uint64 // units since construction, charged ones included
	Overdraft uint64 // units since construction that were charged although they were not free, see [Limiter.Charge]
	Denied    uint64 // units since construction
	TooLow    uint64 // requests with limits of 1 … Config.LowestLimit-1 since construction: all denied
	Rotations uint64 // times that a decision has begun a new generation since construction; of buckets, that times were brought forward

	// MeanCost is the mean cost of the last tens of thousands of admitted requests, in
	// units.
	MeanCost float64
	// FalseDenialRate is the chance, 0 … 1, that an unseen key is denied its first
	// request now, of MeanCost units, at Config.LowestLimit; [Limiter.FalseDenialRate]
	// takes other costs and limits. It is computed from every cell, also from those of
	// limiters that share the limit. In windows it is no bound for keys that have used
	// some of their limit, which are denied more often: see Audit. In a bucket it is a
	// bound for all keys, because a key with an entry is not denied wrongly.
	FalseDenialRate float64
	// Audit is the exact count of a sample of the keys. Its rate is that of light keys,
	// the one to alert on.
	Audit Audit
	// DistinctKeys and PreviousDistinctKeys estimate the keys admitted in the current
	// and in the previous generation, until the Bloom filters are full. The standard
	// error of n keys is up to 3√n: 3 % of 10,000, 0.3 % of a million. A fixed window
	// has no previous generation. For a bucket the first is the number of keys whose
	// bucket is not full, and the second is 0.
	DistinctKeys         float64
	PreviousDistinctKeys float64
	// BloomFill is the share of bits set in the current generation's Bloom filters, 0 …
	// 1, and SketchFill that of cells above 0 in its sketches. For buckets BloomFill is
	// 0, and SketchFill the share of the table's places in use.
	BloomFill  float64
	SketchFill float64
	// OverCapacity is what Config.Overload has done over capacity. Shards that deny
	// only proven keys add 0 to FalseDenialRate.
	OverCapacity OverCapacity
	// OutsidePlan reports whether traffic exceeds what the limiter was made for. It is
	// set if any of these holds:
	//
	//   - There are more keys, in the current or the previous generation, than
	//     Config.Keys × Config.Headroom, or than Plan.Keys, by a twentieth or by the
	//     error of the estimate. Limiters that grow have no such bound.
	//   - FalseDenialRate, as a mean over a window, is above the goal:
	//     Config.FalseDenialRate or Plan.Goal; 1e-5 if neither is set.
	//   - The rate of Audit is above the goal in this window and the one before, beyond
	//     chance (a 99.9 % interval), unless the limiter is shared, or something was
	//     over-admitted.
	//   - TooLow is above 0.
	//   - OverCapacity.Active is set.
	OutsidePlan bool
}

// Stats reads the whole limiter, which takes some 15 ms a MiB at limits up to 100, see
// docs/metrics.md. It copies one shard at a time: no decision waits for more than the
// copy of some KiB.
//
// It is as of now if the limiter has decided without a time, and otherwise as of the
// latest time passed to it.
func (l *Limiter) Stats() Stats {
	p := l.windows.latest()
	sum, e := l.counters()
	all := stats.Of(e, p, int64(l.lowest))
	sum.Admitted += all.Admitted
	sum.Denied += all.Denied
	sum.MeanCost, sum.FalseDenialRate = all.MeanCost, all.FalseDenialRate
	sum.DistinctKeys, sum.PreviousDistinctKeys = all.DistinctKeys, all.PreviousDistinctKeys
	sum.BloomFill, sum.SketchFill = all.BloomFill, all.SketchFill
	keys, rate := l.config.planned()
	errs := 3.
	if l.config.Algorithm == TokenBucket {
		errs = 1
	}
	audited := l.audit.Lately()
	_, least, _ := audited.Rate()
	if l.share.Load() != nil { // what others have used looks as if it was denied wrongly
		least = 0
	}
	sum.OutsidePlan = sum.OutsidePlan || sum.manyKeys(keys, errs) || max(all.InWindow, least) > rate
	return sum
}

// Counters returns Stats without reading the cells, in microseconds: DistinctKeys,
// PreviousDistinctKeys, BloomFill, SketchFill and FalseDenialRate are 0, and OutsidePlan
// depends on TooLow, OverCapacity and Audit.OverAdmitted only.
func (l *Limiter) Counters() Stats {
	sum, e := l.counters()
	all := stats.Counters(e)
	sum.Admitted += all.Admitted
	sum.Denied += all.Denied
	sum.MeanCost = all.MeanCost
	return sum
}

// counters returns the counts that do not need the engine's cells, and the engine.
func (l *Limiter) counters() (sum Stats, e *engine.Engine) {
	sum = Stats{Rotations: l.windows.Turns(), Denied: l.flooded.Load(), TooLow: l.tooLow.Load(), Overdraft: l.overdraft.Load()}
	e = l.engine.Load()
	if l.growth != nil {
		sum.Admitted, sum.Denied, e = l.growth.Gone(sum.Denied)
	}
	sum.OverCapacity = l.overCapacity()
	sum.Audit = auditOf(l.audit.Share(), l.audit.Counts())
	sum.OutsidePlan = sum.TooLow > 0 || sum.OverCapacity.Active || sum.Audit.OverAdmitted > 0
	return sum, e
}

// manyKeys reports whether there are more keys than planned; planned is 0 if unknown.
// The estimate errs by 3√keys, and the number of a bucket's keys with an entry varies
// by √keys.
func (s *Stats) manyKeys(planned, errs float64) bool {
	return planned > 0 && max(s.DistinctKeys, s.PreviousDistinctKeys) > planned+max(planned/20, 4*errs*math.Sqrt(planned))
}

// FalseDenialRate returns the chance, 0 … 1, that an unseen key is denied n units now,
// at a limit, although the exact algorithm admits them. It is 0 if the exact algorithm
// denies them as well, and 1 for limits below Config.LowestLimit; a limit above
// Config.Limit counts as that. [Stats.FalseDenialRate] is the chance at the mean cost
// and the lowest limit. It takes as long as Stats.
func (l *Limiter) FalseDenialRate(n, limit int) float64 {
	if limit < l.lowest {
		return 1
	}
	return stats.FalseDenialRate(l.engine.Load(), l.windows.latest(), int64(n), min(int64(limit), l.limit))
}

// overCapacity returns Stats.OverCapacity.
func (l *Limiter) overCapacity() OverCapacity {
	e := l.engine.Load().Episode(l.windows.latest())
	s := OverCapacity{Active: e.Active, Times: e.Times, Units: e.Units}
	if e.Times > 0 {
		s.Since = time.Unix(0, e.Since)
	}
	if e.Times > 0 && !e.Active {
		s.Exact = time.Unix(0, e.Exact)
	}
	return s
}
