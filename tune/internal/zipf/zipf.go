// Package zipf sums the frequencies of keys that are distributed by Zipf's law.
package zipf

import "math"

// exactRanks is how many of the first ranks are summed one by one. The integral that
// stands for the others errs most at the first.
const exactRanks = 1000

// Sums adds up r^−exponent over ranks r = 1, 2, 3, …
type Sums struct {
	exponent float64
	first    []float64 // sums up to ranks 0, 1, 2, … at most exactRanks
}

// New returns the sums over ranks up to the last one, for an exponent ≥ 0.
func New(ranks, exponent float64) Sums {
	z := Sums{exponent, []float64{0}}
	for r := 1.0; r <= math.Min(ranks, exactRanks); r++ {
		z.first = append(z.first, z.first[len(z.first)-1]+math.Pow(r, -exponent))
	}
	return z
}

// UpTo returns the sum up to a rank ≥ 0. Of a fraction, that part of the last rank
// counts.
func (z *Sums) UpTo(rank float64) float64 {
	last := len(z.first) - 1
	if whole := int(rank); whole < last {
		return z.first[whole] + (rank-float64(whole))*(z.first[whole+1]-z.first[whole])
	}
	from, to := float64(last)+0.5, rank+0.5
	if math.Abs(z.exponent-1) < 1e-9 {
		return z.first[last] + math.Log(to/from)
	}
	return z.first[last] + (math.Pow(to, 1-z.exponent)-math.Pow(from, 1-z.exponent))/(1-z.exponent)
}
