package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// ask is a question for a key and n units.
func ask(limiter int, key string, n int) sketchlimit.Ask {
	return sketchlimit.Ask{Limiter: limiter, Request: sketchlimit.Request{Key: key, N: n, Time: time.Unix(0, 0)}}
}

func TestDoEachSteps(t *testing.T) {
	const s = time.Second
	g := group(t, fixed(t, 3, s), fixed(t, 5, 10*s), fixed(t, 9, 100*s))
	look := ask(2, "z", 1)
	look.Request.Peek = true
	later := ask(0, "a", 1)
	later.Request.Time = time.Unix(1, 0)
	low := ask(0, "low", 1)
	low.Request.Limit = 1
	for i, c := range []struct {
		asks    []sketchlimit.Ask
		allowed bool
		by      int
		want    string // of each ask: what is left, ! if it refuses, and how long for
	}{
		{[]sketchlimit.Ask{ask(0, "a", 2), ask(1, "x", 1), ask(2, "z", 3)}, true, 0, "1 4 6"},
		{[]sketchlimit.Ask{ask(2, "z", 1), ask(0, "a", 2), ask(1, "x", 1)}, false, 0, "6 !1 1s 4"},
		{[]sketchlimit.Ask{ask(2, "z", 7), ask(1, "x", 5), ask(0, "a", 1)}, false, 2, "!6 1m40s !4 10s 1"},
		{[]sketchlimit.Ask{ask(2, "z", 0), ask(1, "x", 6), ask(0, "a", 1)}, false, 1, "6 !4 never 1"},
		{[]sketchlimit.Ask{ask(2, "z", -1), ask(1, "y", 1)}, false, 2, "!6 never 5"},
		{[]sketchlimit.Ask{ask(1, "y", 2), ask(0, "a", 1)}, true, 0, "3 0"},
		{[]sketchlimit.Ask{ask(1, "x", 4), ask(1, "y", 3)}, true, 1, "0 0"}, // two keys of one limiter
		{[]sketchlimit.Ask{ask(1, "w", 1), ask(1, "y", 1)}, false, 1, "5 !0 10s"},
		{[]sketchlimit.Ask{look, ask(1, "w", 1)}, true, 1, "6 5"},
		{[]sketchlimit.Ask{ask(1, "y", 1), look}, false, 1, "!0 10s 6"},
		{[]sketchlimit.Ask{ask(2, "v", 1), later}, true, 0, "8 2"}, // each at its own time
		{[]sketchlimit.Ask{low, ask(2, "v", 1)}, false, 0, "!0 never 8"},
		{[]sketchlimit.Ask{ask(2, "z", 6)}, true, 2, "0"},
		{[]sketchlimit.Ask{ask(2, "z", 1)}, false, 2, "!0 1m40s"},
		{nil, true, 0, ""},
	} {
		d := g.DoEach(c.asks)
		require.Equal(t, c.allowed, d.Allowed, "step %d", i)
		require.Equal(t, c.by, d.By, "step %d", i)
		got := ""
		for _, a := range c.asks {
			require.Equal(t, a.Limiter, a.Decision.By)
			if a.Limiter == c.by && (a.Decision.Allowed || !c.allowed) && a.Decision.Remaining == d.Remaining {
				require.Equal(t, a.Decision, d, "step %d", i)
			}
			if got != "" {
				got += " "
			}
			wait := a.Decision.RetryAfter.String()
			if a.Decision.RetryAfter == sketchlimit.Never {
				wait = "never"
			}
			if a.Decision.Allowed {
				got += fmt.Sprint(a.Decision.Remaining)
			} else {
				got += fmt.Sprint("!", a.Decision.Remaining, " ", wait)
			}
		}
		require.Equal(t, c.want, got, "step %d", i)
	}
}

