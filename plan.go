package sketchlimit

import (
	"fmt"

	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Plan is the dimensions of a [Limiter], and what they are for. Each shard has for
// every generation a Bloom filter and a sketch of Depth × Width cells; of a
// TokenBucket, one table of Width lines of 64 bytes. Package tune finds plans for known
// traffic; [Config.Size] and [Limiter.Plan] return those of a limiter.
type Plan struct {
	Shards       int // locks, and parts of the memory; 1 … 1<<24
	BloomBytes   int // of one Bloom filter, a multiple of 64; 0 with TokenBucket
	BloomProbes  int // bits a key sets in it, 1 … bloom.MaxProbes; with 1, an eighth of the keys do, to be told by Stats
	Depth        int // rows of one sketch, 1 … cms.MaxDepth; with TokenBucket entries in a line of the table: 6, 8, 9, 10
	Width        int // cells in a row; 0 only where Limit is 1 and Bloom filters of windows count alone; with TokenBucket lines
	HeavyEntries int // of one shard's table of heavy keys, a multiple of 16; 0 where there is none
	PromoteAt    int // units in a generation from which a key counts as heavy
	CellBits     int // 4, 8, 16: cells that widen, for Limit up to 123, 8191, 1<<31-1; 32 with TokenBucket

	// These fields say what the dimensions were chosen for, with defaults as in
	// [Config]. New returns an error if any of them differs from the Config; with Limit
	// 0 it does not check. The Window is not among them: a plan is for the traffic of
	// one window, so do not use one for a minute with an hour.
	Limit       int
	LowestLimit int
	Algorithm   Algorithm
	SubWindows  int
	Burst       int

	// Keys is the number of distinct keys in a generation that the dimensions are for;
	// 0 if unknown. FalseDenialRate is the expected share of light keys' requests
	// denied wrongly with so many keys, and Goal the share that was asked for; 0 if
	// none was. New does not check these; Stats.OutsidePlan uses them.
	Keys            float64
	FalseDenialRate float64
	Goal            float64
}

func (p *Plan) dimensions() spec.Dimensions {
	return spec.Dimensions{
		Shards: p.Shards, BloomBytes: p.BloomBytes, BloomProbes: p.BloomProbes, Depth: p.Depth, Width: p.Width,
		CellBits: p.CellBits, HeavyEntries: p.HeavyEntries, PromoteAt: p.PromoteAt,
	}
}

// purpose is what dimensions are chosen for, with defaults filled in.
type purpose struct {
	limit, lowest int
	algorithm     Algorithm
	subWindows    int
	burst         int
}

func purposeOf(limit, lowest int, a Algorithm, subWindows, burst int) purpose {
	if lowest == 0 {
		lowest = limit
	}
	if burst == 0 && a == TokenBucket {
		burst = limit
	}
	return purpose{limit, lowest, a, max(subWindows, 1), burst}
}

// checkPurpose returns an error for a plan that was made for another Config.
func (p *Plan) checkPurpose(c *Config) error {
	if p.Limit == 0 {
		return nil
	}
	made := purposeOf(p.Limit, p.LowestLimit, p.Algorithm, p.SubWindows, p.Burst)
	wanted := purposeOf(c.Limit, c.LowestLimit, c.Algorithm, c.SubWindows, c.Burst)
	for _, field := range []struct {
		name       string
		have, want any
	}{
		{"Limit", made.limit, wanted.limit},
		{"LowestLimit", made.lowest, wanted.lowest},
		{"Algorithm", made.algorithm, wanted.algorithm},
		{"SubWindows", made.subWindows, wanted.subWindows},
		{"Burst", made.burst, wanted.burst},
	} {
		if field.have != field.want {
			return fmt.Errorf("sketchlimit: Plan.%s %v, must be the Config's, %v", field.name, field.have, field.want)
		}
	}
	return nil
}

// planOf returns dimensions of a limiter of this Config as a Plan.
func (c *Config) planOf(d spec.Dimensions) Plan {
	keys, rate := c.planned()
	goal := rate
	if c.Plan != nil {
		goal = c.Plan.Goal
	}
	return Plan{
		Shards: d.Shards, BloomBytes: d.BloomBytes, BloomProbes: d.BloomProbes, Depth: d.Depth, Width: d.Width,
		CellBits: d.CellBits, HeavyEntries: d.HeavyEntries, PromoteAt: d.PromoteAt,
		Limit: c.Limit, LowestLimit: c.LowestLimit, Algorithm: c.Algorithm, SubWindows: c.SubWindows, Burst: c.Burst,
		Keys: keys, FalseDenialRate: rate, Goal: goal,
	}
}

// planned returns the keys in a generation that the limiter is for, 0 if unknown, and its
// false-denial rate.
func (c *Config) planned() (keys, rate float64) {
	keys, rate = float64(c.Keys), c.goal()
	if c.Limit > 1 && c.MemoryBytes == 0 {
		keys *= c.headroom()
	}
	if c.Algorithm == TokenBucket && c.Keys > 0 && c.MemoryBytes == 0 { // of which those count that have an entry
		need := c.need()
		keys = need.EntriesAtOnce(c.Keys)
	}
	if c.Plan != nil {
		keys, rate = c.Plan.Keys, max(rate, c.Plan.FalseDenialRate)
		if c.Plan.Goal > 0 {
			rate = c.Plan.Goal
		}
	}
	if c.MaxMemoryBytes > 0 { // it makes itself for as many as there are
		keys = 0
	}
	return keys, rate
}
