package sketchlimit

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/cms"
)

// Stats is a picture of a [Limiter].
type Stats struct {
	Admitted  uint64 // units since construction
	Denied    uint64 // units since construction
	Rotations uint64 // times that a new generation has begun since construction

	// FalseDenialRate is the chance, 0 … 1, that a key which the limiter has
	// never seen is denied its first unit now. It is no estimate from samples but
	// follows from what every cell holds.
	FalseDenialRate float64
	// DistinctKeys and PreviousDistinctKeys estimate the keys that were admitted
	// in the current and in the previous generation, to about 1 % until the
	// doorkeepers are full. A fixed window has no previous generation.
	DistinctKeys         float64
	PreviousDistinctKeys float64
	// BloomFill and SketchFill are the share of bits set in the current
	// generation's doorkeepers, and of cells above 0 in its sketches, 0 … 1.
	BloomFill  float64
	SketchFill float64
}

// Stats reads the whole limiter, about a millisecond for each MiB. It copies one
// shard at a time: no decision waits for more than the copy of some KiB.
func (l *Limiter) Stats() Stats {
	p := l.windows.Now()
	copied := new(shard)
	if _, err := copied.init(l.plan, l.shards[0].window, l.shards[0].ring.Len(), 0, 0,
		make([]uint64, len(l.shards[0].words))); err != nil {
		panic(err) // the plan has built all shards before
	}
	sum := Stats{Rotations: l.windows.Turns()}
	for i := range l.shards {
		at := l.shards[i].copyTo(copied, p)
		sum.Admitted += copied.admitted
		sum.Denied += copied.denied
		sum.DistinctKeys += copied.distinct(0)
		if copied.ring.Len() > 1 {
			sum.PreviousDistinctKeys += copied.distinct(1)
		}
		current, _ := copied.ring.At(0)
		sum.BloomFill += current.door.FillRatio()
		sum.SketchFill += fill(&current.cells)
		sum.FalseDenialRate += copied.falseDenialRate(at)
	}
	n := float64(len(l.shards))
	sum.BloomFill /= n
	sum.SketchFill /= n
	sum.FalseDenialRate /= n // a new key falls in any shard alike
	return sum
}

// copyTo makes to, a shard of the same dimensions, a copy of this one.
func (s *shard) copyTo(to *shard, p Position) Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.Advance(p.Generation)
	copy(to.words, s.words)
	to.ring.Follow(&s.ring)
	to.admitted, to.denied = s.admitted, s.denied
	return s.clamp(p)
}

func (s *shard) distinct(age int) float64 {
	g, _ := s.ring.At(age)
	return g.door.Distinct()
}

func fill(k *cms.Sketch) float64 {
	if k.Depth() == 0 {
		return 0
	}
	sum := 0.0
	for r := range k.Depth() {
		sum += k.Tail(r, 1)
	}
	return sum / float64(k.Depth())
}

// maxSteps bounds the readings that falseDenialRate tells apart; counts between two
// steps are taken as the upper one.
const maxSteps = 1024

// falseDenialRate returns the chance that a new key is denied one unit now. Its
// readings in the generations are independent, because their seeds are, so their
// distributions convolve.
func (s *shard) falseDenialRate(p Position) float64 {
	step := (s.window.limit + maxSteps - 1) / maxSteps
	top := int((s.window.limit + step - 1) / step)
	sum := make([]float64, top+1) // chance of each sum of readings, in steps; the last: or more
	sum[0] = 1
	for age := range s.ring.Len() {
		reading := s.reading(age, p.Elapsed, step, top)
		next := make([]float64, top+1)
		for a, pa := range sum {
			if pa == 0 {
				continue
			}
			for b, pb := range reading {
				next[min(a+b, top)] += pa * pb
			}
		}
		sum = next
	}
	return sum[top]
}

// reading returns the chances of what a new key reads in one generation, weighted,
// in steps up to top. Past the doorkeeper, it reads at least c with the chance that
// all rows do, each of which it meets in a cell drawn at random.
func (s *shard) reading(age int, elapsed time.Duration, step int64, top int) []float64 {
	g, _ := s.ring.At(age)
	atLeast := make([]float64, top+2)
	for i := range atLeast[:top+1] {
		atLeast[i] = 1
	}
	for r := range g.cells.Depth() {
		cells := make([]int, top+1)
		for c := range g.cells.Cells(r) {
			w := s.window.weighted(1+int64(c), age, s.ring.Len(), elapsed)
			cells[min((w+step-1)/step, int64(top))]++
		}
		tail := 0
		for i := top; i >= 0; i-- {
			tail += cells[i]
			atLeast[i] *= float64(tail) / float64(g.cells.Width())
		}
	}
	if g.cells.Depth() == 0 {
		one := int((s.window.weighted(1, age, s.ring.Len(), elapsed) + step - 1) / step)
		clear(atLeast[min(one, top)+1:])
	}
	passed := g.door.FalsePositiveRate()
	reading := make([]float64, top+1)
	for i := range reading {
		reading[i] = passed * math.Max(0, atLeast[i]-atLeast[i+1])
	}
	reading[0] += 1 - passed
	return reading
}
