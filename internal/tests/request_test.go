package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// What a limiter of limit 60 has counted is held against the limit of each request: as
// the exact algorithm of that limit does which has counted the same.
func TestTakeLimitAgreesWithTheExactAlgorithm(t *testing.T) {
	const window = 1200 * ms // 20 ms a unit, and whole for all limits
	limits := []int{1, 6, 30, 60}
	for _, c := range []struct {
		config sketchlimit.Config
		oracle func(limit int) (exact.Limiter, error)
	}{
		{sketchlimit.Config{Algorithm: sketchlimit.FixedWindow}, func(n int) (exact.Limiter, error) { return exact.NewFixedWindow(n, window) }},
		{sketchlimit.Config{}, func(n int) (exact.Limiter, error) { return exact.NewSlidingWindow(n, window) }},
		{sketchlimit.Config{SubWindows: 4}, func(n int) (exact.Limiter, error) { return exact.NewSlots(n, window, 4) }},
		{sketchlimit.Config{Algorithm: sketchlimit.TokenBucket}, func(n int) (exact.Limiter, error) { return exact.NewGCRA(n, window, n) }},
		{sketchlimit.Config{Algorithm: sketchlimit.TokenBucket, Burst: 20}, func(n int) (exact.Limiter, error) {
			return exact.NewGCRA(n, window, max(1, n/3))
		}},
	} {
		c.config.Limit, c.config.LowestLimit, c.config.Window = 60, 1, window
		l := build(t, c.config)
		var oracles []exact.Limiter
		for _, limit := range limits {
			oracle, err := c.oracle(limit)
			require.NoError(t, err)
			oracles = append(oracles, oracle)
		}
		bucket := c.config.Algorithm == sketchlimit.TokenBucket
		r := rand.New(rand.NewPCG(1, 2))
		now := time.Unix(1_700_000_000, 0)
		for i := range 20_000 {
			now = now.Add(time.Duration(r.Int64N(int64(30 * ms))))
			key := fmt.Sprint(r.IntN(3))
			which := r.IntN(len(limits))
			if bucket {
				// What a unit takes depends on the limit: one for each key.
				which = int(key[0]-'0') + 1
			}
			n := 1
			if r.IntN(3) == 0 {
				n = 1 + r.IntN(limits[which]+1)
			}
			want := oracles[which].TakeAt(now, key, n)
			want.Limit = limits[which]
			require.Equal(t, want, l.Do(sketchlimit.Request{Time: now, Key: key, N: n, Limit: limits[which]}), "%+v, request %d: %d units of %d", c.config, i, n, limits[which])
			for j, other := range oracles {
				if want.Allowed && j != which && !bucket {
					other.Charge(now, key, n)
				}
			}
		}
	}
}

// A key of several limits in a bucket has one time: none of them is passed.
func TestTakeLimitOfOneBucket(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 10, LowestLimit: 5, Window: 10 * time.Second, Algorithm: sketchlimit.TokenBucket})
	take := func(at time.Duration, n, limit int) sketchlimit.Decision {
		return l.Do(sketchlimit.Request{Time: time.Unix(0, int64(at)), Key: "k", N: n, Limit: limit})
	}
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 10, Remaining: 4, ResetAfter: 6 * time.Second}, take(0, 6, 10))
	require.Equal(t, sketchlimit.Decision{Limit: 5, Remaining: 2, RetryAfter: 2 * time.Second, ResetAfter: 6 * time.Second}, take(0, 3, 5))
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 5, Remaining: 0, ResetAfter: 10 * time.Second}, take(0, 2, 5))
	require.Equal(t, sketchlimit.Decision{Limit: 10, RetryAfter: time.Second, ResetAfter: 10 * time.Second}, take(0, 1, 10))
}

