// Package stats sums over the shards of an engine, and of the one that it has replaced
// while that matters: what they have counted, and the chance that an unseen key is
// denied. It reads copies of shards, one at a time, which decisions do not wait for.
package stats

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/engine"
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

// Counters returns the fields of Stats that no counter of a sketch has to be read for:
// the units, and the mean cost.
func Counters(e *engine.Engine) (sum Stats) {
	for _, one := range []*engine.Engine{e, e.Before()} {
		if one != nil {
			admitted, denied := one.Units()
			sum.Admitted += admitted
			sum.Denied += denied
		}
	}
	sum.MeanCost = e.MeanCost()
	return sum
}

// Of reads an engine at a position or later. The false-denial rate is that of a request
// of mean cost at the lowest limit.
func Of(e *engine.Engine, p rotating.Position, lowest int64) Stats {
	before, sum := e.Before(), Counters(e)
	n := min(int64(math.Ceil(sum.MeanCost)), e.Quota(lowest))
	if e.IsBucket() {
		addBucket(e, p, n, lowest, &sum)
		return sum
	}
	for s := range sections(e, p) {
		share, predecessorShare := float64(engine.ShardsOf(e).Count())/float64(s.of), 0.0
		if before != nil {
			predecessorShare = float64(engine.ShardsOf(before).Count()) / float64(s.of)
		}
		sum.DistinctKeys += s.Ages[0].Distinct()*share + s.predecessor[0].Distinct()*predecessorShare
		if len(s.Ages) > 1 {
			sum.PreviousDistinctKeys += s.Ages[1].Distinct()*share + s.predecessor[1].Distinct()*predecessorShare
		}
		if s.Ages[0].Filter != nil {
			sum.BloomFill += s.Ages[0].Filter.FillRatio() / float64(s.of)
		}
		sum.SketchFill += s.Ages[0].Fill(1) / float64(s.of)
		now, mean := s.deniedInWindow(n, lowest)
		sum.FalseDenialRate += now / float64(s.of)
		sum.InWindow += mean / float64(s.of)
	}
	return sum
}

// addBucket adds what the table of a bucket tells. Its keys are those whose buckets are
// not full.
func addBucket(e *engine.Engine, p rotating.Position, n, lowest int64, sum *Stats) {
	c, shards := e.NewCopy(), engine.ShardsOf(e).Count()
	for i := range shards {
		c.Read(i, p, nil)
		use, unseen := c.Use(), c.UnseenBucket()
		sum.DistinctKeys += float64(use.Live)
		sum.SketchFill += float64(use.Live) / float64(e.Times().Lines()*e.Times().Entries()*shards)
		sum.FalseDenialRate += unseen.Denied(n, lowest) / float64(shards)
	}
	if b := e.Before(); b != nil {
		c, shards := b.NewCopy(), engine.ShardsOf(b).Count()
		for i := range shards {
			c.Read(i, p, nil)
			unseen := c.UnseenBucket()
			sum.DistinctKeys += float64(c.Use().Live)
			sum.FalseDenialRate += unseen.Shared(n, lowest) / float64(shards)
		}
		sum.FalseDenialRate = min(1, sum.FalseDenialRate)
	}
	sum.InWindow = sum.FalseDenialRate
}

// FalseDenialRate returns the chance that an unseen key is denied n units at a limit,
// at a position or later, which the exact algorithm admits.
func FalseDenialRate(e *engine.Engine, p rotating.Position, n, limit int64) (rate float64) {
	if e.IsBucket() {
		c := e.NewCopy()
		for i := range engine.ShardsOf(e).Count() {
			c.Read(i, p, nil)
			unseen := c.UnseenBucket()
			rate += unseen.Denied(n, limit) / float64(engine.ShardsOf(e).Count())
		}
		return rate
	}
	for s := range sections(e, p) {
		rate += s.denied(n, limit) / float64(s.of)
	}
	return rate
}

// Footprint returns the bytes of an engine and of what it has replaced.
func Footprint(e *engine.Engine) int {
	bytes := e.Bytes()
	if before := e.Before(); before != nil {
		bytes += before.Bytes()
	}
	return bytes
}
