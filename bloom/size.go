package bloom

import (
	"fmt"
	"math"
)

// Dimensions returns the size of the smallest filter, and the bits a key sets in it,
// that claims at most the share rate (above 0, below 1) of keys it was not given
// once it holds keys (1 …) distinct ones.
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
	rate = math.Inf(1)
	for p := 1; p <= MaxProbes; p++ {
		if r := expectedRate(keysPerBlock, p); r < rate {
			probes, rate = p, r
		}
	}
	return probes, rate
}

// expectedRate averages the false-positive rate over blocks whose number of keys is
// Poisson-distributed with mean load.
func expectedRate(load float64, probes int) float64 {
	// A key leaves a bit unset with chance (1-1/512)^probes.
	unset := math.Exp(float64(probes) * math.Log1p(-1.0/blockBits))
	spread := 12*math.Sqrt(load) + 12
	first := math.Max(0, math.Floor(load-spread))
	logFirst, _ := math.Lgamma(first + 1)
	weight := math.Exp(first*math.Log(load) - load - logFirst)
	sum := 0.0
	for n := first; n <= load+spread; n++ {
		sum += weight * math.Pow(1-math.Pow(unset, n), float64(probes))
		weight *= load / (n + 1)
	}
	return sum
}
