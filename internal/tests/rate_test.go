package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// load sends requests of keys of all weights over a window and a half, up to a time.
func load(l *sketchlimit.Limiter, now time.Time, seed uint64, keys, requests, cost int, limits ...int) {
	r := rand.New(rand.NewPCG(seed, 0))
	window := l.Window()
	for i := range requests {
		at := now.Add(-window*3/2 + time.Duration(float64(window)*1.5*float64(i)/float64(requests)))
		key := fmt.Sprint(int(float64(keys) * r.Float64() * r.Float64()))
		l.Do(sketchlimit.Request{Time: at, Key: key, N: 1 + r.IntN(cost), Limit: limits[r.IntN(len(limits))]})
	}
}

// share lets a limiter hold its limit together with another one, and tells it what that
// has admitted.
func share(t testing.TB, l, other *sketchlimit.Limiter) {
	mine, err := l.Share()
	require.NoError(t, err)
	theirs, err := other.Share()
	require.NoError(t, err)
	(&node{other, theirs, map[int64][]uint64{}}).tell(t, &node{l, mine, nil})
}

// asked returns requests, costs and limits, that new keys are denied at about the given
// rates if there are any.
func asked(l *sketchlimit.Limiter, limit, lowest, most int) (requests [][2]int) {
	add := func(n, limit int) {
		request := [2]int{n, limit}
		if rate := l.FalseDenialRate(n, limit); rate > 1e-4 && rate < 0.999 && !slices.Contains(requests, request) {
			requests = append(requests, request)
		}
	}
	for _, target := range []float64{1e-3, 0.05, 0.5} {
		// The rate rises with the cost, and falls with the limit.
		add(1+sort.Search(most, func(n int) bool { return l.FalseDenialRate(1+n, limit) >= target }), limit)
		add(1, limit-sort.Search(limit-lowest, func(less int) bool { return l.FalseDenialRate(1, limit-less) >= target }))
	}
	return requests
}

