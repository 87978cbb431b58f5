package main

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Sized by Keys alone, a limiter denies hardly anybody in ordinary use: one request in
// 100,000 while keys use up to a fifth of their limit, one in 1,000 at two fifths, and
// it does not say that it is outside its plan. At four times that it says so before it
// denies one in 1,000.
func TestOrdinaryUse(t *testing.T) {
	testkit.Computes(t)
	const keys, every = 4000, 2*testkit.Divisor - 1 // one row of 15 by default
	asPlanned, beyond := usual(keys, 40*keys, 1), usual(keys, 40*keys, 2, 4)
	for i, r := range asPlanned.rows() {
		if r.use < 0.1 || r.keys < keys/2 || i%every != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			t.Parallel()
			o, err := r.play(1)
			require.NoError(t, err)
			most := 1e-5
			if r.use > 0.2 {
				most = 1e-3
			}
			require.LessOrEqual(t, o.denied, testkit.MostFalseDenials(o.sent, most))
			require.False(t, o.outside)
		})
	}
	for i, r := range beyond.rows() {
		if r.use < 0.2 || r.keys < keys/2 || i%every != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			t.Parallel()
			o, err := r.play(1)
			require.NoError(t, err)
			require.True(t, o.outside || o.denied <= testkit.MostFalseDenials(o.sent, 1e-3), "%+v", o)
		})
	}
}

// Buckets whose keys send all at once tell when their table is too full.
func TestOutsideByFullTables(t *testing.T) {
	testkit.Computes(t)
	for load, outside := range map[float64]bool{1: false, 2: true} {
		r := row{sketchlimit.TokenBucket, 1, time.Minute, 100, 0.4, 1, 4000, load, "bursts"}
		o, err := r.play(1)
		require.NoError(t, err)
		require.Equal(t, outside, o.unseenRate > 1e-3, "×%g: %+v", load, o)
		require.Equal(t, outside, o.rate() > 1e-3, "×%g: %+v", load, o)
		require.Equal(t, outside, o.outside, "×%g: %+v", load, o)
	}
}

// The audit's interval holds the rate that light keys meet, by ten loads outside the
// plan: of keys that send all at once, where a unit is a large part of the limit,
// beside abusers who get less than they ask for, of requests of several units, of
// abusers alone, on their way up, at low limits, in sub-windows, and of keys at random.
// All ten at full size, by twenty seeds, where a 99.9 % interval misses three of 200
// rows once in a thousand.
func TestAuditedRate(t *testing.T) {
	testkit.Computes(t)
	loads, seeds := 6, uint64(1)
	if testkit.Divisor == 1 {
		loads, seeds = 10, 20
	}
	var missed atomic.Int32
	t.Run("loads", func(t *testing.T) {
		for _, r := range []row{
			{sketchlimit.TokenBucket, 1, time.Minute, 20, 0.2, 1, 2000, 12, "bursts"},
			{sketchlimit.SlidingWindow, 1, time.Minute, 1000, 0.05, 1, 2000, 10, "even"},
			{sketchlimit.TokenBucket, 1, time.Minute, 100, 0.1, 2, 5000, 12, "even"},
			{sketchlimit.SlidingWindow, 1, time.Minute, 100, 0.4, 1, 20_000, 1, "even"},
			{sketchlimit.SlidingWindow, 1, time.Minute, 1000, 0.4, 20, 20_000, 1, "even"},
			{sketchlimit.SlidingWindow, 6, time.Minute, 100, 0.4, 2, 1000, 4, "bursts"},
			{sketchlimit.FixedWindow, 1, time.Minute, 100, 0.4, 1, 5000, 4, "even"},
			{sketchlimit.FixedWindow, 1, time.Minute, 20, 0.4, 1, 5000, 4, "bursts"},
			{sketchlimit.SlidingWindow, 1, time.Minute, 5, 0.4, 1, 5000, 24, "even"},
			{sketchlimit.SlidingWindow, 1, time.Minute, 100, 0.2, 1, 5000, 4, "random"},
		}[:loads] {
			for seed := range seeds {
				t.Run(fmt.Sprintf("%+v, %d", r, seed), func(t *testing.T) {
					t.Parallel()
					o, err := r.play(seed + 1)
					require.NoError(t, err)
					t.Logf("%d of %d denied, %.2g; audited %.2g, %.2g … %.2g", o.falseDenials, o.innocent, o.rate(), o.audited, o.least, o.most)
					require.Greater(t, o.falseDenials, uint64(leastDenied))
					if o.rate() < o.least || o.rate() > o.most {
						missed.Add(1)
					}
				})
			}
		}
	})
	require.LessOrEqual(t, missed.Load(), int32(seeds/10), "rows outside their interval")
}