func TestTakeLimitOutOfBounds(t *testing.T) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		l := build(t, sketchlimit.Config{Limit: 10, LowestLimit: 5, Window: time.Minute, Algorithm: algorithm})
		for _, limit := range []int{4, 1, -1, math.MinInt} {
			for _, n := range []int{1, 2, math.MaxInt} {
				require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never}, l.Do(sketchlimit.Request{Key: "k", N: n, Limit: limit}))
			}
		}
		d := l.Do(sketchlimit.Request{Key: "k", Limit: math.MaxInt})
		require.Equal(t, 9, d.Remaining)
		require.Equal(t, 10, d.Limit)
		require.Equal(t, sketchlimit.Never, l.Do(sketchlimit.Request{Key: "k", N: 6, Limit: 5}).RetryAfter)
		require.True(t, l.Do(sketchlimit.Request{Key: "k", N: 4, Limit: 5}).Allowed)
		for range 3 { // from what the shard remembers, too
			require.False(t, l.Do(sketchlimit.Request{Key: "k", Limit: 5}).Allowed)
			require.Equal(t, 5, l.Do(sketchlimit.Request{Key: "k", Limit: 5}).Limit)
		}
		left := 4
		if algorithm == sketchlimit.TokenBucket {
			left = 0 // four units of five a minute take as long as eight of ten
		}
		require.Equal(t, left, l.Do(sketchlimit.Request{Key: "k", Limit: 10}).Remaining, "the denial was that limit's alone")
		for range 3 {
			require.Equal(t, l.Do(sketchlimit.Request{Time: time.Unix(0, 0), Key: "k", Limit: 5}), l.Do(sketchlimit.Request{Key: "k", Limit: 5}))
		}
	}
}

// A limiter is not made for limits below its lowest. It refuses them from the first
// request on, and Stats tell, where it would otherwise deny more wrongly than anybody
// could know.
func TestLimitsBelowTheLowestAreRefused(t *testing.T) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		l := build(t, sketchlimit.Config{Limit: 100, LowestLimit: 10, Window: time.Minute, Algorithm: algorithm})
		require.True(t, l.Do(sketchlimit.Request{Key: "k", Limit: 10}).Allowed)
		require.False(t, l.Stats().OutsidePlan)
		refused := sketchlimit.Decision{RetryAfter: sketchlimit.Never, ResetAfter: l.Peek("k").ResetAfter}
		require.Equal(t, refused, l.Do(sketchlimit.Request{Key: "k", Limit: 9}))
		require.Equal(t, refused, l.Do(sketchlimit.Request{Bytes: []byte("k"), Limit: 1}))
		require.Equal(t, refused, l.Do(sketchlimit.Request{Time: time.Unix(0, 0), Key: "k", Limit: 9, Peek: true}))
		s := l.Stats()
		require.EqualValues(t, 2, s.TooLow)
		require.EqualValues(t, 2, s.Denied)
		require.True(t, s.OutsidePlan)

		l = build(t, sketchlimit.Config{Limit: 100, Window: time.Minute, Algorithm: algorithm})
		require.Equal(t, sketchlimit.Never, l.Do(sketchlimit.Request{Key: "k", Limit: 99}).RetryAfter, "the lowest limit is Limit unless it is set")
		require.True(t, l.Do(sketchlimit.Request{Key: "k", Limit: 100}).Allowed)
	}
}

// All forms count the same bytes for the same key.
func TestTakeLimitKeys(t *testing.T) {
	l, now := build(t, sketchlimit.Config{Limit: 60, LowestLimit: 7, Window: time.Minute}), time.Unix(0, 0)
	four, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")
	for i, d := range []sketchlimit.Decision{
		l.Do(sketchlimit.Request{Key: string(four.AsSlice()), Limit: 7}), l.Do(sketchlimit.Request{Time: now, Key: string(four.AsSlice()), Limit: 7}),
		l.Do(sketchlimit.Request{Bytes: four.AsSlice(), Limit: 7}), l.Do(sketchlimit.Request{Time: now, Bytes: four.AsSlice(), Limit: 7}),
		l.Do(sketchlimit.Request{Addr: four, Limit: 7}), l.Do(sketchlimit.Request{Time: now, Addr: mapped, Limit: 7}),
	} {
		require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 7, Remaining: 6 - i, ResetAfter: 2 * time.Minute}, d)
	}
}

func TestTakeLimitAllocatesNothing(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 60, LowestLimit: 7, Window: time.Minute, Algorithm: sketchlimit.TokenBucket})
	key, addr, now := []byte("k"), netip.MustParseAddr("192.0.2.1"), time.Unix(0, 0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		l.Do(sketchlimit.Request{Key: "k", Limit: 7})
		l.Do(sketchlimit.Request{Bytes: key, Limit: 7})
		l.Do(sketchlimit.Request{Addr: addr, Limit: 7})
		l.Do(sketchlimit.Request{Time: now, Addr: addr, Limit: 7})
	}))
}

