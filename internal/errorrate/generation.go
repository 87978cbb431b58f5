package errorrate

import (
	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
)

// Generation is what a shard has counted in one span of time. The zero Generation is
// one that is not kept: it has counted nothing. Methods are not safe for concurrent
// use.
type Generation struct {
	Filter      *bloom.Filter // nil where the generation is not kept, and in a token bucket
	Sketch      cms.Sketch    // without counters where the limit is 1
	FilterFirst bool          // Filter has all keys, and is asked before the counters
	Sampled     int           // otherwise Filter has one key in Sampled, ≥ 1
	Heavy       int           // keys that are counted in no counters: heavy hitters

	readings []cms.Reading // nil until Readings is called
}

func (g *Generation) missing() bool { return g.Filter == nil }

// Distinct returns an estimate of the number of keys, ≥ 0.
func (g *Generation) Distinct() float64 {
	if g.missing() {
		return 0
	}
	keys, ok := g.Sketch.Distinct()
	switch {
	case g.FilterFirst:
		keys = g.Filter.Distinct()
	case !ok:
		keys = float64(g.Sampled) * g.Filter.Distinct()
	}
	return keys + float64(g.Heavy)
}

// Full reports whether the generation has too many keys for [Generation.Distinct] to
// estimate. The generation must have a Filter.
func (g *Generation) Full() bool {
	_, ok := g.Sketch.Distinct()
	return (g.FilterFirst || !ok) && g.Filter.FillRatio() > 0.98
}

// Passes returns the probability that an unseen key passes, which is that its counters
// are read: 1, or the false-positive rate of a Bloom filter that is asked first. The
// generation must be a window's, and kept.
func (g *Generation) Passes() float64 {
	if !g.FilterFirst {
		return 1
	}
	return g.Filter.FalsePositiveRate()
}

// Readings returns the counts that are read for an unseen key which passes, rising,
// with probabilities; without counters it is a count of 1. The first call reads all
// counters, see [cms.Sketch.Readings]. The caller must not change the result.
func (g *Generation) Readings() []cms.Reading {
	if g.readings == nil {
		g.readings = []cms.Reading{{Count: 1, Chance: 1}}
		if g.Sketch.Depth() > 0 {
			g.readings = g.Sketch.Readings()
		}
	}
	return g.readings
}

// Noise returns the noise in the generation, in units.
func (g *Generation) Noise() Distribution {
	if g.missing() {
		return None()
	}
	return FromAll(g.Passes(), g.Readings())
}

// Fill returns the share of counters that hold units or more, 0 … 1. Without counters
// it is 0.
func (g *Generation) Fill(units uint32) float64 {
	if g.Sketch.Depth() == 0 {
		return 0
	}
	sum := 0.0
	for r := range g.Sketch.Depth() {
		for lane := range g.Sketch.Lanes() {
			sum += g.Sketch.Tail(r, lane, units)
		}
	}
	return sum / float64(g.Sketch.Depth()*g.Sketch.Lanes())
}

// Aligned returns a shard's generations by their age after later rotations, which may
// be negative. It returns as many as ages has; those that are not among them are zero.
func Aligned(ages []Generation, later int64) []Generation {
	out := make([]Generation, len(ages))
	for age := range ages {
		if earlier := int64(age) - later; earlier >= 0 && earlier < int64(len(ages)) {
			out[age] = ages[earlier]
		}
	}
	return out
}
