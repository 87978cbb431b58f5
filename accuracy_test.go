package sketchlimit_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// scale is how much smaller than the load that the figures in the README are about
// these tests are: keys, requests and memory alike. The error depends on the load of
// a cell only, so the rates are the same. BenchmarkSteadyState has the full size.
const scale = 16 * testkit.Slowdown

// steadyState are five windows of 5 M requests (6 M for the attack) over 1 M keys,
// divided by scale.
func steadyState(seed uint64) map[string]accuracy.Workload {
	base := accuracy.Workload{Keys: 1_000_000 / scale, Requests: 5 * 5_000_000 / scale, Windows: 5, Seed: seed}
	zipf08, zipf11, uniform, attack := base, base, base, base
	zipf08.Kind, zipf08.Exponent = accuracy.Zipf, 0.8
	zipf11.Kind, zipf11.Exponent = accuracy.Zipf, 1.1
	uniform.Kind = accuracy.Uniform
	attack.Kind, attack.Limit, attack.Factor = accuracy.Attack, 100, 3
	attack.Abusers, attack.Requests = 10_000/scale, 5*6_000_000/scale
	return map[string]accuracy.Workload{"zipf 0.8": zipf08, "zipf 1.1": zipf11, "uniform": uniform, "attack": attack}
}

func replay(t *testing.T, w accuracy.Workload, c accuracy.Contest) *accuracy.Result {
	t.Helper()
	src, err := w.Source()
	require.NoError(t, err)
	r, err := accuracy.ReplayContest(context.Background(), src, c, accuracy.Options{})
	require.NoError(t, err)
	return r
}

// The contract: no over-admission at all, a false-denial rate of at most 5e-6 and a
// withheld share of at most 1e-5 at two bytes a key, both generations included.
func TestSteadyState(t *testing.T) {
	for name, w := range steadyState(1) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := replay(t, w, accuracy.NewContest(sketchlimit.Config{
				Limit: 100, Window: time.Minute, MemoryBytes: 2 << 20 / scale, Seed: 1,
			}))
			require.Zero(t, r.OverAdmissions)
			require.Zero(t, r.EstimateTooSmall, "readings are never below the truth")
			require.LessOrEqual(t, r.InnocentFalseDenials, testkit.MostFalseDenials(r.InnocentRequests, 5e-6))
			withheld := r.OracleAdmittedUnits - min(r.AdmittedUnits, r.OracleAdmittedUnits)
			require.LessOrEqual(t, withheld, testkit.MostFalseDenials(r.OracleAdmittedUnits, 1e-5))
			t.Logf("false-denial rate %d of %d, withheld %.1e, live %.1e",
				r.InnocentFalseDenials, r.InnocentRequests, r.WithheldShare, r.LiveFalseDenialRateLast)
		})
	}
}

// Low limits leave no room for error: one unit too many is a fifth of the quota, or
// the whole of it.
func TestSteadyStateLowLimits(t *testing.T) {
	for _, c := range []struct {
		limit, keys, perWindow, memory int
		withheld                       float64
	}{
		{5, 200_000, 400_000, 2 << 20, 5e-4},
		{1, 1_000_000, 1_000_000, 4 << 20, 1e-4},
	} {
		w := accuracy.Workload{Kind: accuracy.Uniform, Keys: c.keys / scale, Requests: 6 * c.perWindow / scale, Windows: 6, Seed: 1}
		r := replay(t, w, accuracy.NewContest(sketchlimit.Config{
			Limit: c.limit, Window: time.Minute, MemoryBytes: c.memory / scale, Seed: 1,
		}))
		require.Zero(t, r.OverAdmissions)
		withheld := r.OracleAdmittedUnits - min(r.AdmittedUnits, r.OracleAdmittedUnits)
		require.LessOrEqual(t, withheld, testkit.MostFalseDenials(r.OracleAdmittedUnits, c.withheld))
	}
}

// A limiter made for so many keys keeps the rate that was asked for.
func TestSizedByKeys(t *testing.T) {
	for _, limit := range []int{1, 2, 5, 10, 20, 100, 1000} {
		for _, rate := range []float64{1e-3, 1e-5} {
			const keys = 10_000 / testkit.Slowdown
			w := accuracy.Workload{Kind: accuracy.Attack, Keys: keys, Limit: limit, Factor: 3, Abusers: keys / 100,
				Requests: 5 * (5*keys + 3*limit*keys/100), Windows: 5, Seed: 1}
			r := replay(t, w, accuracy.NewContest(sketchlimit.Config{
				Limit: limit, Window: time.Minute, Keys: keys, FalseDenialRate: rate, Seed: 1,
			}))
			require.Zero(t, r.OverAdmissions)
			require.LessOrEqual(t, r.InnocentFalseDenials, testkit.MostFalseDenials(r.InnocentRequests, rate), "limit %d at %v", limit, rate)
		}
	}
}

