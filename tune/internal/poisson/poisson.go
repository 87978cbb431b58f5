// Package poisson has what the tuner needs of the Poisson distribution: counts of rare,
// independent events.
package poisson

import (
	"math"
	"math/rand/v2"
)

// Draw returns a random count with a mean ≥ 0. Above 1000 it is drawn from the normal
// distribution.
func Draw(r *rand.Rand, mean float64) (n int) {
	if mean > 1000 {
		return int(math.Round(mean + math.Sqrt(mean)*r.NormFloat64()))
	}
	for t := r.ExpFloat64(); t < mean; t += r.ExpFloat64() {
		n++
	}
	return n
}

// Quantile returns the count that a part p of all counts with a mean does not exceed.
// It is a whole number for a mean up to 100, and otherwise the quantile of the normal
// distribution.
func Quantile(mean, p float64) float64 {
	if mean > 100 {
		return mean + math.Sqrt(2*mean)*math.Erfinv(2*p-1)
	}
	term := math.Exp(-mean)
	below, n := term, 0.
	for below < p {
		n++
		term *= mean / n
		below += term
	}
	return n
}

// UpperBound returns the greatest mean for which a count as low as count comes in one
// case of twenty (Wilson and Hilferty's approximation).
func UpperBound(count float64) float64 {
	n := count + 1
	return n * math.Pow(1-1/(9*n)+1.645/(3*math.Sqrt(n)), 3)
}
