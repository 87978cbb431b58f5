package bloom

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// classicalBits is the size of the best filter whose probes fall anywhere,
// -n ln p / ln²2, and the figure that blocks are measured by.
func classicalBits(n int, p float64) float64 {
	return -float64(n) * math.Log(p) / (math.Ln2 * math.Ln2)
}

// Published sizes: tylertreat/BoomFilters, apache/datasketches-java, bits-and-blooms
// and the formula that all three share. A blocked filter needs more; how much more
// is bounded here. Numbers of probes are not comparable. Left out are the rows that
// give a filter fewer bits than its rate needs, or name no rate.
func TestSizesStandInProportionToTheClassicalOptimum(t *testing.T) {
	// Blocks of 64 bytes cost 1 % at a rate of 0.1 and 15 % at 1e-4.
	times := map[float64]float64{0.1: 1.02, 0.03: 1.03, 0.01: 1.045, 0.001: 1.09, 1e-4: 1.16}
	for _, tt := range []struct {
		n    int
		p    float64
		bits int
	}{
		{250_000, 0.01, 2_396_265},
		{5_000_000, 1e-4, 95_850_584},
		{10_000, 0.1, 47_926},
		{10_000, 0.03, 72_985},
		{10_000, 0.01, 95_851},
		{10_000, 0.001, 143_776},
		{10_000, 1e-4, 191_702},
		{1_000_000, 0.1, 4_792_530},
		{1_000_000, 0.03, 7_298_441},
		{1_000_000, 0.01, 9_585_059},
		{1_000_000, 0.001, 14_377_588},
		{1_000_000, 1e-4, 19_170_117},
		{10_000_000, 1e-4, 191_701_168},
	} {
		require.InDelta(t, tt.bits, classicalBits(tt.n, tt.p), 1, "%+v", tt)
		bytes, probes, err := Dimensions(tt.n, tt.p)
		require.NoError(t, err)
		require.GreaterOrEqual(t, 8*bytes, tt.bits, "%+v", tt)
		require.LessOrEqual(t, 8*float64(bytes), times[tt.p]*float64(tt.bits)+blockBits, "%+v", tt)
		t.Logf("n=%d p=%g: %d bytes, %d probes, %.3f × classical", tt.n, tt.p, bytes, probes, 8*float64(bytes)/float64(tt.bits))
	}
}

func TestBadSizesAreNamed(t *testing.T) {
	// RedisBloom refuses capacity 0 and errors 0, 1, 1.1, -4.4; google/guava and
	// apache/datasketches refuse -1 keys, rates of 0 and above 1, and 1e-80.
	for _, tt := range []struct {
		keys int
		rate float64
		want string
	}{
		{0, 0.01, "bloom: keys 0, must be at least 1"},
		{-1, 0.01, "bloom: keys -1, must be at least 1"},
		{100, 0, "bloom: false-positive rate 0, must be above 0 and below 1"},
		{100, 1, "bloom: false-positive rate 1, must be above 0 and below 1"},
		{100, 1.1, "bloom: false-positive rate 1.1, must be above 0 and below 1"},
		{100, -4.4, "bloom: false-positive rate -4.4, must be above 0 and below 1"},
		{100, math.NaN(), "bloom: false-positive rate NaN, must be above 0 and below 1"},
		{100, math.Inf(1), "bloom: false-positive rate +Inf, must be above 0 and below 1"},
		{100, math.Inf(-1), "bloom: false-positive rate -Inf, must be above 0 and below 1"},
	} {
		_, _, err := Dimensions(tt.keys, tt.rate)
		require.EqualError(t, err, tt.want)
		_, err = New(tt.keys, tt.rate)
		require.EqualError(t, err, tt.want)
	}
	for _, rate := range []float64{1e-80, math.SmallestNonzeroFloat64} {
		_, _, err := Dimensions(1000, rate)
		require.ErrorContains(t, err, fmt.Sprintf("bloom: false-positive rate %g, must be at least ", rate))
	}
	_, _, err := Dimensions(math.MaxInt, 1e-12)
	require.ErrorContains(t, err, "more than can be addressed")
}