func TestStatsCount(t *testing.T) {
	now := time.Unix(0, 0)
	l := build(t, sketchlimit.Config{Limit: 3, Window: time.Minute, MemoryBytes: 1 << 20, Clock: func() time.Time { return now }})
	require.Equal(t, sketchlimit.Stats{}, l.Stats())
	for i := range 40_000 {
		l.AllowN(fmt.Sprint(i%20_000), 2)
	}
	s := l.Stats()
	require.EqualValues(t, 40_000, s.Admitted)
	require.EqualValues(t, 40_000, s.Denied)
	require.InEpsilon(t, 20_000, s.DistinctKeys, 0.02)
	require.Zero(t, s.PreviousDistinctKeys)
	// Each key marks its first unit in its doorkeeper, and the second one in a cell of each row.
	plan := l.Plan()
	marks := float64(20_000*plan.BloomProbes) / float64(plan.Shards*plan.BloomBytes*8)
	require.InEpsilon(t, 1-math.Exp(-marks), s.BloomFill, 0.05)
	require.InEpsilon(t, 1-math.Exp(-20_000/float64(plan.Shards*plan.Width)), s.SketchFill, 0.02)
	now = now.Add(time.Minute)
	turned := l.Stats()
	require.InEpsilon(t, s.DistinctKeys, turned.PreviousDistinctKeys, 1e-9)
	require.Zero(t, turned.DistinctKeys)
	require.Zero(t, turned.BloomFill)
	require.Zero(t, turned.SketchFill)
	require.Zero(t, turned.Rotations, "no decision has seen the new generation")
	l.Allow("k")
	require.EqualValues(t, 1, l.Stats().Rotations)
	require.InEpsilon(t, s.DistinctKeys, l.Stats().PreviousDistinctKeys, 1e-9)
	now = now.Add(time.Hour)
	require.Zero(t, l.Stats().PreviousDistinctKeys)
	l.Allow("k")
	require.EqualValues(t, 2, l.Stats().Rotations)
}

// Keys that stay heavy from one generation to the next are counted in both.
func TestStatsCountHeavyKeys(t *testing.T) {
	now := time.Unix(0, 0)
	l := build(t, sketchlimit.Config{Limit: 100, Window: time.Minute, MemoryBytes: 1 << 20, Clock: func() time.Time { return now }})
	for range 3 {
		for i := range 10_000 {
			require.True(t, l.AllowN(fmt.Sprint(i), 30))
		}
		require.InEpsilon(t, 10_000, l.Stats().DistinctKeys, 0.03)
		now = now.Add(time.Minute)
	}
	require.InEpsilon(t, 10_000, l.Stats().PreviousDistinctKeys, 0.03)
}

// variant is a fixed-window limiter over one sketch of 8-bit cells, with parts that
// can be exchanged for broken ones.
type variant struct {
	cells      [4][]uint8
	limit      int
	generation int64
	row        func(h uint64, row int) uint64
	raise      func(cells *[4]*uint8, least, n uint8)
}

func newVariant(bytes, limit int) *variant {
	v := &variant{limit: limit, row: independentRows, raise: raiseToMinimumPlusN}
	for r := range v.cells {
		v.cells[r] = make([]uint8, bytes/4)
	}
	return v
}

func (v *variant) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	if g := now.Unix() / 60; g != v.generation {
		v.generation = g
		for r := range v.cells {
			clear(v.cells[r])
		}
	}
	h := xxhash.Sum64String(key)
	var cells [4]*uint8
	least := uint8(255)
	for r := range cells {
		cells[r] = &v.cells[r][v.row(h, r)%uint64(len(v.cells[r]))]
		least = min(least, *cells[r])
	}
	d := sketchlimit.Decision{Limit: v.limit, Allowed: int(least)+n <= v.limit, Remaining: max(v.limit-int(least), 0)}
	if d.Allowed {
		v.raise(&cells, least, uint8(n))
		d.Remaining -= n
	}
	return d
}

func independentRows(h uint64, row int) uint64 {
	h += uint64(row) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	return (h ^ h>>27) * 0x94d049bb133111eb >> 40
}

// correlatedRows is what a popular cache does: the hash with a seed for each row, and
// the low bits of that. Keys that share them meet in every row.
func correlatedRows(h uint64, row int) uint64 {
	return h ^ [4]uint64{0x12ab, 0x9f31, 0x77c5, 0x4e08}[row]
}

func raiseToMinimumPlusN(cells *[4]*uint8, least, n uint8) {
	for _, c := range cells {
		*c = max(*c, least+n)
	}
}

// raiseLeastByN is how two published limiters read "conservative update": cells that
// stand at the minimum get n, the others nothing. A cell between minimum and
// minimum + n is then below the key's count.
func raiseLeastByN(cells *[4]*uint8, least, n uint8) {
	for _, c := range cells {
		if *c == least {
			*c += n
		}
	}
}

