package sketchlimit

import (
	"math"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
)

// Stats is a picture of a [Limiter].
type Stats struct {
	Admitted  uint64 // units since construction
	Denied    uint64 // units since construction
	TooLow    uint64 // requests with a limit below Config.LowestLimit since construction: all denied
	Rotations uint64 // times that a new generation has begun since construction; of buckets, times that cells were brought forward

	// FalseDenialRate is the chance, 0 … 1, that a key which the limiter has
	// never seen is denied its first unit now. It is no estimate from samples but
	// follows from what every cell holds. It is no bound for keys that have used
	// some of their limit: they have passed the doorkeeper and meet more.
	FalseDenialRate float64
	// DistinctKeys and PreviousDistinctKeys estimate the keys that were admitted
	// in the current and in the previous generation, to about 1 % until the
	// doorkeepers are full. A fixed window has no previous generation. A bucket
	// does not know: both are 0.
	DistinctKeys         float64
	PreviousDistinctKeys float64
	// BloomFill and SketchFill are the share of bits set in the current
	// generation's doorkeepers, and of cells above 0 in its sketches, 0 … 1. Of
	// buckets they are 0, and the share of cells whose time lies ahead.
	BloomFill  float64
	SketchFill float64
	// OutsidePlan tells that there are more keys, in the current or in the previous
	// generation, than the limiter was made for (Config.Keys, or those of the Plan's
	// Forecast; one that grows makes itself for as many as there are), or that
	// FalseDenialRate has passed Config.FalseDenialRate, 1e-5 if that is not set, and
	// what the Plan expects; or that requests came with limits below Config.LowestLimit.
	OutsidePlan bool
}

// Stats reads the whole limiter, about four milliseconds for each MiB. It copies one
// shard at a time: no decision waits for more than the copy of some KiB.
func (l *Limiter) Stats() Stats {
	p := l.windows.Now()
	sum := Stats{Rotations: l.windows.Turns(), Denied: l.flooded.load(), TooLow: l.tooLow.Load()}
	if g := l.growth; g != nil {
		g.mu.Lock() // nothing is replaced meanwhile
		defer g.mu.Unlock()
		sum.Admitted, sum.Denied = g.admitted, sum.Denied+g.denied
	}
	in := l.inUse()
	in.addTo(&sum, p, in.before.Load())
	sum.OutsidePlan = sum.TooLow > 0 || sum.FalseDenialRate > l.planned.rate ||
		l.planned.keys > 0 && max(sum.DistinctKeys, sum.PreviousDistinctKeys) > 1.05*l.planned.keys
	return sum
}

// addTo adds up the limiter and what it has replaced, if that matters still. Their
// shards have the keys in the same order: parts of the keys that share a shard of
// either are looked at one after another.
func (l *Limiter) addTo(sum *Stats, p Position, before *Limiter) {
	parts, memory := len(l.shards), make([]uint64, l.size)
	var formerMemory []uint64
	if before != nil {
		parts, formerMemory = max(parts, len(before.shards)), make([]uint64, before.size)
		admitted, denied := before.units()
		sum.Admitted += admitted
		sum.Denied += denied
	}
	admitted, denied := l.units()
	sum.Admitted += admitted
	sum.Denied += denied
	for part := range parts {
		at, ages := l.copyShard(part*len(l.shards)/parts, p, memory)
		var former []generation
		if before != nil {
			last, f := before.copyShard(part*len(before.shards)/parts, Position{Generation: math.MinInt64}, formerMemory)
			former = aligned(f, at.Generation-last.Generation)
		}
		share := float64(len(l.shards)) / float64(parts)
		sum.DistinctKeys += ages[0].distinct() * share
		if len(ages) > 1 {
			sum.PreviousDistinctKeys += ages[1].distinct() * share
		}
		if before != nil {
			share = float64(len(before.shards)) / float64(parts)
			sum.DistinctKeys += former[0].distinct() * share
			if len(former) > 1 {
				sum.PreviousDistinctKeys += former[1].distinct() * share
			}
		}
		if ages[0].door != nil {
			sum.BloomFill += ages[0].door.FillRatio() / float64(parts)
		}
		sum.SketchFill += fill(&ages[0].cells, l.counts(at)) / float64(parts)
		sum.FalseDenialRate += l.falseDenialRate(at, ages, former) / float64(parts) // a new key falls in any alike
	}
}

