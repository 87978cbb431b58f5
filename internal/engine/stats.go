package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// Stats is the sum over all shards.
type Stats struct {
	Admitted, Denied                   uint64  // units
	MeanCost                           float64 // of admitted requests, lately
	FalseDenialRate, InWindow          float64 // now, and the mean over a window
	DistinctKeys, PreviousDistinctKeys float64
	BloomFill, SketchFill              float64
}

// Counters returns the fields of Stats that no cell has to be read for, of the engine and of what it has replaced: the
// units, and the mean cost.
func (e *Engine) Counters() (sum Stats) {
	for _, one := range []*Engine{e, e.before()} {
		if one != nil {
			admitted, denied := one.Units()
			sum.Admitted += admitted
			sum.Denied += denied
		}
	}
	sum.MeanCost = meanCost(e.flooded)
	return sum
}

// Stats reads the engine and what it has replaced, at a position or later. The false-denial rate is that of a request of
// mean cost at the lowest limit. It copies one shard at a time.
func (e *Engine) Stats(p rotating.Position, lowest int64) Stats {
	before, sum := e.before(), e.Counters()
	n := int64(math.Ceil(sum.MeanCost))
	if e.IsBucket() {
		bucketStats(e, p, n, lowest, &sum)
		return sum
	}
	for s := range pieces(e, p, before) {
		share, former := float64(len(e.shards))/float64(s.of), 0.0
		if before != nil {
			former = float64(len(before.shards)) / float64(s.of)
		}
		sum.DistinctKeys += s.ages[0].Distinct()*share + s.former[0].Distinct()*former
		if len(s.ages) > 1 {
			sum.PreviousDistinctKeys += s.ages[1].Distinct()*share + s.former[1].Distinct()*former
		}
		if s.ages[0].Filter != nil {
			sum.BloomFill += s.ages[0].Filter.FillRatio() / float64(s.of)
		}
		sum.SketchFill += s.ages[0].Fill(1) / float64(s.of)
		now, mean := s.deniedInWindow(min(n, e.quota(lowest)), lowest)
		sum.FalseDenialRate += now / float64(s.of)
		sum.InWindow += mean / float64(s.of)
	}
	return sum
}

// bucketStats adds what the table of a bucket tells. Its keys are those whose buckets are not full.
func bucketStats(e *Engine, p rotating.Position, n, lowest int64, sum *Stats) {
	for s := range pieces(e, p, nil) {
		ticks, _ := e.Bucket.Ticks(s.at.Elapsed)
		use := e.times.Use(bucket{s.copy}.table(), uint32(ticks), 0)
		sum.DistinctKeys += float64(use.Live)
		sum.SketchFill += float64(use.Live) / float64(e.times.Lines()*e.times.Entries()*s.of)
		sum.FalseDenialRate += s.denied(min(n, e.quota(lowest)), lowest) / float64(s.of)
	}
	if b := e.before(); b != nil {
		for s := range pieces(b, p, nil) {
			ticks, _ := b.Bucket.Ticks(s.at.Elapsed)
			sum.DistinctKeys += float64(b.times.Use(bucket{s.copy}.table(), uint32(ticks), 0).Live)
			sum.FalseDenialRate += bucketShares(bucket{s.copy}, s.at, min(n, b.quota(lowest)), lowest) / float64(s.of)
		}
		sum.FalseDenialRate = min(1, sum.FalseDenialRate)
	}
	sum.InWindow = sum.FalseDenialRate
}

// FalseDenialRate returns the chance that a new key is denied n units at a limit, at a position or later, which the
// exact algorithm admits.
func (e *Engine) FalseDenialRate(p rotating.Position, n, limit int64) (rate float64) {
	for s := range pieces(e, p, e.before()) {
		rate += s.denied(n, limit) / float64(s.of)
	}
	return rate
}

// Units returns what the engine has admitted and denied under its locks.
func (e *Engine) Units() (admitted, denied uint64) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		admitted += s.admitted
		denied += s.denied
		s.mu.Unlock()
	}
	return admitted, denied
}
