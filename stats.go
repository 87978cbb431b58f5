package sketchlimit

import "math"

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

	// MeanCost is the units of an admitted request of an innocent key, on average over the last ten thousands.
	MeanCost float64
	// FalseDenialRate is the chance, 0 … 1, that a key which the limiter has
	// never seen is denied its first request now, of MeanCost units, at Config.LowestLimit. For other costs and
	// limits see [Limiter.FalseDenialRate]. It is no estimate from samples but
	// follows from what every cell holds, also those of limiters that share the limit.
	// It is no bound for keys of a window that have used some of their limit: they meet more, see InnocentDenialRate. Of a
	// bucket it is a bound for all: a key that has an entry is not denied wrongly.
	FalseDenialRate float64
	// InnocentDenialRate estimates the share, 0 … 1, of the requests of innocent keys that are denied lately, at the
	// costs and limits that these requests have. Innocent keys have used less than half of their limit. It is the figure
	// to alert on; notes/stats.md says how good it is. Of a bucket it is FalseDenialRate, a bound.
	InnocentDenialRate float64
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
	// Spared tells what Config.Overload has done beyond the plan. FalseDenialRate and InnocentDenialRate are about what is
	// denied: of shards that spare they are 0.
	Spared Spared
	// OutsidePlan tells that the limiter is not used as it was made for. Any of these is enough:
	//
	//   - There are more keys, in the current or in the previous generation, than Config.Keys times Config.Headroom, or
	//     than Plan.Keys.
	//     Some more are put down to the error of the estimate. Limiters that grow have no such bound.
	//   - FalseDenialRate is above Config.FalseDenialRate; above 1e-5 if that is not set, or above
	//     Plan.FalseDenialRate if that is higher. It is the rate of this moment: as planned, it is highest at the end of a
	//     window, and there up to some tens of times the mean.
	//   - InnocentDenialRate is above a hundredth, and above ten times that rate. With SubWindows it is too uncertain.
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
	sum := Stats{Rotations: l.windows.Turns(), Denied: l.flooded.Load(), TooLow: l.tooLow.Load(), Overdraft: l.overdraft.Load()}
	e := l.engine.Load()
	if l.growth != nil {
		sum.Admitted, sum.Denied, e = l.growth.Gone(sum.Denied)
	}
	all := e.Stats(p, int64(l.lowest))
	sum.Admitted += all.Admitted
	sum.Denied += all.Denied
	sum.MeanCost, sum.FalseDenialRate, sum.InnocentDenialRate = all.MeanCost, all.FalseDenialRate, all.InnocentDenialRate
	sum.DistinctKeys, sum.PreviousDistinctKeys = all.DistinctKeys, all.PreviousDistinctKeys
	sum.BloomFill, sum.SketchFill = all.BloomFill, all.SketchFill
	sum.Spared = l.spared()
	keys, rate := l.config.planned()
	sum.OutsidePlan = sum.outside(keys, rate) ||
		l.config.SubWindows <= 1 && sum.InnocentDenialRate > max(manyDenied, 10*rate)
	return sum
}

// outside tells whether a limiter that is planned for so many keys and a false-denial rate is used for more.
func (s *Stats) outside(keys, rate float64) bool {
	return s.TooLow > 0 || s.Spared.Active || s.FalseDenialRate > rate ||
		keys > 0 && max(s.DistinctKeys, s.PreviousDistinctKeys) > keys+max(keys/20, 12*math.Sqrt(keys)) // four times 3√keys, by which estimates err
}

// manyDenied is a rate of innocent keys that no plan is made for. At the planned traffic estimates of that rate were up
// to a quarter of it where next to nobody was denied, and in sub-windows above it: notes/ordinary.md.
const manyDenied = 0.01

// FalseDenialRate returns the chance, 0 … 1, that a key which the limiter has never seen is denied n units now
// at a limit, although the exact algorithm admits them. It is 0 if the exact algorithm denies them as well, and 1
// for limits below Config.LowestLimit; a limit above Config.Limit counts as that. [Stats.FalseDenialRate] is the
// chance for a request of usual cost at the lowest limit. It takes as long as Stats does.
func (l *Limiter) FalseDenialRate(n, limit int) float64 {
	if limit < l.lowest {
		return 1
	}
	return l.engine.Load().FalseDenialRate(l.windows.latest(), int64(n), min(int64(limit), l.limit))
}
