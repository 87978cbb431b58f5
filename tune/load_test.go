package tune_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// What PredictAt says of a load is what Predict says of it, and more traffic is worse.
func TestPredictAtALoad(t *testing.T) {
	tuned(t)
	traffic, goal := tune.Traffic{Keys: 20_000, Abusers: 0.01}, tune.Goal{Limit: 20}
	plan := build(t, sketchlimit.Config{Limit: 20, Window: time.Minute, MemoryBytes: 64 << 10}).Plan()
	forecast, err := tune.Predict(traffic, goal, plan)
	require.NoError(t, err)
	for i, load := range sketchlimit.Loads {
		e, err := tune.PredictAt(traffic, goal, plan, load)
		require.NoError(t, err)
		require.Equal(t, forecast.At[i], e)
	}
	beyond, err := tune.PredictAt(traffic, goal, plan, 1.1*forecast.Cliff)
	require.NoError(t, err)
	require.Greater(t, beyond.FalseDenialRate, 0.1)

	for _, load := range []float64{0, 65, math.NaN()} {
		_, err := tune.PredictAt(traffic, goal, plan, load)
		require.ErrorContains(t, err, ", must be 1/64 … 64")
	}
	_, err = tune.PredictAt(tune.Traffic{}, goal, plan, 1)
	require.EqualError(t, err, "sketchlimit: Traffic.Keys 0, must be 1 … 2147483647")
	_, err = tune.PredictAt(traffic, goal, sketchlimit.Plan{}, 1)
	require.EqualError(t, err, "sketchlimit: Plan.Shards 0, must be 1 … 16777216")
}
