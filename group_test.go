package sketchlimit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

const ms = time.Millisecond

func group(t testing.TB, limiters ...sketchlimit.Member) *sketchlimit.Group {
	t.Helper()
	g, err := sketchlimit.NewGroup(limiters...)
	require.NoError(t, err)
	return g
}

func fixed(t testing.TB, limit int, window time.Duration) *sketchlimit.Limiter {
	return build(t, sketchlimit.Config{Limit: limit, Window: window, Algorithm: sketchlimit.FixedWindow})
}

func TestBadGroupsAreNamed(t *testing.T) {
	a, b := fixed(t, 1, time.Second), fixed(t, 2, time.Second)
	for want, limiters := range map[string][]sketchlimit.Member{
		"Group of 0 limiters, must be at least 1":                  {},
		"limiter 1 of the Group is nil":                            {a, nil},
		"limiter 0 of the Group is nil":                            {(*sketchlimit.Limiter)(nil), a},
		"limiter 2 of the Group is nil":                            {a, b, sketchlimit.Global(nil)},
		"limiter 1 of the Group is limiter 0, must be another one": {a, sketchlimit.Global(a)},
		"limiter 2 of the Group is limiter 0, must be another one": {a, b, a},
	} {
		_, err := sketchlimit.NewGroup(limiters...)
		require.EqualError(t, err, "sketchlimit: "+want)
	}
}

// A group goes on while one of its limiters grows. No key gets more than the exact
// limits allow, and what one limiter admits the other does.
func TestGroupWithALimiterThatGrows(t *testing.T) {
	const limit, keys = 5, 1000
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	grows := build(t, sketchlimit.Config{Limit: limit, Window: time.Second, Algorithm: sketchlimit.FixedWindow, Keys: 100, MaxMemoryBytes: 1 << 20, Clock: clock})
	other := build(t, sketchlimit.Config{Limit: limit + 1, Window: time.Second, Algorithm: sketchlimit.FixedWindow, Keys: 2 * keys, Clock: clock})
	g, small := group(t, grows, other), grows.MemoryBytes()
	for window := 0; grows.MemoryBytes() < 4*small; window++ {
		require.Less(t, window, 1000, "it never grows")
		now = time.Unix(int64(window), 0)
		admitted := make([]int, keys)
		for i := range 2 * limit * keys {
			if g.Allow(strconv.Itoa(i % keys)) {
				admitted[i%keys]++
			}
		}
		require.LessOrEqual(t, slices.Max(admitted), limit, "window %d", window)
	}
	require.Equal(t, grows.Stats().Admitted, other.Stats().Admitted)
}

func TestGroupSteps(t *testing.T) {
	second, hour := fixed(t, 3, time.Second), fixed(t, 5, time.Hour)
	g := group(t, second, hour)
	for i, s := range []struct {
		at   time.Duration
		n    int
		by   int
		want sketchlimit.Decision
	}{
		{0, 2, 0, sketchlimit.Decision{Allowed: true, Limit: 3, Remaining: 1, ResetAfter: time.Second}},
		{0, 2, 0, sketchlimit.Decision{Limit: 3, Remaining: 1, RetryAfter: time.Second, ResetAfter: time.Second}},
		{0, 1, 0, sketchlimit.Decision{Allowed: true, Limit: 3, Remaining: 0, ResetAfter: time.Second}},
		{time.Second, 4, 0, sketchlimit.Decision{Limit: 3, Remaining: 3, RetryAfter: sketchlimit.Never}},
		{time.Second, 3, 1, sketchlimit.Decision{Limit: 5, Remaining: 2, RetryAfter: time.Hour - time.Second, ResetAfter: time.Hour - time.Second}},
		{time.Second, 2, 1, sketchlimit.Decision{Allowed: true, Limit: 5, Remaining: 0, ResetAfter: time.Hour - time.Second}},
		{time.Second, 2, 1, sketchlimit.Decision{Limit: 5, Remaining: 0, RetryAfter: time.Hour - time.Second, ResetAfter: time.Hour - time.Second}}, // both refuse
		{time.Second, 0, 0, sketchlimit.Decision{Limit: 3, Remaining: 1, RetryAfter: sketchlimit.Never, ResetAfter: time.Second}},
		{time.Second, math.MaxInt, 0, sketchlimit.Decision{Limit: 3, Remaining: 1, RetryAfter: sketchlimit.Never, ResetAfter: time.Second}},
		{time.Hour, 3, 0, sketchlimit.Decision{Allowed: true, Limit: 3, Remaining: 0, ResetAfter: time.Second}},
	} {
		d := g.TakeAt(time.Unix(0, int64(s.at)), "k", s.n)
		s.want.By = s.by
		require.Equal(t, s.want, d, "step %d", i)
	}
	require.True(t, g.Allow("another"))
	require.Equal(t, second.Stats().Admitted, hour.Stats().Admitted)
}