// A rate close to 1 once took a sum over a practically endless range of loads.
func TestRatesCloseToOneAreQuick(t *testing.T) {
	for _, rate := range []float64{0.999, 1 - 1e-9, math.Nextafter(1, 0)} {
		bytes, probes, err := Dimensions(1000, rate)
		require.NoError(t, err)
		require.Equal(t, []int{BlockBytes, 1}, []int{bytes, probes})
	}
	for _, load := range []float64{1e5, 1e18, math.MaxFloat64} {
		probes, rate := Best(load)
		require.Equal(t, 1, probes)
		require.InDelta(t, 1, rate, 1e-9)
	}
}

// exactRate is expectedRate without shortcuts: the distribution of the number of
// bits set after each probe of each key, by recursion. With fixed it assumes that
// the fill of a block is always the mean: the design that lost.
func exactRate(load float64, probes int, fixed bool) float64 {
	var p [blockBits + 1]float64 // chance of so many bits set
	p[0] = 1
	weight, sum := math.Exp(-load), 0.0
	for n := 0.0; n < load+12*math.Sqrt(load)+12; n++ {
		rate, mean := 0.0, 0.0
		for set, chance := range p {
			rate += chance * math.Pow(float64(set)/blockBits, float64(probes))
			mean += chance * float64(set) / blockBits
		}
		if fixed {
			rate = math.Pow(mean, float64(probes))
		}
		sum += weight * rate
		weight *= load / (n + 1)
		for range probes {
			for set := blockBits; set > 0; set-- {
				p[set] = p[set]*float64(set)/blockBits + p[set-1]*float64(blockBits-set+1)/blockBits
			}
			p[0] = 0
		}
	}
	return sum
}

func TestExpectedRateIsExactAndErrsUpwards(t *testing.T) {
	for _, load := range []float64{0.01, 1, 10, 60, 200} {
		for _, probes := range []int{1, 2, 6, 12, 20, 28} {
			exact, expected := exactRate(load, probes, false), expectedRate(load, probes)
			require.GreaterOrEqual(t, expected, exact*(1-1e-9), "load %g, %d probes", load, probes)
			require.LessOrEqual(t, expected, exact*1.025, "load %g, %d probes", load, probes)
		}
	}
	// The rate at the mean fill is too low by far more than that.
	require.Greater(t, expectedRate(10, 20), 1.1*exactRate(10, 20, true))
}

func TestBestBeatsEveryOtherNumberOfProbes(t *testing.T) {
	for _, load := range []float64{0.001, 1, 20, 53, 100, 400, 2000} {
		probes, rate := Best(load)
		require.Equal(t, expectedRate(load, probes), rate)
		for p := 1; p <= MaxProbes; p++ {
			require.LessOrEqual(t, rate, expectedRate(load, p), "load %g", load)
		}
	}
	for _, tt := range []struct {
		load   float64
		probes int
	}{{500, 1}, {54, 6}, {36, 9}, {1, MaxProbes}} {
		probes, _ := Best(tt.load)
		require.Equal(t, tt.probes, probes, "load %g", tt.load)
	}
}