// A ladder of all algorithms decides as exact limiters do that are asked one after
// another under one lock.
func TestDoEachAgreesWithTheExactLadder(t *testing.T) {
	const window = 1200 * ms
	configs := []sketchlimit.Config{
		{Limit: 12, Window: window, Algorithm: sketchlimit.TokenBucket, Burst: 5},
		{Limit: 18, Window: window, Algorithm: sketchlimit.FixedWindow},
		{Limit: 30, Window: 2 * window},
	}
	var limiters []sketchlimit.Member
	var oracles []exact.Limiter
	for _, c := range configs {
		limiters = append(limiters, build(t, c))
	}
	gcra, err := exact.NewGCRA(12, window, 5)
	require.NoError(t, err)
	fixed, err := exact.NewFixedWindow(18, window)
	require.NoError(t, err)
	sliding, err := exact.NewSlidingWindow(30, 2*window)
	require.NoError(t, err)
	oracles = append(oracles, gcra, fixed, sliding)
	g := group(t, limiters...)
	r := rand.New(rand.NewPCG(1, 2))
	now, refused, admitted := time.Unix(1_700_000_000, 0), [3]int{}, 0
	for i := range 40_000 {
		now = now.Add(time.Duration(r.Int64N(int64(20 * ms))))
		key := r.IntN(8) // an address, half of it its network, a quarter of it the network of that
		var asks []sketchlimit.Ask
		for _, rung := range r.Perm(3)[:1+r.IntN(3)] {
			asks = append(asks, ask(rung, fmt.Sprint(key>>rung), 1+r.IntN(4)/3*r.IntN(4)))
			asks[len(asks)-1].Request.Time = now
		}
		all, longest := true, time.Duration(0)
		for _, a := range asks {
			d := oracles[a.Limiter].PeekAt(now, a.Request.Key, a.Request.N)
			all, longest = all && d.Allowed, max(longest, d.RetryAfter)
		}
		got := g.DoEach(asks)
		require.Equal(t, all, got.Allowed, "request %d", i)
		require.Equal(t, longest, got.RetryAfter, "request %d", i)
		for _, a := range asks {
			want := oracles[a.Limiter].PeekAt(now, a.Request.Key, a.Request.N)
			if all {
				want = oracles[a.Limiter].TakeAt(now, a.Request.Key, a.Request.N)
				require.LessOrEqual(t, got.Remaining, want.Remaining)
			}
			want.Limit, want.By = configs[a.Limiter].Limit, a.Limiter
			require.Equal(t, want, a.Decision, "request %d, limiter %d", i, a.Limiter)
		}
		if all {
			admitted++
		} else {
			refused[got.By]++
		}
	}
	require.Greater(t, admitted, 1000)
	for i, n := range refused {
		require.Greater(t, n, 500, "limiter %d", i)
	}
}

// Ladders that race, through groups and asks in all orders and with two keys of one
// limiter, neither wait for each other for ever nor charge a request in part: each key
// has used what its admitted requests cost, and no more.
func TestDoEachUnderConcurrency(t *testing.T) {
	const keys = 50
	limits := []int{40, 100, 300}
	limiters := make([]*sketchlimit.Limiter, len(limits))
	for i, limit := range limits {
		limiters[i] = fixed(t, limit, time.Hour)
	}
	orders := [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}}
	groups := make([]*sketchlimit.Group, len(orders))
	for i, order := range orders {
		groups[i] = group(t, limiters[order[0]], limiters[order[1]], limiters[order[2]])
	}
	var used [3][keys]atomic.Int64 // by admitted requests
	var refusals atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			order := orders[i%len(orders)]
			for range 3000 {
				key := r.IntN(keys)
				var asks []sketchlimit.Ask
				for place, rung := range order {
					asks = append(asks, ask(place, fmt.Sprint(key/(1+2*rung)), 1+r.IntN(2)))
				}
				asks = append(asks, ask(r.IntN(3), "another"+fmt.Sprint(key), 1))
				r.Shuffle(len(asks), func(a, b int) { asks[a], asks[b] = asks[b], asks[a] })
				if !groups[i%len(orders)].DoEach(asks).Allowed {
					refusals.Add(1)
					continue
				}
				for _, a := range asks {
					var key int
					if n, _ := fmt.Sscan(a.Request.Key, &key); n == 1 {
						used[order[a.Limiter]][key].Add(int64(a.Request.N))
					}
				}
			}
		})
	}
	wg.Wait()
	require.Greater(t, refusals.Load(), int64(10_000))
	for i, l := range limiters {
		for key := range keys {
			d := l.Do(sketchlimit.Request{Key: fmt.Sprint(key), Peek: true, Time: time.Unix(0, 0)})
			require.EqualValues(t, limits[i]-d.Remaining, used[i][key].Load(), "limiter %d, key %d", i, key)
		}
	}
}

