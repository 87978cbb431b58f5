package tune_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// asWorkload is windows of the traffic as a stream.
func asWorkload(t *testing.T, traffic tune.Traffic, limit, windows int) accuracy.Source {
	w, err := accuracy.WorkloadOf(traffic, limit, windows)
	require.NoError(t, err)
	src, err := w.Source()
	require.NoError(t, err)
	return src
}

// withAbusers is five requests a key, besides those of the abusers, at three times the
// limit.
func withAbusers(keys, limit int, share float64) tune.Traffic {
	return tune.Traffic{Keys: keys, Abusers: share, Requests: 5*keys + int(3*float64(limit*keys)*share), Even: true, Steady: true}
}

// fits reports whether counted events of n may have the predicted rate p: at most three
// times it, and at least a tenth of it.
//
// Events come together, 5 at a time, see most, so a fifth as many are independent. With
// a mean of m of them the upper bound is passed with a chance below e^−18 (m + 6√m + 12
// is beyond Bernstein's bound for that, for any m); the lower one is only drawn where m
// is 300 or more, and a tenth of that is less likely still.
func fits(counted, n uint64, p float64) bool {
	expected := p * float64(n)
	return atMost(counted, n, p) && (expected < 10*lump*30 || float64(counted) >= expected/10)
}

// lump is how many events come at once.
const lump = 5

// atMost is the upper half of fits.
func atMost(counted, n uint64, p float64) bool {
	mean := 3 * p * float64(n) / lump
	return float64(counted) <= lump*(mean+6*math.Sqrt(mean)+12)
}

// planOf returns the dimensions of a limiter of a minute.
func planOf(t *testing.T, c sketchlimit.Config) sketchlimit.Plan {
	c.Window = time.Minute
	plan, _, err := c.Size()
	require.NoError(t, err)
	return plan
}

// What is predicted is what a replay against the exact algorithm shows, at a size that
// a test can afford. notes/tuning.md has the full size.
func TestTunePredicts(t *testing.T) {
	testkit.Computes(t)
	const keys = 60_000
	for _, c := range testkit.Some(1, []struct {
		name    string
		limit   int
		traffic tune.Traffic
		memory  float64 // bytes a key: little, so that there is something to count
	}{
		{"uniform", 5, withAbusers(keys, 5, 0), 12},
		{"uniform", 100, withAbusers(keys, 100, 0), 0.27},
		{"zipf 1", 100, tune.Traffic{Keys: keys, Requests: 5 * keys, Exponent: 1, Even: true, Steady: true}, 0.2},
		{"attack", 5, withAbusers(keys, 5, 0.01), 14},
		{"attack", 100, withAbusers(keys, 100, 0.05), 0.7},
		{"scan", 10, tune.Traffic{Keys: keys, Requests: 5 * keys, Exponent: 1, OneHit: 0.9, Even: true, Steady: true}, 2},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			goal := tune.Goal{Limit: c.limit}
			plan := planOf(t, sketchlimit.Config{Limit: c.limit, MemoryBytes: int(c.memory * keys)})
			e, err := tune.PredictAt(c.traffic, goal, plan, 1)
			require.NoError(t, err)

			r, err := accuracy.Replay(t.Context(), asWorkload(t, c.traffic, c.limit, 4), sketchlimit.Config{
				Limit: c.limit, Window: time.Minute, Plan: &plan, Seed: 1,
			}, accuracy.Options{WarmUp: 1})
			require.NoError(t, err)
			lost := r.OracleAdmittedUnits - min(r.AdmittedUnits, r.OracleAdmittedUnits)
			t.Logf("false denials %.1e, predicted %.1e; lost %.1e, predicted %.1e; error %.2g, predicted %.2g",
				r.FalseDenialRate, e.FalseDenialRate, r.LostShare, e.LostShare, r.EstimateError.Mean(), e.EstimateError)
			require.True(t, fits(r.LightFalseDenials, r.LightRequests, e.FalseDenialRate))
			require.True(t, fits(lost, r.OracleAdmittedUnits, e.LostShare))
			require.InEpsilon(t, r.EstimateError.Mean(), e.EstimateError, 0.3)

			// The check can fail: half the traffic leads to other figures.
			half := c.traffic
			half.Keys /= 2
			half.Requests /= 2
			e, err = tune.PredictAt(half, goal, plan, 1)
			require.NoError(t, err)
			require.False(t, fits(r.LightFalseDenials, r.LightRequests, e.FalseDenialRate) &&
				fits(lost, r.OracleAdmittedUnits, e.LostShare) &&
				math.Abs(r.EstimateError.Mean()/e.EstimateError-1) < 0.3)
		})
	}
}

