package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
)

// A look estimates the rate at which innocent keys of a shard are denied, under its lock and from samples of its own
// cells. Stats computes that from all cells, which takes a thousand times as long.
const (
	glanceWords = 8  // of each row that are looked at first
	lookWords   = 64 // of each row, where a glance has not shown that the rate is low
	lookLevels  = 64 // by which units are told apart, at the most
	// restful is the part of the rate below which a glance will do.
	restful = 1. / 32
)

// levels are the chances, by level, that a new key reads so much or more.
type levels [lookLevels + 2]float64

// wrongs estimates the rate of false denials at a position in the shard's generation: that of requests of mean cost of
// new keys at the lowest limit, or that of innocent keys, whichever is higher.
func (r request) wrongs(p Position) float64 {
	lately := r.flooded.lately()
	rate := r.wrongsBy(p, &lately, glanceWords)
	if rate < r.spare.Rate*restful {
		return rate
	}
	return r.wrongsBy(p, &lately, lookWords)
}

// wrongsBy is wrongs by so many words of each row.
func (r request) wrongsBy(p Position, lately *recent, words int) float64 {
	reads := r.levels(0, p.Generation, words)
	if r.generations > 1 {
		before := r.levels(1, p.Generation-1, words)
		reads = r.sum(&reads, &before, 1-float64(p.Elapsed)/float64(r.length))
	}
	n := int64(math.Ceil(lately.cost))
	innocent, lowest := 0.0, r.spare.Lowest
	units, weights, of := lately.asked(n, r.limit)
	for i := range of {
		innocent += weights[i] * r.above(&reads, r.limit-units[i])
	}
	return max(innocent, r.above(&reads, lowest-min(n, lowest)))
}

// levels samples the generation of an age and a number. A key meets cells of one lane in all rows, and lanes bear unlike
// loads, so each lane is looked at by itself.
func (r request) levels(age int, number int64, words int) (chances levels) {
	first, steps, lanes := r.buffer(age), int(r.steps()), r.cells.Lanes()
	passes, h := r.passes(first, r.hashAt(number), words*lanes), r.hashAt(number)
	for lane := range lanes {
		reads := passes
		for row := range r.cells.Depth() {
			var seen levels
			for range words {
				h = keyhash.Mix(h, r.seed)
				units := int64(r.cells.Cell(r.memory, first+r.cellsFirst, row, lane, h))
				seen[min(units, r.limit)*int64(steps)/r.limit]++
			}
			orMore := 0.0
			for l := steps; l > 0; l-- {
				orMore += seen[l]
				reads[l] *= orMore / float64(words)
			}
		}
		for l := range steps + 1 {
			chances[l] += reads[l] / float64(lanes)
		}
	}
	return chances
}

// passes returns the chances that a new key passes the doorkeeper, and so reads any units: all of them where that does
// not guard.
func (r request) passes(first int, h uint64, samples int) (chances levels) {
	passed := samples
	if r.guarded {
		passed = 0
		for range samples {
			if h = keyhash.Mix(h, r.seed); r.door.Test(r.memory, first, h) {
				passed++
			}
		}
	}
	chances[0] = 1
	for l := int64(1); l <= r.steps(); l++ {
		chances[l] = float64(passed) / float64(samples)
	}
	return chances
}

// sum returns the chances of what a key reads in the current generation, and in the one before by its weight.
func (r request) sum(current, before *levels, weight float64) (both levels) {
	for l := range int(r.steps()) + 1 {
		for at := range int(r.steps()) + 1 { // at least this level
			left := float64(r.unitsAt(at)-r.unitsAt(l)) - 0.5
			if left < 0 {
				both[at] += current[l] - current[l+1]
			} else if weight > 0 {
				both[at] += (current[l] - current[l+1]) * r.above(before, int64(left/weight))
			}
		}
	}
	return both
}

// steps returns the highest level, which is that of the limit.
func (r request) steps() int64 { return min(lookLevels, r.limit) }

// unitsAt returns the units that a level stands for: those in its middle.
func (r request) unitsAt(level int) int64 {
	steps := r.steps()
	if int64(level) >= steps {
		return r.limit
	}
	return (int64(level)*r.limit + (r.limit-steps)/2) / steps
}

// levelAbove returns the first level of more units than these.
func (r request) levelAbove(units int64) int64 {
	steps := r.steps()
	l := max(0, min(units*steps/r.limit, steps))
	for l <= steps && r.unitsAt(int(l)) <= units {
		l++
	}
	return l
}

// above returns the chance of more units than these.
func (r request) above(chances *levels, units int64) float64 { return chances[r.levelAbove(units)] }