// What a Request leaves out is what most requests mean.
func TestRequestDefaults(t *testing.T) {
	now := time.Unix(60, 0)
	l := build(t, sketchlimit.Config{Limit: 10, LowestLimit: 2, Window: time.Minute, Clock: func() time.Time { return now }})
	free := func(r sketchlimit.Request) int { r.Peek = true; return l.Do(r).Remaining }
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 10, Remaining: 9, ResetAfter: 2 * time.Minute}, l.Do(sketchlimit.Request{}), "one unit of the key without bytes, now")
	require.Equal(t, 9, free(sketchlimit.Request{Key: ""}))
	require.Equal(t, 9, free(sketchlimit.Request{Bytes: []byte{}}))

	// Of several keys the address counts, then the bytes.
	four := netip.MustParseAddr("192.0.2.1")
	l.Do(sketchlimit.Request{Addr: four, Bytes: []byte("b"), Key: "k", N: 2})
	l.Do(sketchlimit.Request{Bytes: []byte("b"), Key: "k", N: 3})
	l.Do(sketchlimit.Request{Key: "k", N: 4})
	for free4, r := range map[int]sketchlimit.Request{
		8:  {Addr: netip.MustParseAddr("::ffff:192.0.2.1")},
		7:  {Key: "b"},
		6:  {Bytes: []byte("k")},
		10: {Key: "192.0.2.1"}, // the text of an address is another key
	} {
		require.Equal(t, free4, free(r), "%+v", r)
	}

	// Costs below 0 never pass; a cost of 0 is one unit.
	require.Equal(t, sketchlimit.Never, l.Do(sketchlimit.Request{Key: "n", N: -1}).RetryAfter)
	require.Equal(t, sketchlimit.Never, l.Take("n", 0).RetryAfter)
	require.Equal(t, 9, l.Do(sketchlimit.Request{Key: "n"}).Remaining)

	// Times are those of TakeAt, and a look ahead changes nothing.
	require.True(t, l.Do(sketchlimit.Request{Key: "t", N: 10}).Allowed)
	require.Equal(t, 10, free(sketchlimit.Request{Key: "t", Time: now.Add(2 * time.Minute)}))
	require.False(t, l.Do(sketchlimit.Request{Key: "t"}).Allowed)
	require.Equal(t, 5, l.Do(sketchlimit.Request{Key: "t", Time: now.Add(90 * time.Second), N: 5, Peek: true}).Remaining)
	require.True(t, l.Do(sketchlimit.Request{Key: "t", Time: now.Add(90 * time.Second), N: 5}).Allowed)

	// Requests below the lowest limit are counted, looks are not.
	require.Zero(t, l.Stats().TooLow)
	require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never}, l.Do(sketchlimit.Request{Key: "low", Limit: 1, Peek: true}))
	require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never}, l.Do(sketchlimit.Request{Key: "low", Limit: 1}))
	require.EqualValues(t, 1, l.Stats().TooLow)
}

// A group holds a request against the lower of each limiter's limit and its own, and a
// look consumes nothing.
func TestGroupRequests(t *testing.T) {
	a := build(t, sketchlimit.Config{Limit: 10, LowestLimit: 1, Window: time.Minute})
	b := build(t, sketchlimit.Config{Limit: 4, LowestLimit: 3, Window: time.Hour})
	g := group(t, a, b)
	peek := sketchlimit.Request{Key: "k", Peek: true}
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 4, Remaining: 4, By: 1}, g.Do(peek))
	require.True(t, g.Do(sketchlimit.Request{Key: "k", N: 2, Limit: 3}).Allowed)
	require.Equal(t, 2, g.Do(peek).Remaining)
	require.Equal(t, 1, g.Do(sketchlimit.Request{Key: "k", Limit: 3, Peek: true}).Remaining)
	require.Equal(t, 3, g.Do(sketchlimit.Request{Key: "k", N: 2, Limit: 3}).Limit)
	require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never, ResetAfter: 2 * time.Hour, By: 1}, g.Do(sketchlimit.Request{Key: "k", Limit: 2}), "below the second one's lowest")
	require.EqualValues(t, 1, b.Stats().TooLow)
	require.Equal(t, 8, a.Peek("k").Remaining)
	require.Equal(t, time.Hour, g.Window())
}