// Asking one after another is what the test above would see: it charges an address for
// what its network refuses.
func TestOneAfterAnotherChargesTheInnerRungs(t *testing.T) {
	address, network := fixed(t, 10, time.Hour), fixed(t, 5, time.Hour)
	for i := range 10 {
		if address.TakeAt(time.Unix(0, 0), "address", 1).Allowed {
			require.Equal(t, i < 5, network.TakeAt(time.Unix(0, 0), "network", 1).Allowed)
		}
	}
	require.EqualValues(t, 10, address.Stats().Admitted)
}

func TestDoEachOfManyLimiters(t *testing.T) {
	const many = 40
	var limiters []sketchlimit.Member
	for i := range many {
		limiters = append(limiters, fixed(t, 10+i, time.Hour))
	}
	g := group(t, limiters...)
	asks := make([]sketchlimit.Ask, many)
	for i := range asks {
		asks[i] = ask(many-1-i, fmt.Sprint(i), 10)
	}
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 10, ResetAfter: time.Hour}, g.DoEach(asks))
	d := g.DoEach(asks)
	require.False(t, d.Allowed)
	for i, a := range asks {
		require.Equal(t, many-1-i, a.Decision.Remaining)
	}
	require.True(t, g.TakeAt(time.Unix(0, 0), "one key", 10).Allowed, "of all limiters")
	require.False(t, g.TakeAt(time.Unix(0, 0), "one key", 1).Allowed)
}

func TestDoEachAllocatesNothing(t *testing.T) {
	var all []sketchlimit.Member
	for i := range 8 {
		all = append(all, fixed(t, 10*(i+1), time.Duration(i+1)*time.Second))
	}
	g, key := group(t, all...), []byte("k")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		var asks [8]sketchlimit.Ask
		for i := range asks {
			asks[i].Limiter, asks[i].Request = 7-i, sketchlimit.Request{Bytes: key}
		}
		g.DoEach(asks[:])
		g.DoEach(asks[:1])
		asks[3].Request.Peek = true
		g.DoEach(asks[:])
	}))
}

// Keys of one limiter that crowd one shard are charged in one step as well. What the
// first of them leaves to the second may be less than it was told, but no key ever gets
// more than its limit.
func TestDoEachOfOneLimiterNeverOverAdmits(t *testing.T) {
	const limit, keys = 20, 60
	crowded := sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 3, Depth: 4, Width: 64, CellBits: 8,
		HeavyEntries: 16, PromoteAt: 16}
	for seed := range uint64(20) {
		l := build(t, sketchlimit.Config{
			Limit: limit, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, Plan: &crowded, Seed: seed + 1,
		})
		g := group(t, l, fixed(t, 1000, time.Minute))
		r := rand.New(rand.NewPCG(seed, 1))
		var used [keys]int
		sum := 0
		for range 1000 {
			pair := r.Perm(keys)[:2]
			asks := []sketchlimit.Ask{ask(0, fmt.Sprint(pair[0]), 1+r.IntN(3)), ask(1, "one", 1), ask(0, fmt.Sprint(pair[1]), 1)}
			d := g.DoEach(asks)
			require.Equal(t, d.Allowed, asks[0].Decision.Allowed && asks[1].Decision.Allowed && asks[2].Decision.Allowed)
			if d.Allowed {
				used[pair[0]] += asks[0].Request.N
				used[pair[1]]++
				sum += asks[0].Request.N + 1
			}
		}
		require.LessOrEqual(t, slices.Max(used[:]), limit)
		require.Greater(t, sum, 100)
		require.GreaterOrEqual(t, l.Stats().Admitted, uint64(sum))
	}
}
