package sketchlimit_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// What New takes by its table is what Tune takes for the same traffic and half as much again, up to twice
// that where a limit lies far behind the row that it goes by. By what is predicted, it reaches the goal
// and bears twice the load.
func TestSizesAreThoseOfTune(t *testing.T) {
	tuned(t)
	const keys = 200_000
	traffic := tune.Traffic{Keys: keys, Abusers: 0.01}
	near := func(bytes, tuned int) bool {
		ratio := float64(bytes) / float64(tuned)
		t.Logf("New %d, Tune %d: %.2f", bytes, tuned, ratio)
		return ratio >= 1 && ratio <= 3
	}
	for _, g := range []tune.Goal{
		{Limit: 100, FalseDenialRate: 1e-5},
		{Limit: 10, FalseDenialRate: 1e-7},
		{Limit: 5, FalseDenialRate: 1e-3, Algorithm: sketchlimit.FixedWindow},
		{Limit: 1500, FalseDenialRate: 1e-9, Algorithm: sketchlimit.FixedWindow},
		{Limit: 100, FalseDenialRate: 1e-5, SubWindows: 3},
		{Limit: 5, FalseDenialRate: 1e-4, Algorithm: sketchlimit.TokenBucket},
	} {
		c := sketchlimit.Config{
			Limit: g.Limit, Window: time.Minute, Algorithm: g.Algorithm, SubWindows: g.SubWindows, Keys: keys, FalseDenialRate: g.FalseDenialRate,
		}
		plan, err := tune.Plan(traffic, g)
		require.NoError(t, err)
		bytes, err := c.Bytes()
		require.NoError(t, err)
		require.True(t, near(bytes, plan.Forecast.MemoryBytes), "%+v", g)
		chosen := build(t, c).Plan()
		for load, rate := range map[float64]float64{1: g.FalseDenialRate, 2: 0.1} {
			e, err := tune.PredictAt(traffic, g, chosen, load)
			require.NoError(t, err)
			require.LessOrEqual(t, e.FalseDenialRate, rate, "%+v at %v times the load", g, load)
		}

		c.Keys *= 4 // the check can fail: it finds a size that is for other traffic
		bytes, err = c.Bytes()
		require.NoError(t, err)
		require.False(t, near(bytes, plan.Forecast.MemoryBytes))
	}
}

// Every limit gets a size, a lower rate never takes less memory, and more keys take more.
func TestEveryLimitHasASize(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("it sizes limiters that 32 bits cannot address")
	}
	for _, a := range []sketchlimit.Config{{}, {Algorithm: sketchlimit.FixedWindow}, {SubWindows: 4}, {Algorithm: sketchlimit.TokenBucket}} {
		for bits := range 32 {
			for _, limit := range []int{1 << bits, 1<<bits + 1, math.MaxInt32} {
				before := 0
				for _, rate := range []float64{0.5, 1e-2, 1e-3, 3e-5, 1e-6, 1e-7, 9e-8, 1e-9, 1e-12} {
					c := a
					c.Limit, c.Window, c.Keys, c.FalseDenialRate = min(limit, math.MaxInt32), time.Minute, 10_000, rate
					bytes, err := c.Bytes()
					require.NoError(t, err)
					require.GreaterOrEqual(t, bytes, before, "%+v", c)
					before = bytes
					c.Keys *= 10
					more, err := c.Bytes()
					require.NoError(t, err)
					require.Greater(t, more, bytes)
				}
			}
		}
	}
}

// Every lowest limit gets a size as well, of which New makes a limiter.
func TestEveryLowestLimitHasASize(t *testing.T) {
	for _, c := range []sketchlimit.Config{{}, {Algorithm: sketchlimit.FixedWindow}, {SubWindows: 4}, {Algorithm: sketchlimit.TokenBucket}, {Algorithm: sketchlimit.TokenBucket, Burst: 3}} {
		for _, c.Limit = range []int{2, 16, 17, 100, 257, 1000, 65_537, 1 << 22} {
			for _, c.LowestLimit = range []int{1, 2, 3, 7, 11, 12, 16, 17, 100, 1000} {
				for _, c.Keys = range []int{1, 1000, 20_000} {
					if c.Window = time.Minute; c.LowestLimit > c.Limit {
						continue
					}
					bytes, err := c.Bytes()
					require.NoError(t, err)
					require.LessOrEqual(t, build(t, c).MemoryBytes(), bytes, "%+v", c)
				}
			}
		}
	}
	// What holds a limit of 5 among limits up to 1000 takes not much more than what holds a limit of 5 alone.
	alone, err := sketchlimit.Config{Limit: 5, Window: time.Minute, Keys: 1e6}.Bytes()
	require.NoError(t, err)
	among, err := sketchlimit.Config{Limit: 1000, LowestLimit: 5, Window: time.Minute, Keys: 1e6}.Bytes()
	require.NoError(t, err)
	require.Less(t, among, 3*alone/2)
}