// A group of all algorithms is the conjunction of the exact ones.
func TestGroupAgreesWithTheExactAlgorithms(t *testing.T) {
	testkit.OneGoroutine(t)
	const window = 1200 * ms
	configs := []sketchlimit.Config{
		{Limit: 12, Window: window, Algorithm: sketchlimit.TokenBucket, Burst: 5},
		{Limit: 18, Window: 2 * window, Algorithm: sketchlimit.FixedWindow},
		{Limit: 20, Window: 2 * window},
	}
	gcra, err := exact.NewGCRA(12, window, 5)
	require.NoError(t, err)
	fixed, err := exact.NewFixedWindow(18, 2*window)
	require.NoError(t, err)
	sliding, err := exact.NewSlidingWindow(20, 2*window)
	require.NoError(t, err)
	oracles := []exact.Limiter{gcra, fixed, sliding}
	var limiters []sketchlimit.Member
	for _, c := range configs {
		limiters = append(limiters, build(t, c))
	}
	g := group(t, limiters...)
	r := rand.New(rand.NewPCG(1, 2))
	now, refused := time.Unix(1_700_000_000, 0), [3]int{}
	for i := range 30_000 {
		now = now.Add(time.Duration(r.Int64N(int64(60 * ms))))
		key, n := fmt.Sprint(r.IntN(2)), 1+r.IntN(4)/3*r.IntN(6)
		all, longest := true, time.Duration(0)
		for _, o := range oracles {
			d := o.PeekAt(now, key, n)
			all, longest = all && d.Allowed, max(longest, d.RetryAfter)
		}
		got := g.TakeAt(now, key, n)
		by := got.By
		require.Equal(t, all, got.Allowed, "request %d", i)
		require.Equal(t, longest, got.RetryAfter, "request %d", i)
		if !all {
			refused[by]++
			want := oracles[by].PeekAt(now, key, n)
			want.Limit, want.By = configs[by].Limit, by
			require.Equal(t, want, got, "request %d", i)
			continue
		}
		least := math.MaxInt
		for _, o := range oracles {
			least = min(least, o.TakeAt(now, key, n).Remaining)
		}
		require.Equal(t, least, got.Remaining)
	}
	for i, n := range refused {
		require.Greater(t, n, 100, "limiter %d", i)
	}
}