// The measurements above can fail: a sound variant passes them, and each of the
// published mistakes does not. (Read-then-add is raced in TestReadThenAddOverAdmits.)
func TestBrokenVariantsAreFound(t *testing.T) {
	w := steadyState(1)["attack"]
	w.Cost = 3
	w.Requests /= 2
	contest := func(v *variant) *accuracy.Result {
		return replay(t, w, accuracy.Contest{
			Limit: 100, Window: time.Minute,
			Limiter: func(func() time.Time) (accuracy.Limiter, error) { return v, nil },
			Oracle:  func() (exact.Limiter, error) { return exact.NewFixedWindow(100, time.Minute) },
		})
	}
	passes := func(r *accuracy.Result) bool {
		return r.OverAdmissions == 0 && r.InnocentFalseDenials <= testkit.MostFalseDenials(r.InnocentRequests, 5e-6)
	}
	const bytes = 1 << 18 / testkit.Slowdown // a power of two, so that the remainder of a row is its low bits
	sound := newVariant(bytes, 100)
	require.True(t, passes(contest(sound)))

	correlated := newVariant(bytes, 100)
	correlated.row = correlatedRows
	r := contest(correlated)
	require.False(t, passes(r))
	require.Zero(t, r.OverAdmissions, "correlated rows err to the safe side")

	under := newVariant(bytes, 100)
	under.raise = raiseLeastByN
	r = contest(under)
	require.False(t, passes(r))
	require.NotZero(t, r.OverAdmissions)
}

// Abusers who come in the midst of a window must not carry light keys to the limit: the table of heavy keys has
// room for them, whatever light keys have read until then.
func TestAbusersWhoComeLate(t *testing.T) {
	const keys = 20_000 / testkit.Slowdown
	for _, c := range []sketchlimit.Config{
		{Limit: 20}, {Limit: 100}, {Limit: 1000},
		{Limit: 100, Algorithm: sketchlimit.FixedWindow}, {Limit: 1000, Algorithm: sketchlimit.FixedWindow},
	} {
		now := time.Unix(0, 0)
		c.Window, c.Keys, c.Seed, c.Clock = time.Minute, keys, 1, func() time.Time { return now }
		l := build(t, c)
		r := rand.New(rand.NewPCG(1, 2))
		used, denied := make([]int, keys), 0 // of light keys in the window, by what was admitted
		send := func(from, to float64, light, abusive int) {
			all := light + abusive
			for i := range all {
				now = time.Unix(0, int64((from+(to-from)*float64(i)/float64(all))*float64(time.Minute)))
				if r.IntN(all-i) < abusive {
					abusive--
					l.Allow(fmt.Sprint("abuser ", r.IntN(keys/100)))
					continue
				}
				key := r.IntN(keys)
				allowed := l.Allow(fmt.Sprint(key))
				if allowed {
					used[key]++
				} else if 4*used[key] < c.Limit { // with as many in the window before, which fades: below half
					denied++
				}
			}
		}
		send(0, 1, 5*keys, 0)
		clear(used)
		denied = 0
		send(1, 1.5, 5*keys/2, 0)
		send(1.5, 2, 5*keys/2, 3*c.Limit*keys/100)
		require.LessOrEqual(t, uint64(denied), testkit.MostFalseDenials(5*keys, 1e-5), "%v %d", c.Algorithm, c.Limit)
	}
}

// A limiter made for a lowest limit holds its rate there, and not just at Limit.
func TestLowestLimitIsSizedFor(t *testing.T) {
	const keys, probes = 20_000 / testkit.Slowdown, 20_000
	for _, test := range []struct {
		sketchlimit.Config
		requests int // a key
	}{
		{sketchlimit.Config{Limit: 100, LowestLimit: 10}, 3},
		{sketchlimit.Config{Limit: 100, LowestLimit: 10, Algorithm: sketchlimit.FixedWindow}, 3},
		{sketchlimit.Config{Limit: 1000, LowestLimit: 50}, 3},
		{sketchlimit.Config{Limit: 1000, LowestLimit: 5}, 3},
		{sketchlimit.Config{Limit: 1000, LowestLimit: 1}, 1},
		{sketchlimit.Config{Limit: 100, LowestLimit: 1, Algorithm: sketchlimit.FixedWindow}, 1},
		{sketchlimit.Config{Limit: 100, LowestLimit: 1, Algorithm: sketchlimit.TokenBucket}, 1},
		{sketchlimit.Config{Limit: 100, LowestLimit: 10, SubWindows: 3}, 3},
	} {
		c := test.Config
		now := time.Unix(0, 0)
		c.Window, c.Keys, c.Seed, c.Clock = time.Minute, keys, 1, func() time.Time { return now }
		l := build(t, c)
		denied := 0
		for window := range 2 {
			for range test.requests {
				for key := range keys {
					l.Do(sketchlimit.Request{Key: fmt.Sprint(key), Limit: c.LowestLimit})
				}
			}
			for key := range keys / 100 {
				l.AllowN(fmt.Sprint("abuser ", key), c.Limit)
			}
			for key := range probes {
				if !l.Do(sketchlimit.Request{Time: now, Key: fmt.Sprint("fresh ", window, key), Limit: c.LowestLimit, Peek: true}).Allowed {
					denied++
				}
			}
			now = now.Add(3 * time.Minute / 2)
		}
		require.LessOrEqual(t, uint64(denied), testkit.MostFalseDenials(2*probes, 1e-5), "%v %d under %d", c.Algorithm, c.LowestLimit, c.Limit)
	}
}