// The live rate is what keys that were never seen meet at that instant, for every kind
// of limiter and for requests of all costs and limits. In each of some sixty states
// 400,000 such keys ask; the number denied lies within four standard deviations of what
// is told. That would fail by chance in one run of 250, were not all of it drawn from
// fixed seeds.
func TestLiveRateIsTheRateOfNewKeys(t *testing.T) {
	testkit.Computes(t)
	const keys, probes = 20_000, 400_000 / testkit.Divisor
	now := time.Unix(0, int64(150*time.Second)) // all kinds have several generations then, and are half through one
	states := 0
	for name, c := range map[string]struct {
		config sketchlimit.Config
		cost   int
		load   int // requests a key; 0: 3
	}{
		"sliding": {config: sketchlimit.Config{Limit: 100, LowestLimit: 1, MemoryBytes: 16 << 10}},
		"fixed":   {config: sketchlimit.Config{Limit: 100, LowestLimit: 1, MemoryBytes: 8 << 10, Algorithm: sketchlimit.FixedWindow}},
		"light":   {config: sketchlimit.Config{Limit: 5, LowestLimit: 1, MemoryBytes: 100 << 10}},
		"wide cells": {config: sketchlimit.Config{Limit: 300, LowestLimit: 10,
			Plan: &sketchlimit.Plan{Shards: 4, BloomBytes: 1024, BloomProbes: 3, Depth: 4, Width: 256, CellBits: 16}}, cost: 3},
		"two rows": {config: sketchlimit.Config{Limit: 100, LowestLimit: 1,
			Plan: &sketchlimit.Plan{Shards: 2, BloomBytes: 1024, BloomProbes: 2, Depth: 2, Width: 2048, CellBits: 8, HeavyEntries: 512, PromoteAt: 16}}},
		"costs":       {config: sketchlimit.Config{Limit: 100_000, LowestLimit: 10_000, MemoryBytes: 128 << 10}, cost: 4000},
		"sub-windows": {config: sketchlimit.Config{Limit: 100, LowestLimit: 1, MemoryBytes: 60 << 10, SubWindows: 3}},
		"limit 1":     {config: sketchlimit.Config{Limit: 1, MemoryBytes: 32 << 10}},
		"bucket":      {config: sketchlimit.Config{Limit: 100, LowestLimit: 1, MemoryBytes: 32 << 10, Algorithm: sketchlimit.TokenBucket}, load: 40},
		"bucket with a burst": {config: sketchlimit.Config{Limit: 60, LowestLimit: 10, Burst: 10, MemoryBytes: 32 << 10,
			Algorithm: sketchlimit.TokenBucket}, load: 20},
		"growing":             {config: sketchlimit.Config{Limit: 100, LowestLimit: 1, MemoryBytes: 16 << 10, MaxMemoryBytes: 1 << 20}},
		"shared, sliding":     {config: sketchlimit.Config{Limit: 100, LowestLimit: 1, MemoryBytes: 32 << 10}},
		"shared, fixed":       {config: sketchlimit.Config{Limit: 100, LowestLimit: 1, MemoryBytes: 16 << 10, Algorithm: sketchlimit.FixedWindow}},
		"shared, sub-windows": {config: sketchlimit.Config{Limit: 100, LowestLimit: 1, MemoryBytes: 60 << 10, SubWindows: 3}},
		"shared, wide cells":  {config: sketchlimit.Config{Limit: 1000, LowestLimit: 10, MemoryBytes: 64 << 10}, cost: 20},
	} {
		t.Run(name, func(t *testing.T) {
			clock := time.Unix(0, 0)
			c.config.Window, c.config.Clock, c.config.Seed = time.Minute, func() time.Time { return clock }, 7
			requests, limit := max(c.load, 3)*keys, c.config.Limit
			l := build(t, c.config)
			switch {
			case strings.HasPrefix(name, "shared"):
				other := build(t, c.config)
				share(t, l, other)
				load(other, now, 2, keys, requests/2, max(1, c.cost), limit)
				load(l, now, 1, keys, requests/2, max(1, c.cost), limit)
				clock = now
				share(t, l, other)
			case c.config.MaxMemoryBytes > 0:
				require.NoError(t, l.Close())
				load(l, now.Add(-10*time.Second), 1, keys, requests, 1, limit)
				require.True(t, resize(l, 24<<10))
				load(l, now, 2, keys, requests/2, 1, limit)
			default:
				load(l, now, 1, keys, requests, max(1, c.cost), limit)
			}
			clock = now
			l.TakeAt(now, "the latest", 1)
			most := limit
			if c.config.Burst > 0 {
				most = c.config.Burst
			}
			for _, ask := range asked(l, limit, max(1, c.config.LowestLimit), most) {
				states++
				told, denied := l.FalseDenialRate(ask[0], ask[1]), 0
				for i := range probes {
					if !l.Do(sketchlimit.Request{Time: now, Key: fmt.Sprint("never seen ", i), N: ask[0], Limit: ask[1], Peek: true}).Allowed {
						denied++
					}
				}
				z := (float64(denied) - probes*told) / math.Sqrt(probes*told*(1-told))
				t.Logf("%d of %d: told %.4g, met %.4g, z %.2f", ask[0], ask[1], told, float64(denied)/probes, z)
				require.LessOrEqual(t, math.Abs(z), 4.0)
			}
			s, lowest := l.Stats(), max(1, c.config.LowestLimit)
			require.Equal(t, l.FalseDenialRate(min(int(math.Ceil(s.MeanCost)), lowest), lowest), s.FalseDenialRate)
		})
	}
	require.GreaterOrEqual(t, states, 50)
}

// What the exact algorithm denies is not denied falsely, and a limit that is too low
// admits nothing.
func TestLiveRateOfRequestsThatNeverPass(t *testing.T) {
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.TokenBucket} {
		l := build(t, sketchlimit.Config{Limit: 10, LowestLimit: 5, Window: time.Minute, Algorithm: a})
		for _, n := range []int{math.MinInt, -1, 0, 11, math.MaxInt} {
			require.Zero(t, l.FalseDenialRate(n, 10))
		}
		require.Zero(t, l.FalseDenialRate(6, 5))
		require.Zero(t, l.FalseDenialRate(10, math.MaxInt))
		require.EqualValues(t, 1, l.FalseDenialRate(1, 4))
		require.Zero(t, l.Stats().TooLow)
	}
}