// Abusers that meet in the cells of a single row share what the cells let through, so
// hardly any is kept below half of its limit for long. By the cells alone, which others
// have filled in a key's absence, 15 in 10,000 would be denied.
func TestPredictCountsWhatHeavyKeysLeaveEachOther(t *testing.T) {
	testkit.NeedsLong(t)
	const limit = 1000
	traffic := withAbusers(50_000, limit, 0.001)
	plan := sketchlimit.Plan{Shards: 24, BloomBytes: 128, BloomProbes: 3, Depth: 1, Width: 1024, CellBits: 16}
	e, err := tune.PredictAt(traffic, tune.Goal{Limit: limit}, plan, 1)
	require.NoError(t, err)
	require.Less(t, e.FalseDenialRate, 5e-4)
	r, err := accuracy.Replay(t.Context(), asWorkload(t, traffic, limit, 3), sketchlimit.Config{
		Limit: limit, Window: time.Minute, Plan: &plan, Seed: 1,
	}, accuracy.Options{WarmUp: 1})
	require.NoError(t, err)
	t.Logf("false denials %.1e, predicted %.1e", r.FalseDenialRate, e.FalseDenialRate)
	require.True(t, atMost(r.LightFalseDenials, r.LightRequests, e.FalseDenialRate))
}

// Whether the load is half of what was stated or four times as much: a plan of Tune's
// errs no more than predicted. At twice the load and more everybody is about to be
// denied, or is already.
func TestTunesPlansErrNoMoreThanPredicted(t *testing.T) {
	testkit.NeedsLong(t)
	const keys = 20_000
	for _, c := range []struct {
		limit   int
		abusers float64
	}{{100, 0}, {100, 0.01}, {5, 0.01}} {
		goal := tune.Goal{Limit: c.limit, FalseDenialRate: 1e-4}
		plan, forecast, err := tune.Plan(withAbusers(keys, c.limit, c.abusers), goal)
		require.NoError(t, err)
		half := forecast.At[0]
		for _, e := range forecast.At[:4] {
			load := e.Load
			r, err := accuracy.Replay(t.Context(), asWorkload(t, withAbusers(int(load*keys), c.limit, c.abusers), c.limit, 3), sketchlimit.Config{
				Limit: c.limit, Window: time.Minute, Plan: &plan, Seed: 1,
			}, accuracy.Options{WarmUp: 1})
			require.NoError(t, err)
			lost := r.OracleAdmittedUnits - min(r.AdmittedUnits, r.OracleAdmittedUnits)
			t.Logf("limit %d, %v abusers, %v times the load: false denials %.1e, predicted %.1e; lost %.1e, predicted %.1e",
				c.limit, c.abusers, load, r.FalseDenialRate, e.FalseDenialRate, r.LostShare, e.LostShare)
			require.True(t, atMost(r.LightFalseDenials, r.LightRequests, e.FalseDenialRate))
			require.True(t, atMost(lost, r.OracleAdmittedUnits, e.LostShare))
			if load == 4 { // the check can fail: what is predicted of half the load does not hold
				require.False(t, atMost(r.LightFalseDenials, r.LightRequests, half.FalseDenialRate))
				require.False(t, atMost(lost, r.OracleAdmittedUnits, half.LostShare))
			}
		}
	}
}