// together lets 16 goroutines take a key's units of both limiters, by way of take, while
// the clock goes on by 150 seconds. It returns how many units both admitted, in all and,
// where the clock did not turn meanwhile, in each second.
func together(take func(goroutine int, now time.Time) bool) (admitted int64, seconds [151]int64) {
	var clock, sum atomic.Int64
	var in [151]atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for range 2000 {
				if g == 0 { // 13 a second, so that a limit of 10 is met by this one alone
					clock.Add(int64(75 * ms))
				}
				now := clock.Load()
				if take(g, time.Unix(0, now)) {
					sum.Add(1)
					if second := now / int64(time.Second); second == clock.Load()/int64(time.Second) {
						in[second].Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range in {
		seconds[i] = in[i].Load()
	}
	return sum.Load(), seconds
}

// 10 a second and 1000 an hour: neither is passed, and what one refuses the other has not
// counted. Groups that name them in either order do not wait for each other for ever.
func TestGroupUnderConcurrency(t *testing.T) {
	second, hour := fixed(t, 10, time.Second), fixed(t, 1000, time.Hour)
	groups := []*sketchlimit.Group{group(t, second, hour), group(t, hour, second)}
	n, seconds := together(func(goroutine int, now time.Time) bool {
		return groups[goroutine%2].TakeAt(now, "k", 1).Allowed
	})
	require.EqualValues(t, 1000, n, "all of the hour's, as ten a second are asked for in more than a hundred")
	require.LessOrEqual(t, slices.Max(seconds[:]), int64(10))
	require.EqualValues(t, n, second.Stats().Admitted)
	require.EqualValues(t, n, hour.Stats().Admitted)
}

// One after the other is what the test above would see.
func TestOneAfterAnotherConsumesWhatIsRefused(t *testing.T) {
	second, hour := fixed(t, 10, time.Second), fixed(t, 1000, time.Hour)
	n, _ := together(func(_ int, now time.Time) bool {
		return second.TakeAt(now, "k", 1).Allowed && hour.TakeAt(now, "k", 1).Allowed
	})
	require.NotEqualValues(t, n, second.Stats().Admitted)
}

func TestGroupKeys(t *testing.T) {
	g := group(t, fixed(t, 3, time.Second), fixed(t, 5, time.Hour))
	four, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")
	for left, take := range []func() sketchlimit.Decision{
		func() sketchlimit.Decision { return g.Do(sketchlimit.Request{Addr: mapped}) },
		func() sketchlimit.Decision { return g.Do(sketchlimit.Request{Bytes: four.AsSlice()}) },
		func() sketchlimit.Decision { return g.Take(string(four.AsSlice()), 1) },
	} {
		d := take()
		require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 3, Remaining: 2 - left, ResetAfter: time.Second}, d)
		require.Zero(t, d.By)
	}
	d := g.Do(sketchlimit.Request{Addr: four})
	require.Equal(t, sketchlimit.Decision{Limit: 3, RetryAfter: time.Second, ResetAfter: time.Second}, d)
	require.Zero(t, d.By)
}

func TestGroupAllocatesNothing(t *testing.T) {
	var all []sketchlimit.Member
	for i := range 8 {
		all = append(all, fixed(t, 10*(i+1), time.Duration(i+1)*time.Second))
	}
	g, now := group(t, all...), time.Unix(0, 0)
	key, addr := []byte("k"), netip.MustParseAddr("192.0.2.1")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		g.Allow("k")
		g.Take("k", 1)
		g.Do(sketchlimit.Request{Bytes: key})
		g.Do(sketchlimit.Request{Addr: addr})
		now = now.Add(time.Second)
		g.TakeAt(now, "k", 2)
	}))
}

