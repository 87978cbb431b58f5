package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// A shard that may spare keys estimates the rate of false denials under its lock, from a sample of its own
// cells. Stats computes that from all cells, which takes a thousand times as long.
const (
	glances   = 32 // new keys that are read first
	lookLanes = 4  // of a sketch that are looked at if one of these reads too much: other ones each time
	lookWords = 64 // of each row
)

// noiseRate estimates the false-denial rate of the shard at a position in its generation: the chance that a new key is denied
// a request of mean cost, of late, at the lowest limit.
func (r sampler) noiseRate(p rotating.Position) float64 {
	lowest := r.e.OverCapacity.Lowest
	free := max(0, lowest-int64(math.Ceil(dearCost(r.e.flooded))))
	if !r.someRead(p, free/2) {
		return 0
	}
	reads := r.readings(p)
	if r.e.predecessor() != nil {
		both := r.withFormer(p, &reads)
		return both.above(free)
	}
	return reads.Above(free)
}

// someRead tells whether one of a few new keys reads more units than these.
func (r sampler) someRead(p rotating.Position, units int64) bool {
	w := window(r)
	w.h = r.draw()
	for range glances {
		w.h = keyhash.Mix(w.h, r.e.seed)
		if w.e.Limit-w.used(p, nil).free > units {
			return true
		}
	}
	return false
}

func (r sampler) readings(p rotating.Position) errorrate.Sample {
	reads := errorrate.NewSample(r.e.Limit)
	r.sample(&reads.Current, 0, p.Generation)
	if r.e.Ring.Buffers() > 1 {
		reads.Weight = 1 - float64(p.Elapsed)/float64(r.e.Timeline.Length())
		r.sample(&reads.Previous, 1, p.Generation-1)
	}
	return reads
}

// sample reads cells of the generation of an age and a number. A key meets cells of one lane in all rows, and lanes bear
// unlike loads, so each lane is looked at by itself.
func (r sampler) sample(chances *errorrate.Levels, age int, number int64) {
	first, steps := window(r).buffer(age), errorrate.Steps(r.e.Limit)
	passes, h := r.passes(first, window(r).hashAt(number)), r.draw()
	lanes := min(lookLanes, r.e.cells.Lanes())
	for lane := range lanes {
		lane = (lane + int(h%64)) % r.e.cells.Lanes()
		reads := passes
		for row := range r.e.cells.Depth() {
			var seen [errorrate.MaxLevels + 1]uint16
			for range lookWords {
				h = keyhash.Mix(h, r.e.seed)
				units := int64(r.e.cells.Cell(r.e.memory, first+r.e.cellsFirst, row, lane, h))
				seen[min(units, r.e.Limit)*steps/r.e.Limit]++
			}
			orMore := uint16(0)
			for l := steps; l > 0; l-- {
				orMore += seen[l]
				reads[l] *= float64(orMore) / lookWords
			}
		}
		for l := range steps + 1 {
			chances[l] += reads[l] / float64(lanes)
		}
	}
}

// passes returns the chances that a new key passes the doorkeeper, and so reads any units: all of them where that does
// not guard.
func (r sampler) passes(first int, h uint64) (chances errorrate.Levels) {
	passed := 0
	for range lookWords {
		if h = keyhash.Mix(h, r.e.seed); !r.e.guarded || r.e.door.Test(r.e.memory, first, h) {
			passed++
		}
	}
	chances[0] = 1
	for l := int64(1); l <= errorrate.Steps(r.e.Limit); l++ {
		chances[l] = float64(passed) / lookWords
	}
	return chances
}

// withFormer are readings beside what a predecessor has counted, of which a few new keys tell: a key is held against the
// sum.
type withFormer struct {
	errorrate.Sample
	total  errorrate.Levels // chances of so much or more in both generations
	former [glances]int64
}

func (r sampler) withFormer(p rotating.Position, reads *errorrate.Sample) (both withFormer) {
	both.Sample = *reads
	for l := range reads.Steps() + 1 {
		both.total[l] = reads.Above(reads.UnitsAt(l) - 1)
	}
	h := r.draw()
	for i := range both.former {
		h = keyhash.Mix(h, r.e.seed)
		stranger := window(r)
		stranger.h = h
		for age := range r.e.Ring.Buffers() {
			both.former[i] += r.e.Weighted(stranger.former(p.Generation-int64(age)), age, p.Elapsed)
		}
	}
	return both
}

// above returns the chance of more units than these in all.
func (both *withFormer) above(units int64) (chance float64) {
	for _, former := range both.former {
		if left := units - former; left < 0 {
			chance++
		} else {
			chance += both.total[both.LevelAbove(left)]
		}
	}
	return chance / glances
}
