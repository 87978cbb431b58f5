package bloom

import (
	"fmt"
	"math"
)

// Dimensions returns the size of the smallest filter, and the bits a key sets in it,
// that claims at most the share rate (above 0, below 1) of keys it was not given
// once it holds keys (1 …) distinct ones: on average over seeds, for the fewer
// blocks there are, the further luck may carry one filter to either side.
func Dimensions(keys int, rate float64) (bytes, probes int, err error) {
	if keys < 1 {
		return 0, 0, fmt.Errorf("bloom: keys %d, must be at least 1", keys)
	}
	if !(rate > 0 && rate < 1) {
		return 0, 0, fmt.Errorf("bloom: false-positive rate %v, must be above 0 and below 1", rate)
	}
	// The rate rises with the load of a block. No filter beats the ideal load, and
	// at a billionth of a key a block the chance to meet any key at all is 1e-9.
	low, high := 1e-9, math.Max(1e-6, blockBits*math.Ln2/-math.Log2(rate))
	if _, r := Best(low); r > rate {
		return 0, 0, fmt.Errorf("bloom: false-positive rate %g, must be at least %.0e", rate, r)
	}
	for high/low > 1.001 {
		mid := math.Sqrt(low * high)
		if _, r := Best(mid); r <= rate {
			low = mid
		} else {
			high = mid
		}
	}
	blocks := math.Ceil(float64(keys) / low)
	if blocks*BlockBytes > math.MaxInt/2 {
		return 0, 0, fmt.Errorf("bloom: %d keys at rate %g need %g bytes, more than can be addressed",
			keys, rate, blocks*BlockBytes)
	}
	probes, _ = Best(float64(keys) / blocks)
	return int(blocks) * BlockBytes, probes, nil
}

// Best returns the number of probes, and the false-positive rate they give, that
// suit blocks with a mean load of keysPerBlock distinct keys (above 0).
func Best(keysPerBlock float64) (probes int, rate float64) {
	// From some 20,000 keys on every bit of a block is set, as sure as a float64 can
	// tell, and the sum below would only take longer.
	keysPerBlock = math.Min(keysPerBlock, 1<<15)
	rate = math.Inf(1)
	for p := 1; p <= MaxProbes; p++ {
		if r := expectedRate(keysPerBlock, p); r < rate {
			probes, rate = p, r
		}
	}
	return probes, rate
}

// expectedRate averages the false-positive rate over blocks whose number of keys is
// Poisson-distributed with mean load, and over where those keys' probes fall. The
// rate of a block is convex in its fill, so the fill's mean alone would tell too
// little: by 2 % at a rate of 1e-3, by 10 % at 1e-8.
func expectedRate(load float64, probes int) float64 {
	const b = blockBits
	p := float64(probes)
	// The chances that a key leaves one bit unset, and two.
	one, two := math.Pow(1-1.0/b, p), math.Pow(1-2.0/b, p)
	spread := 12*math.Sqrt(load) + 12
	first := math.Max(0, math.Floor(load-spread))
	logFirst, _ := math.Lgamma(first + 1)
	weight := math.Exp(first*math.Log(load) - load - logFirst)
	u, u2 := math.Pow(one, first), math.Pow(two, first)
	sum := 0.0
	for n := first; n <= load+spread; n++ {
		if n > 0 {
			mean := 1 - u
			variance := u2 - u*u + (u-u2)/b
			sum += weight * math.Pow(mean, p) * math.Exp(p*(p-1)/2*variance/(mean*mean))
		}
		weight *= load / (n + 1)
		u, u2 = u*one, u2*two
	}
	return sum
}
