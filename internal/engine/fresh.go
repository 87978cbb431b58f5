package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/meancost"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// A shard that may be over capacity estimates the rate of false denials under its lock, from a sample of its own
// cells. Stats computes that from all cells, which takes a thousand times as long.
const noiseProbes = 32 // unseen keys that are read first

// noiseRate estimates the false-denial rate of the shard at a position in its generation: the chance that a new key is denied
// a request of mean cost, of late, at the lowest limit.
func (r sampler) noiseRate(p rotating.Position) float64 {
	lowest := r.e.OverCapacity.Lowest
	free := max(0, lowest-int64(math.Ceil(meancost.Newest(r.e.flooded))))
	if !r.anyAbove(p, free/2) {
		return 0
	}
	reads := r.noise(p)
	if r.e.predecessor() != nil {
		predecessor := r.predecessorNoise(p)
		return reads.AboveBeside(predecessor[:], free)
	}
	return reads.Above(free)
}

// anyAbove reports whether the estimate of one of noiseProbes unseen keys exceeds units.
func (r sampler) anyAbove(p rotating.Position, units int64) bool {
	w := window(r)
	w.h = r.draw()
	for range noiseProbes {
		w.h = keyhash.Mix(w.h, r.e.seed)
		if w.e.Limit-w.used(p, nil).free > units {
			return true
		}
	}
	return false
}

func (r sampler) noise(p rotating.Position) errorrate.Sample {
	reads := errorrate.NewSample(r.e.Limit)
	r.sample(&reads.Current, 0, p.Generation)
	if r.e.Ring.Buffers() > 1 {
		reads.Weight = 1 - float64(p.Elapsed)/float64(r.e.Timeline.Length())
		r.sample(&reads.Previous, 1, p.Generation-1)
	}
	return reads
}

// sample reads the generation of an age and a number.
func (r sampler) sample(chances *errorrate.Levels, age int, number int64) {
	first := window(r).buffer(age)
	g := errorrate.Sampled{
		Words: r.e.memory, Cells: r.e.cells, CellsOffset: first + r.e.cellsFirst, Filter: r.e.filter, FilterOffset: first, FilterFirst: r.e.filterFirst,
		Limit: r.e.Limit, Seed: r.e.seed,
	}
	g.Add(chances, window(r).hashAt(number), r.draw())
}

// predecessorNoise returns what a predecessor has counted of a few unseen keys, by its weight.
func (r sampler) predecessorNoise(p rotating.Position) (units [noiseProbes]int64) {
	w, h := window(r), r.draw()
	for i := range units {
		h = keyhash.Mix(h, r.e.seed)
		w.h = h
		for age := range r.e.Ring.Buffers() {
			units[i] += r.e.Weighted(w.countExternal(p.Generation-int64(age)), age, p.Elapsed)
		}
	}
	return units
}
