package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// A look estimates the rate at which innocent keys of a shard are denied, under its lock and from a sample of its own
// cells. Stats computes that from all cells, which takes a thousand times as long.
const (
	glances   = 32 // new keys that are read first
	lookLanes = 4  // of a sketch that are looked at if one of these reads half of the limit: other ones each time
	lookWords = 64 // of each row

	// Where a limit is fewer requests than these, their readings tell too little of leads: it may look as if others' units
	// added to all of them, where they add to none. So the rate of innocent keys counts only if new keys are denied as well,
	// at such a part of the rate from which on a shard spares.
	fewRequests   = 50
	leastStranger = 1e-3
)

// wrongs estimates the rate of false denials at a position in the shard's generation: that of requests of mean cost of
// new keys at the lowest limit, or that of innocent keys, whichever is higher. Where requests have become dearer, the mean
// is that of the newest.
func (r sampler) wrongs(p rotating.Position) (rate float64) {
	lately, lowest := recentOf(r.e.flooded), r.e.spare.Lowest
	mean := lately.mean()
	n := max(mean, int64(math.Ceil(lately.newest)))
	if !r.someRead(p, lowest/2-min(n-1, lowest/2)) { // or else a key at half of its limit would be admitted
		return 0
	}
	mix := lately.mix(scaleOf(r.e))
	reads := r.readings(p)
	mix.wronged = 0 // they would be spared
	above := reads.Above
	if r.e.predecessor() != nil {
		both := r.withFormer(p, &reads)
		above = both.above
	}
	var chances [kinds]float64
	for i := range mix.n {
		if lead := mix.leads[i] + n - mean; lead <= r.e.limit { // or else it is rightly denied
			chances[i] = above(r.e.limit - lead)
		}
	}
	stranger := above(lowest - min(n, lowest))
	if lowest < fewRequests*n && stranger < leastStranger*r.e.spare.Rate {
		return stranger
	}
	return max(mix.rate(&chances), stranger)
}

// someRead tells whether one of a few new keys reads more units than these.
func (r sampler) someRead(p rotating.Position, units int64) bool {
	w := window(r)
	w.h = r.draw()
	for range glances {
		w.h = keyhash.Mix(w.h, r.e.seed)
		if w.e.limit-w.used(p, nil).free > units {
			return true
		}
	}
	return false
}

func (r sampler) readings(p rotating.Position) errorrate.Sample {
	reads := errorrate.NewSample(r.e.limit)
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
	first, steps := window(r).buffer(age), errorrate.Steps(r.e.limit)
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
				seen[min(units, r.e.limit)*steps/r.e.limit]++
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
	for l := int64(1); l <= errorrate.Steps(r.e.limit); l++ {
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
