package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/striped"
)

const (
	sampleBits  = 6 // one admitted request in 64 tells what it costs
	costMemory  = 512
	newestCosts = 16
)

// tellsCost draws the requests whose cost is noted, by what their shard has admitted: so it does
// not hang on what one costs.
func tellsCost(s *shard) bool { return s.admitted*golden>>(64-sampleBits) == 0 }

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ / φ: its multiples are spread evenly

// noteCost makes the cost of an admitted request part of the mean: of all noted, or mostly of the last costMemory. What others
// note meanwhile may be lost.
func noteCost(c *striped.Counter, n int64) {
	noted := c.Word(0, 0).Add(1)
	for i, memory := range [...]uint64{costMemory, newestCosts} {
		mean := c.Word(0, 1+i)
		was := math.Float64frombits(mean.Load())
		mean.Store(math.Float64bits(was + (float64(n)-was)/float64(min(noted, memory))))
	}
}

// meanCost returns the mean units of the requests admitted lately; 1 if there were none.
func meanCost(c *striped.Counter) float64 {
	return max(1, math.Float64frombits(c.Word(0, 1).Load()))
}

// dearCost returns the mean units of the newest requests, if that is more.
func dearCost(c *striped.Counter) float64 {
	return max(meanCost(c), math.Float64frombits(c.Word(0, 2).Load()))
}
