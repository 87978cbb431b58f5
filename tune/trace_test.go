package tune_test

import (
	"cmp"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// recorded is a day of a web server: heavy clients that stay, and windows that differ.
func recorded(t *testing.T) *accuracy.Trace {
	f, err := os.Open("testdata/nasa_19950801.tsv.gz")
	require.NoError(t, err)
	defer f.Close()
	trace, err := accuracy.ReadTrace(f, "nasa")
	require.NoError(t, err)
	return trace
}

func traceOf(src accuracy.Source, window time.Duration, keep func(accuracy.Request) bool) *tune.Trace {
	trace := tune.NewTrace(window)
	for r := range src.Requests() {
		if keep(r) {
			trace.Add(r.Time, r.Key, r.Cost)
		}
	}
	return trace
}

func all(accuracy.Request) bool { return true }

// Plans for a trace reach their goal on it with seeds that the tuner has not seen, and
// replays by [accuracy.Replay] show what its own say.
func TestPlansForATraceReachTheirGoal(t *testing.T) {
	testkit.Computes(t)
	src := recorded(t)
	const window = 10 * time.Minute
	for _, c := range testkit.Some(3, []struct {
		goal tune.Goal
		some bool // units are lost, enough to compare
	}{
		{tune.Goal{Limit: 5, MemoryBytes: 3500}, true},
		{tune.Goal{Limit: 20, MemoryBytes: 3500}, false},
		{tune.Goal{Limit: 5, FalseDenialRate: 1e-2}, false},
		{tune.Goal{Limit: 5, FalseDenialRate: 1e-5}, false},
		{tune.Goal{Limit: 20, FalseDenialRate: 1e-3}, false},
		{tune.Goal{Limit: 20, LostShare: 1e-2}, false},
		{tune.Goal{Limit: 20, LowestLimit: 10, FalseDenialRate: 1e-2}, false},
		{tune.Goal{Limit: 5, FalseDenialRate: 1e-2, Algorithm: sketchlimit.FixedWindow}, false},
		{tune.Goal{Limit: 5, FalseDenialRate: 1e-2, SubWindows: 2}, false},
		{tune.Goal{Limit: 20, FalseDenialRate: 1e-2, Algorithm: sketchlimit.TokenBucket}, false},
	}) {
		plan, forecast, err := tune.Plan(tune.Traffic{Trace: traceOf(src, window, all)}, c.goal)
		require.NoError(t, err)
		e := forecast.Stated()
		require.Greater(t, e.Replayed, uint64(100_000))
		require.Greater(t, e.ReplayedUnits, uint64(100_000))
		tomorrow, err := tune.PredictAt(tune.Traffic{Trace: traceOf(src, window, all)}, c.goal, plan, 1.5)
		require.NoError(t, err)
		require.LessOrEqual(t, tomorrow.FalseDenialRate, cmp.Or(c.goal.FalseDenialRate, 1), "%+v", c.goal)
		require.LessOrEqual(t, tomorrow.LostShare, cmp.Or(c.goal.LostShare, 1), "%+v", c.goal)
		denied, calm, lost, units := 0., 0., 0., 0.
		for seed := uint64(1); seed <= 5; seed++ {
			r, err := accuracy.Replay(t.Context(), src, sketchlimit.Config{
				Limit: c.goal.Limit, LowestLimit: c.goal.LowestLimit, Algorithm: c.goal.Algorithm, SubWindows: c.goal.SubWindows,
				Window: window, Plan: &plan, Seed: seed,
			}, accuracy.Options{})
			require.NoError(t, err)
			require.Equal(t, forecast.MemoryBytes, r.MemoryBytes)
			require.LessOrEqual(t, r.FalseDenialRate, cmp.Or(c.goal.FalseDenialRate, 1), "%+v", c.goal)
			require.LessOrEqual(t, r.LostShare, cmp.Or(c.goal.LostShare, 1), "%+v", c.goal)
			denied, calm = denied+float64(r.LightFalseDenials), calm+float64(r.LightRequests)
			lost, units = lost+float64(r.OracleAdmittedUnits)-float64(r.AdmittedUnits), units+float64(r.OracleAdmittedUnits)
		}
		t.Logf("%+v: %d bytes, denied %.1e, said %.1e; lost %.1e, said %.1e", c.goal, forecast.MemoryBytes, denied/calm,
			e.FalseDenialRate, lost/units, e.LostShare)
		if c.some {
			require.InDelta(t, 1.7, e.LostShare/(lost/units), 1, "a mean, and a standard deviation more")
			require.InDelta(t, 1.7, e.FalseDenialRate/(denied/calm), 1)
		}
	}
}

// A plan for the first half of a trace holds in the second.
func TestPlanForATraceHoldsTomorrow(t *testing.T) {
	testkit.Computes(t)
	src := recorded(t)
	requests := 0
	half := func(first bool) *tune.Trace {
		requests = 0
		return traceOf(src, 10*time.Minute, func(accuracy.Request) bool {
			requests++
			return first == (requests <= src.Len()/2)
		})
	}
	for _, limit := range []int{5, 20} {
		goal := tune.Goal{Limit: limit, FalseDenialRate: 1e-2}
		plan, today, err := tune.Plan(tune.Traffic{Trace: half(true)}, goal)
		require.NoError(t, err)
		require.InDelta(t, 1.5*today.Keys, plan.Keys, 1e-9, "and it may have more keys")
		tomorrow, err := tune.Predict(tune.Traffic{Trace: half(false)}, goal, plan)
		require.NoError(t, err)
		require.LessOrEqual(t, tomorrow.Stated().FalseDenialRate, goal.FalseDenialRate)
	}
}

// With memory alone the plan uses it. More traffic than recorded is more than recorded.
func TestTraceInGivenMemory(t *testing.T) {
	testkit.Computes(t)
	trace := traceOf(recorded(t), 10*time.Minute, all)
	goal := tune.Goal{Limit: 5, MemoryBytes: 6 << 10}
	plan, forecast, err := tune.Plan(tune.Traffic{Trace: trace}, goal)
	require.NoError(t, err)
	require.InDelta(t, goal.MemoryBytes, forecast.MemoryBytes, 1<<10)
	more, err := tune.Predict(tune.Traffic{Trace: trace, Keys: int(4 * forecast.Keys)}, goal, plan)
	require.NoError(t, err)
	require.Greater(t, more.Stated().FalseDenialRate, 5*forecast.Stated().FalseDenialRate)
	require.InEpsilon(t, forecast.At[3].FalseDenialRate, more.Stated().FalseDenialRate, 0.5, "that is four times the load")

	goal.FalseDenialRate, goal.MemoryBytes = 1e-5, 4<<10
	_, _, err = tune.Plan(tune.Traffic{Trace: trace}, goal)
	require.ErrorContains(t, err, "tune: Goal.MemoryBytes 4096, must be at least ")
}

func TestTraceIsChecked(t *testing.T) {
	trace := tune.NewTrace(time.Minute)
	trace.Add(time.Unix(0, 0), "a", 0)
	require.Zero(t, trace.Len())
	goal := tune.Goal{Limit: 5, FalseDenialRate: 1e-3}
	_, _, err := tune.Plan(tune.Traffic{Trace: trace}, goal)
	require.EqualError(t, err, "tune: Traffic.Trace has no requests")
	trace.Add(time.Unix(60, 0), "a", 7)
	trace.Add(time.Unix(0, 0), "b", 1)
	_, _, err = tune.Plan(tune.Traffic{Trace: trace, Abusers: 0.1}, goal)
	require.EqualError(t, err, "tune: Traffic.Trace goes with Keys alone")
	_, _, err = tune.Plan(tune.Traffic{Trace: trace, Keys: -1}, goal)
	require.EqualError(t, err, "tune: Traffic.Keys -1, must be 0 … 2147483647")
}
