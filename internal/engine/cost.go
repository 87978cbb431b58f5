package engine

import "math"

const (
	sampleBits  = 6 // one admitted request in 64 tells what it costs
	costMemory  = 512
	newestCosts = 16
)

// tellsCost draws the requests whose cost is noted, by what the shard has admitted: so it does
// not hang on what this one costs.
func (r request) tellsCost() bool { return r.s.admitted*golden>>(64-sampleBits) == 0 }

// noteCost makes the cost of an admitted request part of the mean: of all noted, or mostly of the last costMemory. What others
// note meanwhile may be lost.
func (e *Engine) noteCost(n int64) {
	noted := e.flooded.Word(0, 0).Add(1)
	for i, memory := range [...]uint64{costMemory, newestCosts} {
		mean := e.flooded.Word(0, 1+i)
		was := math.Float64frombits(mean.Load())
		mean.Store(math.Float64bits(was + (float64(n)-was)/float64(min(noted, memory))))
	}
}

// meanCost returns the mean units of the requests admitted lately; 1 if there were none.
func (e *Engine) meanCost() float64 {
	return max(1, math.Float64frombits(e.flooded.Word(0, 1).Load()))
}

// dearCost returns the mean units of the newest requests, if that is more.
func (e *Engine) dearCost() float64 {
	return max(e.meanCost(), math.Float64frombits(e.flooded.Word(0, 2).Load()))
}
