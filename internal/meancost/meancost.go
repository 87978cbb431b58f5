// Package meancost keeps what admitted requests cost on average, by a sample of them.
package meancost

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/striped"
)

const (
	sampleBits  = 6 // one admitted request in 64 tells what it costs
	costMemory  = 512
	newestCosts = 16
)

// Sampled draws the requests whose cost is noted, by the units that their shard has
// admitted: so it does not hang on what one costs. The compiler inlines it.
func Sampled(admitted uint64) bool { return admitted*golden>>(64-sampleBits) == 0 }

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ / φ: its multiples are spread evenly

// Note makes the cost of an admitted request part of the mean: of all noted, or mostly
// of the last costMemory. What others note meanwhile may be lost.
func Note(c *striped.Counter, n int64) {
	noted := c.Word(0, 0).Add(1)
	for i, memory := range [...]uint64{costMemory, newestCosts} {
		mean := c.Word(0, 1+i)
		was := math.Float64frombits(mean.Load())
		mean.Store(math.Float64bits(was + (float64(n)-was)/float64(min(noted, memory))))
	}
}

// Mean returns the mean units of the requests admitted lately; 1 if there were none.
func Mean(c *striped.Counter) float64 {
	return max(1, math.Float64frombits(c.Word(0, 1).Load()))
}

// Newest returns the mean units of the newest requests, if that is more.
func Newest(c *striped.Counter) float64 {
	return max(Mean(c), math.Float64frombits(c.Word(0, 2).Load()))
}
