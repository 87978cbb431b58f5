package tests

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// crowded are plans so small that all keys meet: what one counts, others read.
var crowded = map[string]sketchlimit.Config{
	"sliding": {Plan: &sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 2, Depth: 2, Width: 16, CellBits: 8, HeavyEntries: 16, PromoteAt: 12}},
	"fixed": {Algorithm: sketchlimit.FixedWindow,
		Plan: &sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 2, Depth: 2, Width: 16, CellBits: 8, HeavyEntries: 16, PromoteAt: 12}},
	"sub-windows": {SubWindows: 4, Plan: &sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 2, Depth: 2, Width: 16, CellBits: 8}},
	"bucket":      {Algorithm: sketchlimit.TokenBucket, Plan: &sketchlimit.Plan{Shards: 1, Depth: 8, Width: 1, CellBits: 32}},
}

// A denial tells what a fresh look at the limiter tells at that time, whatever was
// counted since the key was denied before, and in whatever order times come. And it is
// true: if nothing else comes, the same request passes at that instant and not a
// nanosecond earlier.
func TestDenialsTellWhatHolds(t *testing.T) {
	for name, c := range crowded {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_700_000_000, 0)
			c.Limit, c.Window, c.Seed, c.Clock = 40, time.Minute, 1, func() time.Time { return now }
			l := build(t, c)
			r := rand.New(rand.NewPCG(5, 6))
			denied := 0
			for range 30_000 {
				switch r.IntN(40) {
				case 0:
					now = now.Add(-time.Duration(r.Int64N(int64(50 * time.Second))))
				case 1:
					now = now.Add(time.Duration(r.Int64N(int64(80 * time.Second))))
				}
				now = now.Add(time.Duration(r.Int64N(int64(time.Second))))
				key, n := fmt.Sprint(r.IntN(1+r.IntN(30))), 1
				if r.IntN(4) == 0 {
					n = 1 + r.IntN(40)
				}
				d := l.TakeAt(now, key, n)
				if d.Allowed {
					continue
				}
				denied++
				require.Equal(t, l.Do(sketchlimit.Request{Time: now, Key: key, N: n, Peek: true}), d)
				require.True(t, l.Do(sketchlimit.Request{Time: now.Add(d.RetryAfter), Key: key, N: n, Peek: true}).Allowed, "after %v", d.RetryAfter)
				require.False(t, l.Do(sketchlimit.Request{Time: now.Add(d.RetryAfter - 1), Key: key, N: n, Peek: true}).Allowed, "before %v", d.RetryAfter)
			}
			require.Greater(t, denied, 1000)
		})
	}
}

// A clock that has stepped back has to catch up first: what is told counts from the
// caller's time.
func TestRetryAfterCountsFromTheCallersTime(t *testing.T) {
	start := time.Unix(1_700_000_000, 0).Truncate(time.Minute)
	l := build(t, sketchlimit.Config{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.FixedWindow})
	require.True(t, l.TakeAt(start, "k", 10).Allowed)
	want := sketchlimit.Decision{Limit: 10, RetryAfter: 80 * time.Second, ResetAfter: 80 * time.Second}
	for range 3 { // from what the shard remembers, too
		require.Equal(t, want, l.TakeAt(start.Add(-20*time.Second), "k", 1))
	}
	require.Equal(t, want, l.Do(sketchlimit.Request{Time: start.Add(-20 * time.Second), Key: "k", Peek: true}))
	g := group(t, l, fixed(t, 100, time.Minute))
	d := g.TakeAt(start.Add(-20*time.Second), "k", 1)
	require.Equal(t, want, d)
	require.Zero(t, d.By)
	require.True(t, l.TakeAt(start.Add(60*time.Second), "k", 1).Allowed)
}

// The longest durations there are do not overflow.
func TestRetryAfterOfTheFarthestTimes(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 10, Window: 1 << 61, Algorithm: sketchlimit.FixedWindow})
	last := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	require.True(t, l.TakeAt(last, "k", 10).Allowed)
	for _, now := range []time.Time{last, time.Unix(0, 0), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		d := l.TakeAt(now, "k", 1)
		require.False(t, d.Allowed)
		require.Positive(t, d.RetryAfter)
		require.Less(t, d.RetryAfter, sketchlimit.Never)
		require.Equal(t, d.RetryAfter, d.ResetAfter)
	}
}
