package errorrate

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
)

// counted returns a generation in which keys have counted a unit each, by the way that
// a Bloom filter is used.
func counted(t *testing.T, keys int, filterFirst bool) (g Generation, random *rand.Rand) {
	filter, err := bloom.NewBytes(4096, 4)
	require.NoError(t, err)
	sketch, err := cms.New(3, 2048, 8)
	require.NoError(t, err)
	g, random = Generation{Filter: filter, FilterFirst: filterFirst, Sampled: 8}, rand.New(rand.NewPCG(7, 8))
	for range keys {
		h := random.Uint64()
		if filterFirst || h%8 == 0 {
			filter.Add(h)
		}
		sketch.Raise(h, 1+uint32(h%5))
	}
	g.Sketch = *sketch
	return g, random
}

func TestGenerationNotKept(t *testing.T) {
	var g Generation
	require.Zero(t, g.Distinct())
	require.Zero(t, g.Fill(1))
	require.Equal(t, None(), g.Noise())
}

// The noise is what unseen keys are counted to read, within five standard errors.
func TestGenerationNoise(t *testing.T) {
	for _, filterFirst := range []bool{false, true} {
		g, random := counted(t, 5000, filterFirst)
		const unseen = 200_000
		seen, passed := map[int64]float64{}, 0.0
		for range unseen {
			h, units := random.Uint64(), int64(0)
			if !filterFirst || g.Filter.Test(h) {
				units = int64(g.Sketch.Estimate(h))
				passed++
			}
			seen[units]++
		}
		require.InDelta(t, g.Passes(), passed/unseen, 0.01)
		want := map[int64]float64{}
		for _, c := range g.Noise() {
			want[c.Units] += c.P
		}
		require.InDelta(t, 1, total(g.Noise()), 1e-9)
		for units, n := range seen {
			require.InDelta(t, want[units], n/unseen, 0.006, "%d units", units) // 5 × √(1/4n)
		}
	}
}

// Without counters, a key that passes has a unit.
func TestGenerationNoise_NoCounters(t *testing.T) {
	g, _ := counted(t, 5000, true)
	g.Sketch = cms.Sketch{}
	require.Equal(t, Distribution{{0, 1 - g.Passes()}, {1, g.Passes()}}, g.Noise())
	require.Zero(t, g.Fill(1))
}

// Keys are estimated from counters until these are full, then from the keys that the
// filter samples; and from the filter alone where it has all of them.
func TestGenerationDistinct(t *testing.T) {
	for _, c := range []struct {
		keys              int
		filterFirst, full bool
	}{{1000, false, false}, {20_000, false, false}, {5000, true, false}, {200_000, true, true}, {1_000_000, false, true}} {
		g, _ := counted(t, c.keys, c.filterFirst)
		require.Equal(t, c.full, g.Full(), "%+v", c)
		keys := g.Distinct()
		if !c.full {
			require.InEpsilon(t, c.keys, keys, 0.1, "%+v", c)
		}
		g.Heavy = 7
		require.Equal(t, keys+7, g.Distinct())
	}
}

func TestGenerationFill(t *testing.T) {
	sketch, err := cms.New(1, 64, 8)
	require.NoError(t, err)
	sketch.Raise(0, 3)
	g := Generation{Sketch: *sketch}
	require.Equal(t, 1.0, g.Fill(0))
	require.Equal(t, 1.0/64, g.Fill(1))
	require.Equal(t, 1.0/64, g.Fill(3))
	require.Zero(t, g.Fill(4))
}

func TestAligned(t *testing.T) {
	ages := []Generation{{Heavy: 1}, {Heavy: 2}, {Heavy: 3}}
	for later, want := range map[int64][]Generation{
		0:       {{Heavy: 1}, {Heavy: 2}, {Heavy: 3}},
		1:       {{}, {Heavy: 1}, {Heavy: 2}},
		2:       {{}, {}, {Heavy: 1}},
		3:       {{}, {}, {}},
		-1:      {{Heavy: 2}, {Heavy: 3}, {}},
		1 << 62: {{}, {}, {}},
	} {
		require.Equal(t, want, Aligned(ages, later), "%d", later)
	}
}
