package tail

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBinsCoverAllCounts(t *testing.T) {
	for _, count := range []int64{0, 1, 127, 128, 143, 144, 1000, 1 << 40, math.MaxInt64 >> 1} {
		i := Bin(count)
		require.LessOrEqual(t, Floor(i), count)
		require.Greater(t, Floor(i+1), count)
		require.LessOrEqual(t, Floor(i), Middle(i))
		require.Less(t, Middle(i), Floor(i+1))
	}
	require.Equal(t, 0, Bin(-1))
	for i := range 300 {
		require.Equal(t, i, Bin(Floor(i)))
	}
}

func TestDistribution(t *testing.T) {
	die := Distribution{1, 1, 5. / 6, 4. / 6, 3. / 6, 2. / 6, 1. / 6}
	assert.Equal(t, 1.0, die.AtLeast(-1))
	assert.Equal(t, 0.5, die.AtLeast(4))
	assert.Zero(t, die.AtLeast(7))
	assert.InDelta(t, 1./6, die.InBin(6), 1e-15)
	assert.InDelta(t, 3.5, die.MeanAbove(0), 1e-12)
	assert.InDelta(t, (1.+2)/6, die.MeanAbove(4), 1e-12)
	two := die.Plus(die)
	assert.InDelta(t, 1./36, two.AtLeast(12), 1e-12)
	assert.InDelta(t, 7, two.MeanAbove(0), 1e-12)
	assert.InDelta(t, 17.5, die.Times(5).MeanAbove(0), 1e-9)
	assert.Equal(t, Distribution{1}, die.Times(0))
}
