package tune_test

import (
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/tune"
	"github.com/stretchr/testify/require"
)

// What New takes by its table, where no more units are stated than that is for, is what
// Tune takes for the same traffic and half as much again, up to twice that where a
// limit lies far behind the row that it goes by. By what is predicted, it reaches the
// goal and bears twice the load.
func TestSizesAreThoseOfTune(t *testing.T) {
	testkit.Computes(t)
	const keys = 200_000
	traffic := tune.Traffic{Keys: keys, Abusers: 0.01, Even: true, Steady: true}
	near := func(bytes, tuned int) bool {
		ratio := float64(bytes) / float64(tuned)
		t.Logf("New %d, Tune %d: %.2f", bytes, tuned, ratio)
		return ratio >= 1 && ratio <= 3.5
	}
	for _, g := range testkit.Some(1, []tune.Goal{
		{Limit: 100, FalseDenialRate: 1e-5},
		{Limit: 10, FalseDenialRate: 1e-7},
		{Limit: 5, FalseDenialRate: 1e-3, Algorithm: sketchlimit.FixedWindow},
		{Limit: 1500, FalseDenialRate: 1e-9, Algorithm: sketchlimit.FixedWindow},
		{Limit: 100, FalseDenialRate: 1e-5, SubWindows: 3},
		{Limit: 5, FalseDenialRate: 1e-4, Algorithm: sketchlimit.TokenBucket},
	}) {
		c := sketchlimit.Config{
			Limit: g.Limit, Window: time.Minute, Algorithm: g.Algorithm, SubWindows: g.SubWindows, Keys: keys, FalseDenialRate: g.FalseDenialRate,
			UnitsPerKey: 5, // as the traffic has it
		}
		_, forecast, err := tune.Plan(traffic, g)
		require.NoError(t, err)
		chosen, bytes, err := c.Size()
		require.NoError(t, err)
		require.True(t, near(bytes, forecast.MemoryBytes), "%+v", g)
		for load, rate := range map[float64]float64{1: g.FalseDenialRate, 2: 0.1} {
			e, err := tune.PredictAt(traffic, g, chosen, load)
			require.NoError(t, err)
			require.LessOrEqual(t, e.FalseDenialRate, rate, "%+v at %v times the load", g, load)
		}

		c.Keys *= 4 // the check can fail: it finds a size that is for other traffic
		_, bytes, err = c.Size()
		require.NoError(t, err)
		require.False(t, near(bytes, forecast.MemoryBytes))
	}
}
