package tune_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// As TestTunePredicts, for a table of times.
func TestTunePredictsBuckets(t *testing.T) {
	testkit.NeedsLong(t)
	const keys = 60_000
	for _, c := range []struct {
		name         string
		limit, burst int
		traffic      tune.Traffic
		memory       float64 // bytes a key: little, so that there is something to count
	}{
		{"uniform", 5, 0, withAbusers(keys, 5, 0), 7},
		{"zipf 1", 100, 0, tune.Traffic{Keys: keys, Requests: 5 * keys, Exponent: 1, Even: true, Steady: true}, 0.25},
		{"attack", 100, 0, withAbusers(keys, 100, 0.01), 0.7},
		{"small burst", 100, 10, withAbusers(keys, 100, 0.01), 0.7},
		{"scan", 10, 0, tune.Traffic{Keys: keys, Requests: 5 * keys, Exponent: 1, OneHit: 0.9, Even: true, Steady: true}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			goal := tune.Goal{Limit: c.limit, Burst: c.burst, Algorithm: sketchlimit.TokenBucket}
			config := sketchlimit.Config{Limit: c.limit, Burst: c.burst, Algorithm: sketchlimit.TokenBucket,
				Window: time.Minute, MemoryBytes: int(c.memory * keys), AuditBytes: -1, Seed: 1}
			plan := planOf(t, config)
			e, err := tune.PredictAt(c.traffic, goal, plan, 1)
			require.NoError(t, err)

			r, err := accuracy.Replay(t.Context(), asWorkload(t, c.traffic, c.limit, 8), config, accuracy.Options{WarmUp: 5})
			require.NoError(t, err)
			lost := r.OracleAdmittedUnits - min(r.AdmittedUnits, r.OracleAdmittedUnits)
			t.Logf("false denials %.1e, predicted %.1e; lost %.1e, predicted %.1e; error %.2g, predicted %.2g",
				r.FalseDenialRate, e.FalseDenialRate, r.LostShare, e.LostShare, r.EstimateError.Mean(), e.EstimateError)
			require.True(t, fits(r.LightFalseDenials, r.LightRequests, e.FalseDenialRate))
			require.True(t, fits(lost, r.OracleAdmittedUnits, e.LostShare))
			// Of a key that finds no place all is held, so this errs as the rate does.
			require.InDelta(t, 0, math.Log(r.EstimateError.Mean()/e.EstimateError), math.Log(3))

			// The check can fail: a third of the traffic leads to other figures.
			third := c.traffic
			third.Keys /= 3
			third.Requests /= 3
			e, err = tune.PredictAt(third, goal, plan, 1)
			require.NoError(t, err)
			require.False(t, fits(r.LightFalseDenials, r.LightRequests, e.FalseDenialRate) &&
				fits(lost, r.OracleAdmittedUnits, e.LostShare) &&
				math.Abs(math.Log(r.EstimateError.Mean()/e.EstimateError)) < math.Log(3))
		})
	}
}

// The plan for a goal reaches it in a replay, at a size that a test can afford: see
// testkit.MostFalseDenials.
func TestTuneReachesItsGoalForBuckets(t *testing.T) {
	testkit.NeedsLong(t)
	const keys, rate = 60_000, 1e-4
	traffic := withAbusers(keys, 50, 0.01)
	goal := tune.Goal{Limit: 50, Burst: 20, Algorithm: sketchlimit.TokenBucket, FalseDenialRate: rate}
	plan, forecast, err := tune.Plan(traffic, goal)
	require.NoError(t, err)
	again, _, err := tune.Plan(traffic, goal)
	require.NoError(t, err)
	require.Equal(t, plan, again)
	require.LessOrEqual(t, forecast.Stated().FalseDenialRate, 1.0*rate)
	require.Greater(t, forecast.BreakingPoint, 1.9)
	require.InEpsilon(t, keys, forecast.Keys, 0.02)

	r, err := accuracy.Replay(t.Context(), asWorkload(t, traffic, 50, 3), sketchlimit.Config{Limit: 50, Burst: 20, Window: time.Minute,
		Algorithm: sketchlimit.TokenBucket, Plan: &plan, Seed: 1}, accuracy.Options{})
	require.NoError(t, err)
	require.Equal(t, forecast.MemoryBytes, r.MemoryBytes)
	require.Zero(t, r.OverAdmissions)
	// An abuser whose cells are all covered is denied for as long as it lasts: 450
	// requests.
	require.LessOrEqual(t, r.LightFalseDenials, 90*testkit.MostFalseDenials(r.LightRequests/90, rate))
	require.Less(t, float64(forecast.MemoryBytes), 5.0*keys, "a bucket that nobody tuned")
}