// The target is met on average over seeds. The mean over at least 20,000 blocks is
// within 5.5 standard errors of the truth but for a chance of 1e-6 in all 12 cases.
// A filter of the classical size does not meet it, nor did one sized by the rate at
// the mean fill: it missed by 0.7 % at 1e-2 and by 3 % at 1e-4.
func TestSizedFiltersMeetTheirRate(t *testing.T) {
	testkit.Computes(t)
	for _, n := range []int{1000, 10_000, 100_000} {
		for _, p := range []float64{0.03, 1e-2, 1e-3, 1e-4} {
			bytes, probes, err := Dimensions(n, p)
			require.NoError(t, err)
			mean, deviation := meanRate(t, n, bytes, probes)
			require.LessOrEqual(t, mean-5.5*deviation, p, "n=%d p=%g", n, p)
			t.Logf("n=%d p=%g: mean rate %.3f p ± %.3f", n, p, mean/p, deviation/p)
		}
	}
	bytes := int(classicalBits(10_000, 1e-3)) / blockBits * BlockBytes
	mean, deviation := meanRate(t, 10_000, bytes, 10)
	require.Greater(t, mean-5.5*deviation, 1e-3)
	t.Logf("classical size: mean rate %.3f p ± %.3f", mean/1e-3, deviation/1e-3)
}

// meanRate averages the false-positive rate of filters with n keys each, a million
// keys in all, and returns the mean's standard error. Blocks are nearly independent:
// what one gets, the others lack, so that the error is overstated.
func meanRate(t *testing.T, n, bytes, probes int) (mean, deviation float64) {
	r := rand.New(rand.NewPCG(uint64(n), uint64(bytes)))
	f := newFilter(t, bytes, probes)
	stated, squares, blocks := 0.0, 0.0, 0.0
	for keys := 0; keys < 1_000_000; keys += n {
		f.Clear()
		for range n {
			f.Add(r.Uint64())
		}
		stated += f.FalsePositiveRate()
		for w := f.words; len(w) > 0; w = w[blockWords:] {
			rate := math.Pow(float64(ones(w[:blockWords]))/blockBits, float64(probes))
			mean += rate
			squares += rate * rate
			blocks++
		}
	}
	mean /= blocks
	require.InEpsilon(t, mean, stated*float64(n)/1_000_000, 1e-9)
	return mean, math.Sqrt((squares/blocks - mean*mean) / blocks)
}

// bits-and-blooms, RedisBloom and google/guava measure a filter by keys that it was
// not given, and bound what they find. Those bounds leave little room for chance, so
// they hold for the keys of this test. Besides, each count is what the filter itself
// states, at a chance of a false alarm below 1e-6 in all.
func TestMeasuredRatesMeetThePublishedBounds(t *testing.T) {
	testkit.Computes(t)
	measure := func(n, probes int, p float64) float64 {
		f, err := New(n, p)
		require.NoError(t, err)
		for i := range n {
			f.Add(keyHash(uint64(i)))
		}
		claimed := 0
		for i := range probes {
			if f.Test(keyHash(uint64(n + i))) {
				claimed++
			}
		}
		require.False(t, unlikely(claimed, f.FalsePositiveRate()*float64(probes), alpha/20), "n=%d p=%g: %d", n, p, claimed)
		rate := float64(claimed) / float64(probes)
		t.Logf("n=%d p=%g: measured %.3f p, stated %.3f p", n, p, rate/p, f.FalsePositiveRate()/p)
		return rate
	}
	for _, n := range []int{1000, 10_000, 100_000} { // bits-and-blooms, bloom_test.go
		for _, p := range []float64{1e-2, 1e-3, 1e-4} {
			require.LessOrEqual(t, measure(n, 1_000_000, p), 1.5*p, "n=%d p=%g", n, p)
		}
	}
	require.InDelta(t, 0.01, measure(10_000, 100_000, 0.01), 0.001)
	for _, p := range []float64{0.1, 0.01, 0.001, 1e-4} { // RedisBloom, test_overall.py
		// A hundred keys or one: the bound is a matter of chance, not of the filter.
		claimed := int(measure(1024, 10_240, p) * 10_240)
		require.True(t, float64(claimed) <= p*10_240 || !unlikely(claimed, p*10_240, alpha/20), "p=%g: %d", p, claimed)
	}
	require.LessOrEqual(t, measure(1_000_000, 1_000_000, 0.03), 0.030104) // google/guava, BloomFilterTest
}