// The plan for a million keys of five requests fits 768 KiB with room for twice the
// load, in the limiter's own account.
func TestTuneReachesItsGoal(t *testing.T) {
	testkit.NeedsLong(t)
	traffic := tune.Traffic{Keys: 1_000_000, Requests: 5_000_000, Even: true, Steady: true}
	goal := tune.Goal{Limit: 100, FalseDenialRate: 1e-5}
	plan, forecast, err := tune.Plan(traffic, goal)
	require.NoError(t, err)
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Plan: &plan})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Equal(t, l.MemoryBytes(), forecast.MemoryBytes)
	require.LessOrEqual(t, l.MemoryBytes(), 768<<10)
	require.Greater(t, forecast.BreakingPoint, 2.0)
	require.LessOrEqual(t, forecast.Stated().FalseDenialRate, 1e-5)
	require.InEpsilon(t, 1_000_000, forecast.Keys, 0.02)
	require.Equal(t, forecast.Keys, plan.Keys)
	require.Equal(t, forecast.Stated().FalseDenialRate, plan.FalseDenialRate)
}

// More traffic never helps, and a budget is a bound.
func TestTuneForMemory(t *testing.T) {
	testkit.Computes(t)
	for _, memory := range testkit.Some(1, []int{10_700, 300_001}) {
		for _, limit := range testkit.Some(1, []int{1, 100}) {
			goal := tune.Goal{Limit: limit, MemoryBytes: memory}
			plan, forecast, err := tune.Plan(tune.Traffic{Keys: 20_000, Abusers: 0.01, Even: true, Steady: true}, goal)
			require.NoError(t, err)
			_, bytes, err := sketchlimit.Config{Limit: limit, Window: time.Minute, Plan: &plan}.Size()
			require.NoError(t, err)
			require.Equal(t, forecast.MemoryBytes, bytes)
			require.LessOrEqual(t, bytes, memory)
			require.Greater(t, float64(bytes), 0.9*float64(memory), "all of it is used")
			at := forecast.At
			for i := range at[1:] {
				require.GreaterOrEqual(t, 1.2*at[i+1].FalseDenialRate+1e-4, at[i].FalseDenialRate, "load %v", at[i+1].Load)
			}
		}
	}
}

// A sample's counts are those of every window: keys that came once come in each. Taken as
// means they would be missing from 37 in 100.
func TestTuneTakesASampleAsItIs(t *testing.T) {
	testkit.Computes(t)
	const keys = 20_000
	traffic := tune.Traffic{Keys: keys, Sample: []int{1, 3, 1, 1}, Even: true, Steady: true}
	for _, c := range []struct {
		parts    int
		distinct float64
	}{
		{1, keys},
		{4, keys * 6 / 4 / 4}, // in a quarter of a window each key comes once or not at all
	} {
		plan := planOf(t, sketchlimit.Config{Limit: 50, SubWindows: c.parts, MemoryBytes: 200_000})
		forecast, err := tune.Predict(traffic, tune.Goal{Limit: 50, SubWindows: c.parts}, plan)
		require.NoError(t, err)
		require.InEpsilon(t, c.distinct, forecast.Keys, 0.05)
	}

	// As counts or as their mean, it takes the same memory. So many keys, because that
	// of few is whole pages.
	const many = 1_000_000
	goal := tune.Goal{Limit: 50, FalseDenialRate: 1e-4}
	_, sampled, err := tune.Plan(tune.Traffic{Keys: many, Sample: poissonCounts(5, 5000), Even: true, Steady: true}, goal)
	require.NoError(t, err)
	require.InEpsilon(t, many, sampled.Keys, 0.001)
	_, stated, err := tune.Plan(tune.Traffic{Keys: many, Even: true, Steady: true}, goal)
	require.NoError(t, err)
	require.InEpsilon(t, stated.MemoryBytes, sampled.MemoryBytes, 0.1)
}