// aligned returns a shard's generations by their age so many generations later. Those that
// are missing are empty ones.
func aligned(ages []generation, later int64) []generation {
	out := make([]generation, len(ages))
	for age := range ages {
		if earlier := int64(age) - later; earlier >= 0 && earlier < int64(len(ages)) {
			out[age] = ages[earlier]
		}
	}
	return out
}

// generation is a copy of what a shard holds of one span of time.
type generation struct {
	door  *bloom.Filter // nil where it is missing
	cells cms.Sketch    // no cells where the limit is 1
	heavy int           // keys counted in the heavy table alone
}

// missing is true of a generation that is not kept any more, and of a bucket's.
func (g *generation) missing() bool { return g.door == nil }

func (g *generation) distinct() float64 {
	if g.missing() {
		return 0
	}
	return g.door.Distinct() + float64(g.heavy)
}

// copyShard copies the i-th shard's memory and returns it by age, with the position
// that it stands for, which is not before p.
func (l *Limiter) copyShard(i int, p Position, memory []uint64) (at Position, ages []generation) {
	s := &l.shards[i]
	s.mu.Lock()
	r := request{l, s, i * l.size, 0}
	at = r.turn(p)
	copy(memory, l.memory[i*l.size:])
	number := s.number
	s.mu.Unlock()

	ages = make([]generation, l.generations)
	for age := range ages {
		words := memory[l.buffer(number-int64(age)):][:l.generation]
		if l.door.Words() > 0 {
			door, err := bloom.Over(words[:l.door.Words()], l.door.Probes())
			if err != nil {
				panic(err) // the plan has been checked
			}
			ages[age].door = door
		}
		if l.cells.Depth() > 0 {
			cells, err := cms.Over(words[l.door.Words():], l.cells.Depth(), l.cells.Width(), l.cells.CellBits())
			if err != nil {
				panic(err)
			}
			ages[age].cells = *cells
		}
		ages[age].heavy = l.heavy.held(memory[l.generations*l.generation:], age)
	}
	return at, ages
}

// counts returns the least that a cell holds which weighs anything.
func (w *window) counts(p Position) uint32 {
	if w.bucket.burst > 0 {
		return w.bucket.beyond(p, 0)
	}
	return 1
}

// fill returns the share of cells that hold c or more.
func fill(k *cms.Sketch, c uint32) float64 {
	if k.Depth() == 0 {
		return 0
	}
	sum := 0.0
	for r := range k.Depth() {
		for lane := range k.Lanes() {
			sum += k.Tail(r, lane, c)
		}
	}
	return sum / float64(k.Depth()*k.Lanes())
}

// maxSteps bounds the readings that falseDenialRate tells apart; counts between two
// steps are taken as the upper one.
const maxSteps = 1024

// falseDenialRate returns the chance that a new key is denied one unit now. Its
// readings in the generations are independent, because their seeds are, so their
// distributions convolve. So do those of a predecessor, if its generations are given.
func (w *window) falseDenialRate(p Position, ages, former []generation) float64 {
	if w.bucket.burst > 0 {
		return w.bucket.falseDenialRate(p, &ages[0].cells, w.limit)
	}
	step := (w.limit + maxSteps - 1) / maxSteps
	top := int((w.limit + step - 1) / step)
	sum := make([]float64, top+1) // chance of each sum of readings, in steps; the last: or more
	sum[0] = 1
	for i, g := range slices.Concat(ages, former) {
		if g.missing() {
			continue
		}
		reading := w.reading(&g, i%len(ages), p.Elapsed, step, top)
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
