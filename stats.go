package sketchlimit

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
)

// Stats is a picture of a [Limiter].
type Stats struct {
	Admitted  uint64 // units since construction
	Denied    uint64 // units since construction
	Rotations uint64 // times that a new generation has begun since construction

	// FalseDenialRate is the chance, 0 … 1, that a key which the limiter has
	// never seen is denied its first unit now. It is no estimate from samples but
	// follows from what every cell holds. It is no bound for keys that have used
	// some of their limit: they have passed the doorkeeper and meet more.
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

// Stats reads the whole limiter, about four milliseconds for each MiB. It copies one
// shard at a time: no decision waits for more than the copy of some KiB.
func (l *Limiter) Stats() Stats {
	p := l.windows.Now()
	sum := Stats{Rotations: l.windows.Turns(), Denied: l.flooded.load()}
	memory := make([]uint64, l.size)
	for i := range l.shards {
		admitted, denied, at, ages := l.copyShard(i, p, memory)
		sum.Admitted += admitted
		sum.Denied += denied
		sum.DistinctKeys += ages[0].distinct()
		if len(ages) > 1 {
			sum.PreviousDistinctKeys += ages[1].distinct()
		}
		sum.BloomFill += ages[0].door.FillRatio()
		sum.SketchFill += fill(&ages[0].cells)
		sum.FalseDenialRate += l.falseDenialRate(at, ages)
	}
	n := float64(len(l.shards))
	sum.BloomFill /= n
	sum.SketchFill /= n
	sum.FalseDenialRate /= n // a new key falls in any shard alike
	return sum
}

// generation is a copy of what a shard holds of one span of time.
type generation struct {
	door  bloom.Filter
	cells cms.Sketch // no cells where the limit is 1
	heavy int        // keys counted in the heavy table alone
}

func (g *generation) distinct() float64 { return g.door.Distinct() + float64(g.heavy) }

// copyShard copies the i-th shard's memory and returns it by age, with the position
// that it stands for.
func (l *Limiter) copyShard(i int, p Position, memory []uint64) (admitted, denied uint64, at Position, ages []generation) {
	s := &l.shards[i]
	s.mu.Lock()
	r := request{l, s, i * l.size, 0}
	at = r.turn(p)
	copy(memory, l.memory[i*l.size:])
	admitted, denied, wheel := s.admitted, s.denied, s.wheel
	s.mu.Unlock()

	ages = make([]generation, l.generations)
	for age := range ages {
		words := memory[wheel.Index(age)*l.generation:][:l.generation]
		door, err := bloom.Over(words[:l.door.Words()], l.door.Probes())
		if err == nil && l.cells.Depth() > 0 {
			var cells *cms.Sketch
			if cells, err = cms.Over(words[l.door.Words():], l.cells.Depth(), l.cells.Width(), l.cells.CellBits()); err == nil {
				ages[age].cells = *cells
			}
		}
		if err != nil {
			panic(err) // the plan has been checked
		}
		ages[age].door = *door
		ages[age].heavy = l.heavy.held(memory[l.generations*l.generation:], age)
	}
	return admitted, denied, at, ages
}

func fill(k *cms.Sketch) float64 {
	if k.Depth() == 0 {
		return 0
	}
	sum := 0.0
	for r := range k.Depth() {
		for lane := range k.Lanes() {
			sum += k.Tail(r, lane, 1)
		}
	}
	return sum / float64(k.Depth()*k.Lanes())
}

// maxSteps bounds the readings that falseDenialRate tells apart; counts between two
// steps are taken as the upper one.
const maxSteps = 1024

// falseDenialRate returns the chance that a new key is denied one unit now. Its
// readings in the generations are independent, because their seeds are, so their
// distributions convolve.
func (w *window) falseDenialRate(p Position, ages []generation) float64 {
	step := (w.limit + maxSteps - 1) / maxSteps
	top := int((w.limit + step - 1) / step)
	sum := make([]float64, top+1) // chance of each sum of readings, in steps; the last: or more
	sum[0] = 1
	for age := range ages {
		reading := w.reading(&ages[age], age, p.Elapsed, step, top)
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
func (w *window) reading(g *generation, age int, elapsed time.Duration, step int64, top int) []float64 {
	atLeast := make([]float64, top+2)
	if g.cells.Depth() == 0 {
		one := int((w.weighted(1, age, elapsed) + step - 1) / step)
		for i := range atLeast[:min(one, top)+1] {
			atLeast[i] = 1
		}
	}
	at := func(c uint32) int { // the step of a cell's count
		return int(min((w.weighted(1+int64(c), age, elapsed)+step-1)/step, int64(top)))
	}
	for lane := range g.cells.Lanes() {
		for i, p := range g.lane(lane, top, at) {
			atLeast[i] += p / float64(g.cells.Lanes())
		}
	}
	passed := g.door.FalsePositiveRate()
	reading := make([]float64, top+1)
	for i := range reading {
		reading[i] = passed * math.Max(0, atLeast[i]-atLeast[i+1])
	}
	reading[0] += 1 - passed
	return reading
}

// lane returns the chances that a new key in a lane reads at least each step: it meets
// a cell drawn at random in every row.
func (g *generation) lane(lane, top int, step func(c uint32) int) []float64 {
	atLeast := make([]float64, top+1)
	for i := range atLeast {
		atLeast[i] = 1
	}
	cells := make([]int, top+1)
	for r := range g.cells.Depth() {
		clear(cells)
		n := 0
		for c := range g.cells.Cells(r, lane) {
			cells[step(c)]++
			n++
		}
		tail := 0
		for i := top; i >= 0; i-- {
			tail += cells[i]
			atLeast[i] *= float64(tail) / float64(n)
		}
	}
	return atLeast
}