// poissonCounts are about n counts, none of them 0, as often as the Poisson
// distribution has them.
func poissonCounts(mean, n float64) (counts []int) {
	chance := math.Exp(-mean)
	for k := 1; k < 30; k++ {
		chance *= mean / float64(k)
		counts = append(counts, slices.Repeat([]int{k}, int(math.Round(n*chance)))...)
	}
	return counts
}

func TestImpossibleGoalsAreNamed(t *testing.T) {
	testkit.Computes(t)
	traffic := tune.Traffic{Keys: 20_000, Even: true, Steady: true}
	goal := tune.Goal{Limit: 100, FalseDenialRate: 1e-5}
	for _, c := range []struct {
		change func(t *tune.Traffic, g *tune.Goal)
		want   string
	}{
		{func(t *tune.Traffic, g *tune.Goal) { t.Keys = 0 }, "Traffic.Keys 0, must be 1 … 2147483647"},
		{func(t *tune.Traffic, g *tune.Goal) { t.Requests = -1 }, "Traffic.Requests -1, must be 0 … 1<<53"},
		{func(t *tune.Traffic, g *tune.Goal) { t.Exponent = math.NaN() }, "Traffic.Exponent NaN, must be 0 … 10"},
		{func(t *tune.Traffic, g *tune.Goal) { t.Abusers = 1.5 }, "Traffic.Abusers 1.5, must be 0 … 1"},
		{func(t *tune.Traffic, g *tune.Goal) { t.Excess = -2 }, "Traffic.Excess -2, must be 0 … 1e+06"},
		{func(t *tune.Traffic, g *tune.Goal) { t.OneHit = 1 }, "Traffic.OneHit 1, must be 0 … below 1"},
		{func(t *tune.Traffic, g *tune.Goal) { t.Abusers, t.Requests = 0.5, 100 },
			"Traffic.Requests 100, must be at least 3000000 for 0.5 × 20000 abusers at 3 times the limit of 100"},
		{func(t *tune.Traffic, g *tune.Goal) { t.Sample = []int{3, 0} }, "Traffic.Sample has a key of 0 requests, must be at least 1"},
		{func(t *tune.Traffic, g *tune.Goal) { t.Sample, t.Exponent = []int{3}, 1 }, "Traffic.Sample of 1 keys, goes with Keys alone"},
		{func(t *tune.Traffic, g *tune.Goal) { g.FalseDenialRate = 0 },
			"Goal.FalseDenialRate 0, must be 1e-12 … 0.5, unless LostShare or MemoryBytes is set"},
		{func(t *tune.Traffic, g *tune.Goal) { g.FalseDenialRate = 0.7 }, "Goal.FalseDenialRate 0.7, must be 1e-12 … 0.5"},
		{func(t *tune.Traffic, g *tune.Goal) { g.LostShare = -1 }, "Goal.LostShare -1, must be 1e-12 … 0.5"},
		{func(t *tune.Traffic, g *tune.Goal) { g.Limit = 0 }, "Goal.Limit 0, must be 1 … 2147483647"},
		{func(t *tune.Traffic, g *tune.Goal) { g.Algorithm = 7 }, "Goal.Algorithm 7, must be SlidingWindow, FixedWindow or TokenBucket"},
		{func(t *tune.Traffic, g *tune.Goal) { g.Burst = 5 }, "Goal.Burst 5, goes with TokenBucket only"},
		{func(t *tune.Traffic, g *tune.Goal) { g.SubWindows = -1 }, "Goal.SubWindows -1, must be at least 0"},
		{func(t *tune.Traffic, g *tune.Goal) { g.MemoryBytes = -1 }, "Goal.MemoryBytes -1, must be 0 … "},
		{func(t *tune.Traffic, g *tune.Goal) { g.MemoryBytes = 1 }, "Goal.MemoryBytes 1, must be at least "},
		{func(t *tune.Traffic, g *tune.Goal) { g.MemoryBytes = 4 << 10 },
			"Goal.MemoryBytes 4096, must be at least "},
	} {
		traffic, goal := traffic, goal
		c.change(&traffic, &goal)
		_, _, err := tune.Plan(traffic, goal)
		require.ErrorContains(t, err, "tune: "+c.want)
	}
	if math.MaxInt > math.MaxInt32 {
		goal.Limit = math.MaxInt32
		goal.Limit++
		_, _, err := tune.Plan(traffic, goal)
		require.EqualError(t, err, "tune: Goal.Limit 2147483648, must be 1 … 2147483647")
	}
	_, err := tune.Predict(traffic, tune.Goal{Limit: 100}, sketchlimit.Plan{})
	require.EqualError(t, err, "tune: Plan.Shards 0, must be 1 … 16777216")
}

