// Package draw draws from distributions with one random number a draw.
package draw

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Below returns an even draw from 0 … n−1. Its bias, n/2⁶⁴, is far below what any number
// of requests could show.
func Below(random *rand.PCG, n uint64) uint64 {
	hi, _ := bits.Mul64(random.Uint64(), n)
	return hi
}

// Alias draws ranks by Walker's alias method, in Vose's form (IEEE Trans. Softw. Eng.
// 17(9), 1991): one random number and one cell a draw, for any distribution. Rejection
// would cost logarithms, and rand.Zipf takes exponents above 1 only. Make one with
// [NewAlias]. It is safe for concurrent use.
type Alias []cell

// cell is kept with probability keep/2³² and else stands for other.
type cell struct{ keep, other uint32 }

// NewAlias returns a table of n ranks, n ≥ 1. Rank r = 1 … n has the weight r^−exponent.
func NewAlias(n int, exponent float64) Alias {
	weights := make([]float64, n)
	var sum float64
	for i := n - 1; i >= 0; i-- { // small ones first, for the sake of the sum
		weights[i] = math.Pow(float64(i+1), -exponent)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] *= float64(n) / sum
	}
	return vose(weights)
}

// vose builds the table for weights of mean 1. They fall with the index, so one pointer
// from each end finds the next light and the next heavy cell, without work lists.
func vose(weights []float64) Alias {
	n := len(weights)
	table := make(Alias, n)
	for i := range table {
		table[i] = cell{math.MaxUint32, uint32(i)} // itself either way
	}
	heavy, next := 0, n-1
	for light := next; next > heavy; {
		if weights[light] >= 1 { // only by rounding: nothing left to give away
			break
		}
		table[light] = cell{uint32(math.Ldexp(weights[light], 32)), uint32(heavy)}
		weights[heavy] -= 1 - weights[light]
		if weights[heavy] < 1 && heavy+1 < next { // it has become light itself
			light, heavy = heavy, heavy+1
			continue
		}
		next--
		light = next
	}
	return table
}

// Draw returns a rank less 1: 0 … n−1.
func (a Alias) Draw(random *rand.PCG) uint64 {
	// The high word of the product is the cell, the low word what is left of the
	// randomness: 64 − log₂ n bits, of which 32 decide.
	i, rest := bits.Mul64(random.Uint64(), uint64(len(a)))
	if c := a[i]; uint32(rest>>32) >= c.keep {
		return uint64(c.other)
	}
	return i
}

// Mix returns the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) of h: every
// bit of the result depends on every bit of h.
func Mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