// Two a second for each key, and five for all together, in whatever form their keys
// come: what one limiter refuses, the other does not count.
func TestGroupWithAGlobalLimiter(t *testing.T) {
	for name, build := range map[string]func(limit int) *sketchlimit.Limiter{
		"windows": func(limit int) *sketchlimit.Limiter { return fixed(t, limit, time.Second) },
		"buckets": func(limit int) *sketchlimit.Limiter {
			return build(t, sketchlimit.Config{Limit: limit, LowestLimit: 1, Window: time.Second, Algorithm: sketchlimit.TokenBucket})
		},
	} {
		each, all := build(2), build(5)
		g, now := group(t, each, sketchlimit.Global(all)), time.Unix(0, 0)
		take := func(want string, by int, r sketchlimit.Request) {
			t.Helper()
			r.Time = now
			d := g.Do(r)
			require.Equal(t, want, fmt.Sprint(d.Allowed, d.Limit, d.Remaining), name)
			require.Equal(t, by, d.By, name)
			require.Equal(t, d.Allowed, d.RetryAfter == 0, name)
		}
		take("true 2 1", 0, sketchlimit.Request{Key: "ann"})
		take("true 2 0", 0, sketchlimit.Request{Bytes: []byte("ann")})
		take("false 2 0", 0, sketchlimit.Request{Key: "ann"})
		take("true 2 0", 0, sketchlimit.Request{Addr: netip.MustParseAddr("192.0.2.1"), N: 2})
		take("false 5 1", 1, sketchlimit.Request{Key: "bob", N: 2})
		take("true 5 1", 1, sketchlimit.Request{Key: "bob", Peek: true}) // of whom nothing was counted
		take("false 0 0", 0, sketchlimit.Request{Key: "bob", Limit: -1})
		take("true 5 0", 1, sketchlimit.Request{Key: "bob"})
		take("false 5 0", 1, sketchlimit.Request{Key: "new"})
		asks := []sketchlimit.Ask{
			{Limiter: 0, Request: sketchlimit.Request{Key: "new", Time: now}},
			{Limiter: 1, Request: sketchlimit.Request{Key: "new", Limit: 1, Time: now}},
		}
		require.False(t, g.DoEach(asks).Allowed, name)
		require.Equal(t, 5, asks[1].Decision.Limit, name)
		require.False(t, g.DoEach(asks[1:]).Allowed, name)
		require.Equal(t, sketchlimit.Global(all).Do(sketchlimit.Request{Key: "x", Time: now}).RetryAfter, all.TakeAt(now, "", 1).RetryAfter)
		require.Zero(t, all.Stats().TooLow, name)
		now = now.Add(time.Second)
		take("true 2 1", 0, sketchlimit.Request{Key: "new"})
	}
}

// 200,000 requests of as many keys in a second, of many goroutines: 50,000 pass, and
// each of them counts in both.
func TestGlobalLimitUnderConcurrency(t *testing.T) {
	each := build(t, sketchlimit.Config{Limit: 10, Window: time.Second, MemoryBytes: 8 << 20, Algorithm: sketchlimit.FixedWindow})
	g := group(t, each, sketchlimit.Global(fixed(t, 50_000, time.Second)))
	var admitted atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25_000 {
				if g.TakeAt(time.Unix(0, 0), fmt.Sprint(i, " ", j), 1).Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 50_000, admitted.Load())
	require.EqualValues(t, 50_000, each.Stats().Admitted)
	require.True(t, testing.AllocsPerRun(100, func() { g.Allow("k") }) == 0)
}

// A key that was heavy and then silent for a generation: each limiter of the group
// knows that the silent generation has none of its units, before its shard turns and
// after. Otherwise what the others left in its cells is found out only by the last
// step, when some of the limiters have been charged.
func TestGroupDoesNotHalfConsume(t *testing.T) {
	now := time.Unix(0, 0)
	crowded := sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 3, Depth: 4, Width: 16, CellBits: 8, HeavyEntries: 16, PromoteAt: 16}
	admitted := 0
	for seed := range uint64(300) {
		now = time.Unix(0, 0)
		config := sketchlimit.Config{Window: time.Minute, Plan: &crowded, Seed: seed + 1, Clock: func() time.Time { return now }}
		config.Limit = 100
		first := build(t, config)
		config.Limit = 90
		second := build(t, config)
		group, err := sketchlimit.NewGroup(first, second)
		require.NoError(t, err)

		d := group.Take("heavy", 40)
		require.True(t, d.Allowed)
		now = now.Add(time.Minute)
		for i := range 100 {
			first.Take(fmt.Sprint(i), 15)
			second.Take(fmt.Sprint(i), 15)
		}
		now = now.Add(time.Minute)
		before := [2]int{first.Peek("heavy").Remaining, second.Peek("heavy").Remaining}
		d = group.Take("heavy", 88)
		if d.Allowed {
			admitted++
		}
		for i, l := range []*sketchlimit.Limiter{first, second} {
			left := l.Peek("heavy").Remaining
			if d.Allowed {
				require.LessOrEqual(t, left, before[i]-88, "seed %d, limiter %d", seed, i)
			} else {
				require.Equal(t, before[i], left, "seed %d, limiter %d", seed, i)
			}
		}
	}
	require.Equal(t, 300, admitted, "nothing of its own is left of the heavy key")
}
