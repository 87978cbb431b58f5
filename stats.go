package sketchlimit

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/stats"
)

// Stats is a picture of a [Limiter].
//
// No request adds more units to Admitted, Denied or Overdraft than the limit that it is held against, or Burst of a bucket:
// a client that chooses its cost cannot ruin a sum. A request below Config.LowestLimit adds one unit to Denied. What is
// charged is held against Config.Limit.
type Stats struct {
	Admitted  uint64 // units since construction, charged ones included
	Overdraft uint64 // units since construction that were charged although they were not free, see [Limiter.Charge]
	Denied    uint64 // units since construction
	TooLow    uint64 // requests with limits of 1 … Config.LowestLimit-1 since construction: all denied
	Rotations uint64 // times that a decision has begun a new generation since construction; of buckets, that times were brought forward

	// MeanCost is the units of an admitted request, on average over the last ten thousands.
	MeanCost float64
	// FalseDenialRate is the chance, 0 … 1, that a key which the limiter has
	// never seen is denied its first request now, of MeanCost units, at Config.LowestLimit. For other costs and
	// limits see [Limiter.FalseDenialRate]. It is no estimate from samples but
	// follows from what every cell holds, also those of limiters that share the limit.
	// It is no bound for keys of a window that have used some of their limit: they meet more, see Audit. Of a
	// bucket it is a bound for all: a key that has an entry is not denied wrongly.
	FalseDenialRate float64
	// Audit is what an exact count of a sample of the keys tells. Its rate is that of light keys, which is the one to alert
	// on.
	Audit Audit
	// DistinctKeys and PreviousDistinctKeys estimate the keys that were admitted
	// in the current and in the previous generation, until the doorkeepers are full. The standard error of n keys is up to
	// 3√n: 3 % of 10,000, 0.3 % of a million. A fixed window has no previous generation. Of a bucket the first counts the
	// keys that are not full, by a table that is read whole (and by two, while it grows), and the second is 0.
	DistinctKeys         float64
	PreviousDistinctKeys float64
	// BloomFill and SketchFill are the share of bits set in the current
	// generation's doorkeepers, and of cells above 0 in its sketches, 0 … 1. Of
	// buckets they are 0, and the share of the table's places that are in use.
	BloomFill  float64
	SketchFill float64
	// Spared counts what Config.Overload has done beyond the plan. FalseDenialRate is about what is denied: of shards that
	// spare it is 0.
	Spared Spared
	// OutsidePlan reports whether traffic exceeds what the limiter was made for. It is set if any of these holds:
	//
	//   - There are more keys, in the current or in the previous generation, than Config.Keys times Config.Headroom, or
	//     than Plan.Keys, by a twentieth or what the estimate errs by.
	//     Limiters that grow have no such bound.
	//   - FalseDenialRate, as a mean over a window, is above the goal: Config.FalseDenialRate or Plan.Goal; 1e-5 if neither
	//     is set.
	//   - The rate of Audit is above the goal in this window and the one before, beyond chance (a 99.9 % interval), unless
	//     the limiter is shared, or something was over-admitted.
	//   - TooLow is above 0.
	//   - Spared.Active: some keys are spared.
	OutsidePlan bool
}

// Stats reads the whole limiter; docs/metrics.md says how long that takes. It copies one
// shard at a time: no decision waits for more than the copy of some KiB.
//
// It is as of now if the limiter has been asked for decisions without a time, and otherwise as of the latest time that came.
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

// Counters returns a Stats without what reads the cells: DistinctKeys, PreviousDistinctKeys, BloomFill, SketchFill and
// FalseDenialRate are 0, and OutsidePlan tells only of TooLow, Spared and Audit.OverAdmitted. It takes microseconds where
// Stats takes milliseconds.
func (l *Limiter) Counters() Stats {
	sum, e := l.counters()
	all := stats.Counters(e)
	sum.Admitted += all.Admitted
	sum.Denied += all.Denied
	sum.MeanCost = all.MeanCost
	return sum
}

// counters returns what is counted beside the engine that decides, and that engine.
func (l *Limiter) counters() (sum Stats, e *engine.Engine) {
	sum = Stats{Rotations: l.windows.Turns(), Denied: l.flooded.Load(), TooLow: l.tooLow.Load(), Overdraft: l.overdraft.Load()}
	e = l.engine.Load()
	if l.growth != nil {
		sum.Admitted, sum.Denied, e = l.growth.Gone(sum.Denied)
	}
	sum.Spared = l.spared()
	sum.Audit = auditOf(l.audit.Share(), l.audit.Counts())
	sum.OutsidePlan = sum.TooLow > 0 || sum.Spared.Active || sum.Audit.OverAdmitted > 0
	return sum, e
}

// manyKeys reports whether there are more keys than a limiter is planned for, 0 if nobody knows. The estimate errs by 3√keys, and
// how many keys of a bucket have an entry at a time varies by √keys.
func (s *Stats) manyKeys(planned, errs float64) bool {
	return planned > 0 && max(s.DistinctKeys, s.PreviousDistinctKeys) > planned+max(planned/20, 4*errs*math.Sqrt(planned))
}

// FalseDenialRate returns the chance, 0 … 1, that a key which the limiter has never seen is denied n units now
// at a limit, although the exact algorithm admits them. It is 0 if the exact algorithm denies them as well, and 1
// for limits below Config.LowestLimit; a limit above Config.Limit counts as that. [Stats.FalseDenialRate] is the
// chance for a request of usual cost at the lowest limit. It takes as long as Stats does.
func (l *Limiter) FalseDenialRate(n, limit int) float64 {
	if limit < l.lowest {
		return 1
	}
	return stats.FalseDenialRate(l.engine.Load(), l.windows.latest(), int64(n), min(int64(limit), l.limit))
}

// spared returns what Stats tell.
func (l *Limiter) spared() Spared {
	e := l.engine.Load().Episode(l.windows.latest())
	s := Spared{Active: e.Active, Times: e.Times, Units: e.Units}
	if e.Times > 0 {
		s.Since = time.Unix(0, e.Since)
	}
	if e.Times > 0 && !e.Active {
		s.Exact = time.Unix(0, e.Exact)
	}
	return s
}