// What a limiter does for the lowest limit is in its forecast, and Tune makes plans for
// it.
func TestTuneForALowestLimit(t *testing.T) {
	testkit.Computes(t)
	traffic := tune.Traffic{Keys: 100_000, Abusers: 0.01, Even: true, Steady: true}
	for _, algorithm := range testkit.Some(1, []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket}) {
		goal := tune.Goal{Limit: 100, Algorithm: algorithm, FalseDenialRate: 1e-4}
		plan, forecast, err := tune.Plan(traffic, goal)
		require.NoError(t, err)
		require.LessOrEqual(t, forecast.Stated().FalseDenialRate, 1e-4)
		goal.LowestLimit = 10
		_, err = tune.PredictAt(traffic, goal, plan, 1)
		require.EqualError(t, err, "tune: Plan.LowestLimit 100, must be the Config's, 10")
		plan.LowestLimit = 10 // as if it had been made for that
		e, err := tune.PredictAt(traffic, goal, plan, 1)
		require.NoError(t, err)
		require.Greater(t, e.FalseDenialRate, 0.05, "%v: nearly nothing is left of a limit of 10", algorithm)

		_, lower, err := tune.Plan(traffic, goal)
		require.NoError(t, err)
		require.LessOrEqual(t, lower.Stated().FalseDenialRate, 1e-4)
		require.Greater(t, lower.MemoryBytes, 2*forecast.MemoryBytes, "%v", algorithm)
		require.LessOrEqual(t, lower.MemoryBytes, 20*forecast.MemoryBytes, "%v", algorithm)
	}
	_, _, err := tune.Plan(traffic, tune.Goal{Limit: 100, LowestLimit: 101, FalseDenialRate: 1e-4})
	require.EqualError(t, err, "tune: Goal.LowestLimit 101, must be 0 … Limit 100")
}

// With headroom the goal holds up to a multiple of the traffic, and the plan is for as
// many keys. Asking twice gives the same.
func TestHeadroomOfAGoal(t *testing.T) {
	testkit.NeedsLong(t)
	traffic, goal := withAbusers(20_000, 100, 0.01), tune.Goal{Limit: 100, FalseDenialRate: 1e-5}
	plan, without, err := tune.Plan(traffic, goal)
	require.NoError(t, err)
	require.Greater(t, without.At[3].FalseDenialRate, goal.FalseDenialRate)
	again, withoutAgain, err := tune.Plan(traffic, goal)
	require.NoError(t, err)
	require.Equal(t, plan, again)
	require.Equal(t, without, withoutAgain)
	goal.Headroom = 4
	roomy, with, err := tune.Plan(traffic, goal)
	require.NoError(t, err)
	require.LessOrEqual(t, with.At[3].FalseDenialRate, 3*goal.FalseDenialRate)
	require.Greater(t, with.MemoryBytes, 2*without.MemoryBytes)
	require.InDelta(t, 4, roomy.Keys/plan.Keys, 0.01)
	goal.Headroom = 0.5
	_, _, err = tune.Plan(traffic, goal)
	require.EqualError(t, err, "tune: Goal.Headroom 0.5, must be 1 … 1000")
}
