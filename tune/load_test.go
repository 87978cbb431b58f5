package tune_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// What PredictAt says of a load is what Predict says of it, and more traffic is worse.
func TestPredictAtALoad(t *testing.T) {
	testkit.Computes(t)
	traffic, goal := tune.Traffic{Keys: 20_000, Abusers: 0.01}, tune.Goal{Limit: 20}
	plan := planOf(t, sketchlimit.Config{Limit: 20, MemoryBytes: 64 << 10})
	forecast, err := tune.Predict(traffic, goal, plan)
	require.NoError(t, err)
	for _, want := range forecast.At {
		e, err := tune.PredictAt(traffic, goal, plan, want.Load)
		require.NoError(t, err)
		require.Equal(t, want, e)
	}
	beyond, err := tune.PredictAt(traffic, goal, plan, 1.1*forecast.BreakingPoint)
	require.NoError(t, err)
	require.Greater(t, beyond.FalseDenialRate, 0.1)

	for _, load := range []float64{0, 65, math.NaN()} {
		_, err := tune.PredictAt(traffic, goal, plan, load)
		require.ErrorContains(t, err, ", must be 1/64 … 64")
	}
	_, err = tune.PredictAt(tune.Traffic{}, goal, plan, 1)
	require.EqualError(t, err, "tune: Traffic.Keys 0, must be 1 … 2147483647")
	_, err = tune.PredictAt(traffic, goal, sketchlimit.Plan{}, 1)
	require.EqualError(t, err, "tune: Plan.Shards 0, must be 1 … 16777216")
}
