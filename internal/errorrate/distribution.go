// Package errorrate answers one question: what does a sketch return for a key that was
// never added? What it returns is noise, the units of other keys.
//
// A [Distribution] is exact: it comes from every counter of a [Generation], and several
// generations add up. So does what [FromShared] returns, the noise in the counters of
// those that share a limit. A [Sample] comes from a few counters, and is for where a
// decision waits.
package errorrate

import (
	"math"
	"slices"

	"github.com/sketchlimit/sketchlimit/cms"
)

// Distribution is the distribution of a number of units, by rising number.
type Distribution []Chance

// Chance is a number of units, and its probability.
type Chance struct {
	Units int64
	P     float64
}

// None is the noise of a generation that has counted nothing.
func None() Distribution { return Distribution{{0, 1}} }

// FromAll returns the noise in one generation. An unseen key passes its filter with a
// probability, and then reads one of the readings, which come from all counters.
// Otherwise it reads 0.
func FromAll(passes float64, readings []cms.Reading) Distribution {
	d := Distribution{{0, 1 - passes}}
	for _, r := range readings {
		d = append(d, Chance{int64(r.Count), passes * r.Chance})
	}
	return d
}

// maxNumbers bounds the numbers that a sum tells apart. Beyond that they are rounded up.
const maxNumbers = 4096

// Add returns the distribution of the sum of two independent numbers. Sums above most
// count as most.
func (d Distribution) Add(other Distribution, most int64) (sum Distribution) {
	if len(d) == 1 && d[0].Units == 0 {
		return other
	}
	if len(other) == 1 && other[0].Units == 0 {
		return d
	}
	step := (most + maxNumbers - 1) / maxNumbers
	all := make([]float64, min(most, maxNumbers)+1)
	for _, a := range d {
		for _, b := range other {
			all[(min(a.Units+b.Units, most)+step-1)/step] += a.P * b.P
		}
	}
	for i, p := range all {
		if p > 0 {
			sum = append(sum, Chance{int64(i) * step, p})
		}
	}
	return sum
}

// Scaled returns the distribution of units that are fewer in the ratio of part to
// whole, to the nearest ones.
func (d Distribution) Scaled(part, whole int64) (scaled Distribution) {
	ratio := float64(part) / float64(whole)
	for _, c := range d {
		units := int64(math.Round(float64(c.Units) * ratio))
		if n := len(scaled); n > 0 && scaled[n-1].Units == units {
			scaled[n-1].P += c.P
		} else {
			scaled = append(scaled, Chance{units, c.P})
		}
	}
	return scaled
}

// OrMore returns, for each number, the probability of that or more.
func (d Distribution) OrMore() Tail {
	all, p := slices.Clone(d), 0.0
	for i, c := range slices.Backward(d) {
		p += c.P
		all[i].P = p
	}
	return Tail(all)
}

// Tail is numbers of units, rising, each with the probability of that or more.
type Tail []Chance

// Beside returns the probability of ≥ units together with others, which are independent.
func (t Tail) Beside(others Distribution, units int64) (p float64) {
	first := len(t) // of those that are enough: the more others have, the fewer
	for _, c := range others {
		for first > 0 && t[first-1].Units >= units-c.Units {
			first--
		}
		if first < len(t) {
			p += c.P * t[first].P
		}
	}
	return p
}
