package accuracy

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// below is an even draw from 0 … n−1 with one multiplication; its bias, n/2⁶⁴, is
// far below what any number of requests could show.
func below(random *rand.PCG, n uint64) uint64 {
	hi, _ := bits.Mul64(random.Uint64(), n)
	return hi
}

// alias draws ranks by Walker's alias method, in Vose's form (IEEE Trans. Softw. Eng.
// 17(9), 1991): one random number and one cell a draw, for any distribution, where
// rejection would cost logarithms and rand.Zipf knows exponents above 1 only.
type alias []aliasCell

// aliasCell is kept with probability keep/2³² and else stands for other.
type aliasCell struct{ keep, other uint32 }

// newAlias weighs rank r = 1 … n with r^−exponent. Rank r is cell r−1.
func newAlias(n int, exponent float64) alias {
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

// vose builds the table for weights of mean 1. They fall with the index, so that
// one pointer from each end finds the next light and the next heavy cell: no work
// lists.
func vose(weights []float64) alias {
	n := len(weights)
	table := make(alias, n)
	for i := range table {
		table[i] = aliasCell{math.MaxUint32, uint32(i)} // itself either way
	}
	heavy, next := 0, n-1
	for light := next; next > heavy; {
		if weights[light] >= 1 { // only by rounding: nothing left to give away
			break
		}
		table[light] = aliasCell{uint32(math.Ldexp(weights[light], 32)), uint32(heavy)}
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

func (a alias) draw(random *rand.PCG) uint64 {
	// The high word of the product is the cell, the low word what is left of the
	// randomness: 64 − log₂ n bits, of which 32 decide.
	cell, rest := bits.Mul64(random.Uint64(), uint64(len(a)))
	if c := a[cell]; uint32(rest>>32) >= c.keep {
		return uint64(c.other)
	}
	return cell
}
