// Package tail has distributions of counts, down to chances that no simulation could
// count.
package tail

import "math/bits"

// Distribution has the chance of a count of at least Floor(i), for each bin i; the first
// is 1. Past its end the chance is 0. The zero value is no distribution: a count that is
// always 0 is Distribution{1}.
type Distribution []float64

// Negligible is a chance that is taken for 0, a millionth of the least rate that a goal
// may have.
const Negligible = 1e-18

// A bin holds one count below exactBins, and an eighth of a power of two from there on.
const (
	exactBins  = 1 << exactBits
	exactBits  = 7
	octaveBins = 8
)

// Bin returns the bin of count. Counts below 0 are taken for 0.
func Bin(count int64) int {
	if count < exactBins {
		return int(max(count, 0))
	}
	e := bits.Len64(uint64(count)) - 1
	return exactBins + (e-exactBits)*octaveBins + int(count>>(e-3))&(octaveBins-1)
}

// Floor returns the smallest count in bin i.
func Floor(i int) int64 {
	if i < exactBins {
		return int64(i)
	}
	e, sub := exactBits+(i-exactBins)/octaveBins, (i-exactBins)%octaveBins
	return int64(octaveBins+sub) << (e - 3)
}

// Middle returns the count in the middle of bin i, rounded down.
func Middle(i int) int64 { return (Floor(i) + Floor(i+1) - 1) / 2 }

// AtLeast returns the chance of count or more, interpolated within a bin.
func (d Distribution) AtLeast(count int64) float64 {
	if count <= 0 {
		return 1
	}
	i := Bin(count)
	if i >= len(d) {
		return 0
	}
	next := 0.
	if i+1 < len(d) {
		next = d[i+1]
	}
	from, to := Floor(i), Floor(i+1)
	return d[i] + (next-d[i])*float64(count-from)/float64(to-from)
}

// InBin returns the chance of a count in bin i, which must be below len(d).
func (d Distribution) InBin(i int) float64 {
	if i+1 < len(d) {
		return d[i] - d[i+1]
	}
	return d[i]
}

// MeanAbove returns the mean of max(0, X − count), where X has the distribution.
func (d Distribution) MeanAbove(count int64) (mean float64) {
	for i := Bin(count + 1); i < len(d); i++ {
		mean += d[i] * float64(Floor(i+1)-max(Floor(i), count+1))
	}
	return mean
}

// Plus returns the distribution of the sum of two independent counts.
func (d Distribution) Plus(other Distribution) Distribution {
	if len(d) == 1 {
		return other
	}
	sum := Distribution{1}
	for i := 1; ; i++ {
		chance := 0.
		if i < len(d) {
			chance = d[i]
		}
		for j := range min(i, len(d)) {
			chance += d.InBin(j) * other.AtLeast(Floor(i)-Middle(j))
		}
		if chance < Negligible {
			return sum
		}
		sum = append(sum, chance)
	}
}

// Times returns the distribution of the sum of n independent counts, n ≥ 0.
func (d Distribution) Times(n int) Distribution {
	sum := Distribution{1}
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			sum = d.Plus(sum)
		}
		d = d.Plus(d)
	}
	return sum
}
