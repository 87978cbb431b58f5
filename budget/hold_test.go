package budget_test

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

func TestBadConfigsAreNamed(t *testing.T) {
	one := sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 100}
	proven, bad := one, one
	proven.Overload, bad.Limit = sketchlimit.DenyProven, 0
	many := make([]sketchlimit.Config, 9)
	for _, c := range []struct {
		limits   []sketchlimit.Config
		inFlight int
		holdFor  time.Duration
		want     string
	}{
		{nil, 1, time.Second, "0 Limits, must be 1 … 4"},
		{many, 1, time.Second, "9 Limits, must be 1 … 4"},
		{many[:1], 0, time.Second, "InFlight 0, must be 1 … 16777216"},
		{many[:1], -1, time.Second, "InFlight -1, must be 1 … 16777216"},
		{many[:1], 1<<24 + 1, time.Second, "InFlight 16777217, must be 1 … 16777216"},
		{many[:1], 1, 0, "HoldFor 0s, must be 1ms … 640511h56m49.213693952s"},
		{many[:1], 1, 30, "HoldFor 30ns, must be 1ms … 640511h56m49.213693952s: a number without a unit is nanoseconds, was 30 * time.Second meant?"},
		{many[:1], 1, time.Millisecond - 1, "HoldFor 999.999µs, must be 1ms … 640511h56m49.213693952s"},
		{many[:1], 1, 1<<61 + 1, "HoldFor 640511h56m49.213693953s, must be 1ms … 640511h56m49.213693952s"},
		{[]sketchlimit.Config{one, proven}, 1, time.Second, "Limits[1].Overload deny_proven, must be deny"},
		{[]sketchlimit.Config{one, one, bad}, 1, time.Second, "in Limits[2]: sketchlimit: Limit 0, must be 1 … 2147483647"},
	} {
		b, err := budget.New(budget.Config{Limits: c.limits, InFlight: c.inFlight, HoldFor: c.holdFor})
		require.EqualError(t, err, "budget: "+c.want)
		require.Nil(t, b)
	}
	four := []sketchlimit.Config{one, one, one, one}
	b, err := budget.New(budget.Config{Limits: four, InFlight: 1, HoldFor: 1 << 61})
	require.NoError(t, err)
	h, d := b.Hold("a", 100)
	require.True(t, d.Allowed)
	require.True(t, h.Settle(100))
	require.NoError(t, b.Close())
}

func TestSteps(t *testing.T) {
	b := with(t, 10, time.Minute, fixed(100, time.Hour))
	a := b.must("a", 60)
	_, d := b.Hold("a", 41)
	require.Equal(t, sketchlimit.Decision{Limit: 100, Remaining: 40, RetryAfter: time.Second, ResetAfter: d.ResetAfter}, d, "holds alone are in the way")
	require.True(t, a.Units() > 0)
	require.Equal(t, 60, b.Held("a"))
	require.True(t, a.Settle(25), "the rest is free at once")
	require.False(t, a.Units() > 0)
	require.Zero(t, b.Held("a"))
	h, d := b.Hold("a", 75)
	require.Equal(t, []any{true, 0}, []any{d.Allowed, d.Remaining})
	_, d = b.Hold("a", 1)
	require.Equal(t, []any{false, 0, time.Hour}, []any{d.Allowed, d.Remaining, d.RetryAfter}, "when 25 have gone")
	require.False(t, a.Settle(1), "settled")
	require.True(t, h.Settle(-5), "is 0")
	require.True(t, b.must("a", 10).Settle(100), "25 and 10 of 100: 65 of the 90 above are free")
	s := b.Stats()
	require.Equal(t, []uint64{125, 25, 0, 42, 0}, []uint64{s.Settled, s.Overdraft, s.Expired, s.Denied, s.NoRoom})
	_, d = b.Hold("a", 1)
	require.Equal(t, time.Hour, d.RetryAfter, "what is settled alone is in the way")
	for _, n := range []int{0, -1, math.MinInt, 101, math.MaxInt} {
		h, d := b.Hold("b", n)
		require.Equal(t, budget.Hold{}, h)
		require.Equal(t, []any{false, 100, sketchlimit.Never}, []any{d.Allowed, d.Remaining, d.RetryAfter}, "%d units", n)
	}
	require.Zero(t, b.Charge("b", 0)+b.Charge("b", -1))
	require.Equal(t, 20, b.Charge("b", 120))
	require.Equal(t, 1, b.Charge("b", 1))
}

func TestZeroHold(t *testing.T) {
	var h budget.Hold
	require.False(t, h.Settle(1))
	require.False(t, h.Units() > 0)
	require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never}, h.Extend(1))
}

// Of many copies that are settled at once, one settles; and none settles what came
// after it in its place.
func TestCopiesAreOneHold(t *testing.T) {
	b := with(t, 1, time.Minute, fixed(1_000_000, time.Hour))
	var old []budget.Hold
	for range 300 {
		h := b.must("a", 3)
		var once atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if h.Settle(1) {
					once.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, once.Load())
		next := b.must("b", 2)
		for _, o := range append(old, h) {
			require.False(t, o.Settle(1))
			require.False(t, o.Extend(1).Allowed)
			require.False(t, o.Units() > 0)
		}
		require.True(t, next.Settle(0))
		old = append(old[max(0, len(old)-5):], h)
	}
	require.EqualValues(t, 300, b.Stats().Settled)
}

// A hold that was settled does not settle one of another shard that has its place, be
// it the first one of each.
func TestPlacesGoFromShardToShard(t *testing.T) {
	b := with(t, 512, time.Minute, fixed(1000, time.Hour)) // two shards
	key := func(shard int) string {
		for i := 0; ; i++ {
			if s, _ := b.ShardOf(fmt.Sprint(i)); s == shard {
				return fmt.Sprint(i)
			}
		}
	}
	first := b.must(key(0), 1)
	for places := 1; ; places++ {
		if _, d := b.Hold(key(0), 1); !d.Allowed {
			require.GreaterOrEqual(t, places, 512)
			break
		}
	}
	require.True(t, first.Settle(0)) // its place is the only free one
	require.False(t, first.HasPlace(), "before another shard takes it")
	other := b.must(key(1), 1)
	require.False(t, first.Units() > 0)
	require.False(t, first.Settle(0))
	require.True(t, other.Settle(1))
}

// Few places are free, so that each goes from shard to shard all the time. Each hold is
// settled five times, the last four while its place is on its way.
func TestSettleTwice_PlaceMovesToAnotherShard(t *testing.T) {
	const inFlight, places, free, goroutines = 1024, 1280, 6, 12
	b := with(t, inFlight, time.Hour, fixed(1<<30, time.Hour)) // four shards
	for i := range places - free {
		b.must(fmt.Sprint(i%3), 1)
	}
	var settled, again atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range 1_500 {
				h, d := b.Hold(fmt.Sprint("key ", g, i%16), 2)
				if !d.Allowed {
					continue
				}
				if i%2 == g%2 {
					runtime.Gosched() // others find no place in their shards
				}
				for try := range 5 {
					switch {
					case h.Settle(1) == (try == 0):
						settled.Add(1)
					case h.Units() > 0 || h.Extend(1).Allowed:
						again.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, again.Load(), "settled holds that hold units")
	s := b.Stats()
	require.EqualValues(t, places-free, s.Open)
	require.EqualValues(t, places-free, s.Held)
	require.EqualValues(t, settled.Load(), 5*s.Settled)
	require.Zero(t, s.Expired)
}

// No cost adds more to a sum than the highest of the limits.
func TestStatsCountAtMostTheLimit(t *testing.T) {
	b := with(t, 10, time.Minute, fixed(60, time.Minute), bucket(1000, time.Hour))
	for range 3 {
		_, d := b.Hold("a", math.MaxInt)
		require.False(t, d.Allowed)
	}
	h := b.must("a", 10)
	require.False(t, h.Extend(math.MaxInt).Allowed)
	require.EqualValues(t, 4*1000, b.Stats().Denied)
	require.True(t, h.Settle(math.MaxInt))
	require.Positive(t, b.Charge("a", math.MaxInt))
	s := b.Stats()
	require.Equal(t, []uint64{2000, 2000}, []uint64{s.Settled, s.Overdraft})
	require.Equal(t, []uint64{120, 2000}, []uint64{s.Limits[0].Admitted, s.Limits[1].Admitted})
}

// Waiting for RetryAfter is enough, and is needed: as long as nothing else is held and
// settled.
func TestRetryAfter(t *testing.T) {
	sub := sliding(100, time.Minute)
	sub.SubWindows = 6
	large := bucket(10, time.Second)
	large.Burst = 90
	for name, c := range map[string]sketchlimit.Config{
		"sliding": sliding(100, time.Minute), "fixed": fixed(100, time.Minute), "sub-windows": sub,
		"bucket": bucket(100, time.Minute), "burst": large,
	} {
		t.Run(name, func(t *testing.T) {
			b, waited := with(t, 100, 24*time.Hour, c), 0
			for i := range 40 {
				key := fmt.Sprint(i)
				b.now = b.now.Add(time.Duration(i*i) * 977 * time.Millisecond)
				b.Charge(key, 10+7*i%60)
				h, held := b.Hold(key, 5+i%13)
				if !held.Allowed {
					continue
				}
				b.Charge(key, i%2*30)
				n := 1 + 11*i%70
				_, d := b.Hold(key, n)
				if d.Allowed {
					continue
				}
				now := b.now
				b.now = now.Add(d.RetryAfter - 1)
				_, after := b.Do(sketchlimit.Request{Key: key, N: n, Peek: true})
				require.False(t, after.Allowed)
				b.now = now.Add(d.RetryAfter)
				_, after = b.Do(sketchlimit.Request{Key: key, N: n, Peek: true})
				require.True(t, after.Allowed, "%d units of key %d: %v, then %v", n, i, d, after)
				waited++
				h.Settle(0)
			}
			require.Greater(t, waited, 5)
		})
	}
	b := with(t, 100, time.Hour, fixed(100, time.Minute)) // what is held is too much at any time
	b.now = b.now.Add(10 * time.Second)
	b.must("a", 50)
	b.Charge("a", 50)
	_, d := b.Hold("a", 60)
	require.Equal(t, 50*time.Second, d.RetryAfter, "until it would pass if nothing were held")
}

// The tightest of several limits decides: the one that denies the longest, or leaves
// the least.
func TestTightestLimit(t *testing.T) {
	b := with(t, 100, time.Hour, fixed(10, time.Minute), fixed(25, time.Hour), fixed(100, 24*time.Hour))
	for i, want := range []sketchlimit.Decision{
		{Allowed: true, Limit: 10, Remaining: 0},
		{Limit: 10, RetryAfter: time.Minute},
		{Allowed: true, Limit: 10, Remaining: 0},
		{Limit: 25, Remaining: 5, RetryAfter: 58 * time.Minute, By: 1},
	} {
		if i >= 2 {
			b.now = b.now.Add(time.Minute)
		}
		h, d := b.Hold("a", 10)
		d.ResetAfter = 0
		require.Equal(t, want, d, "request %d", i)
		require.Equal(t, want.Allowed, h.Settle(10))
	}
	require.EqualValues(t, 20, b.Stats().Settled, "what one limit denies counts in none")
	require.Len(t, b.Stats().Limits, 3)
}

// Requests with limits of their own are held against the lower one, of each limit.
func TestLimitsOfRequests(t *testing.T) {
	minute, hour := fixed(50, time.Minute), fixed(100, time.Hour)
	minute.LowestLimit, hour.LowestLimit = 5, 20
	b := with(t, 100, time.Hour, minute, hour)
	do := func(n, limit int) (budget.Hold, sketchlimit.Decision) {
		h, d := b.Do(sketchlimit.Request{Key: "a", N: n, Limit: limit})
		d.ResetAfter = 0
		return h, d
	}
	_, d := do(21, 20)
	require.Equal(t, sketchlimit.Decision{Limit: 20, Remaining: 20, RetryAfter: sketchlimit.Never}, d)
	h, d := do(15, 20)
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 20, Remaining: 5}, d)
	require.Equal(t, time.Second, h.Extend(6).RetryAfter, "it keeps its limit")
	require.True(t, h.Extend(5).Allowed)
	_, d = do(10, 1000)
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 50, Remaining: 20}, d)
	_, d = do(1, 19)
	require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never, By: 1}, d, "below the lowest of the second")
	require.EqualValues(t, 1, b.Stats().Limits[1].TooLow)
	require.EqualValues(t, 0, b.Stats().Limits[0].TooLow)
}

func TestKeysOfAnyKind(t *testing.T) {
	b := with(t, 100, time.Hour, fixed(100, time.Hour))
	for _, key := range []string{"", "\x00", "k", "192.0.2.7"} {
		b.must(key, 1)
		_, d := b.Do(sketchlimit.Request{Bytes: []byte(key)})
		require.True(t, d.Allowed, "N 0 is 1")
		require.Equal(t, 2, b.Held(key))
	}
	for i, addr := range []string{"192.0.2.1", "::ffff:192.0.2.1"} {
		_, d := b.Do(sketchlimit.Request{Key: "not this", Addr: netip.MustParseAddr(addr), N: 3})
		require.True(t, d.Allowed)
		require.Equal(t, 3*i+3, b.Held("\xc0\x00\x02\x01"))
	}
	require.Equal(t, 14, b.DoCharge(sketchlimit.Request{Addr: netip.MustParseAddr("192.0.2.1"), N: 108}))
}

// A look holds nothing and counts nothing; what is free is told without the request.
func TestPeek(t *testing.T) {
	b := with(t, 2, time.Hour, fixed(100, time.Hour))
	b.must("a", 30)
	for range 3 {
		h, d := b.Do(sketchlimit.Request{Key: "a", N: 70, Peek: true})
		require.Equal(t, budget.Hold{}, h)
		require.Equal(t, []any{true, 70}, []any{d.Allowed, d.Remaining})
		_, d = b.Do(sketchlimit.Request{Key: "a", N: 71, Peek: true})
		require.Equal(t, []any{false, 70, time.Second}, []any{d.Allowed, d.Remaining, d.RetryAfter})
		require.Equal(t, 10, b.DoCharge(sketchlimit.Request{Key: "a", N: 80, Peek: true}))
	}
	s := b.Stats()
	require.Equal(t, []any{1, uint64(0), uint64(0)}, []any{s.Open, s.Denied, s.Settled})
}

// More is held if it fits; if not, nothing changes. Each time that it is, and with
// Extend(0) at any time, HoldFor begins anew.
func TestExtend(t *testing.T) {
	b := with(t, 10, time.Minute, fixed(100, time.Hour))
	h, other := b.must("a", 60), b.must("a", 10)
	d := h.Extend(31)
	require.Equal(t, []any{false, 30, time.Second}, []any{d.Allowed, d.Remaining, d.RetryAfter})
	d = h.Extend(30)
	require.Equal(t, []any{true, 0}, []any{d.Allowed, d.Remaining})
	require.Equal(t, 100, b.Held("a"))
	require.False(t, h.Extend(1).Allowed)
	require.False(t, h.Extend(-1).Allowed)
	require.EqualValues(t, 32, b.Stats().Denied)
	for range 3 {
		b.now = b.now.Add(59 * time.Second)
		d := h.Extend(0)
		require.Equal(t, []any{true, time.Duration(0)}, []any{d.Allowed, d.RetryAfter})
		b.Stats()
		require.True(t, h.Units() > 0)
	}
	require.False(t, other.Units() > 0)
	b.now = b.now.Add(59*time.Second + 999*time.Millisecond)
	require.False(t, h.Extend(1).Allowed, "renews nothing")
	b.now = b.now.Add(time.Millisecond)
	require.EqualValues(t, 2, b.Stats().Expired)
	require.False(t, h.Units() > 0)
	require.False(t, h.Extend(0).Allowed)
	require.EqualValues(t, 100, b.Stats().Settled)
}

// What has expired counts in full at the moment at which a request notices it, and is
// held until then.
func TestExpiry(t *testing.T) {
	b := with(t, 1000, time.Minute, fixed(100, time.Hour))
	h := b.must("a", 40)
	b.now = b.now.Add(time.Minute - 1)
	require.Zero(t, b.Stats().Expired)
	b.now = b.now.Add(time.Hour)
	require.Equal(t, 40, b.Held("a"), "nobody has noticed")
	require.True(t, h.Units() > 0)
	_, d := b.Hold("a", 61)
	require.Equal(t, []any{false, 60, time.Hour - time.Minute + 1}, []any{d.Allowed, d.Remaining, d.RetryAfter})
	require.False(t, h.Settle(0))
	require.Zero(t, b.Held("a"))

	late := b.must("b", 7) // its own request may still be the first to notice
	b.now = b.now.Add(2 * time.Minute)
	require.True(t, late.Settle(3))
}

// Each request settles two of its shard that have expired, the oldest first; Stats all
// of them.
func TestExpiredHoldsTakeTurns(t *testing.T) {
	b := with(t, 100, time.Minute, fixed(100, time.Hour))
	var holds []budget.Hold
	for range 10 {
		holds = append(holds, b.must("a", 1))
		b.now = b.now.Add(time.Second)
	}
	open := func() (n int) {
		for i, h := range holds {
			if h.Units() > 0 {
				require.True(t, i == len(holds)-1 || holds[i+1].Units() > 0, "the oldest first")
				n++
			}
		}
		return n
	}
	b.now = b.now.Add(24 * time.Hour) // a jump
	require.Equal(t, 10, open())
	b.must("b", 1)
	require.Equal(t, 8, open())
	b.Charge("b", 1)
	require.Equal(t, 6, open())
	require.True(t, holds[9].Settle(0))
	require.Equal(t, 3, func() int { holds = holds[:9]; return open() }())
	b.Stats()
	require.Zero(t, open())
	require.EqualValues(t, 9, b.Stats().Expired)
}

// Holds expire in the order in which they were made and extended, also when the clock
// has stepped back meanwhile: none before HoldFor has passed, and none is kept from it
// by others for longer than the clock was ahead.
func TestExpiryAfterTheClockSteppedBack(t *testing.T) {
	b := with(t, 100, time.Minute, sliding(100, time.Hour))
	b.now = b.now.Add(30 * time.Minute)
	first := b.must("a", 1)
	b.now = b.now.Add(-20 * time.Minute)
	second := b.must("a", 1)
	b.now = b.now.Add(20*time.Minute + 59*time.Second)
	b.Stats()
	require.True(t, first.Units() > 0 && second.Units() > 0)
	b.now = b.now.Add(time.Second)
	b.Stats()
	require.False(t, first.Units() > 0 || second.Units() > 0)
	require.EqualValues(t, 2, b.Stats().Expired)
}

// A shard may have no room for more keys although holds are free; for one that holds
// something there is.
func TestShardFullOfKeys(t *testing.T) {
	b := with(t, 512, time.Minute, fixed(100, time.Hour)) // two shards
	first, _ := b.ShardOf("0")
	var mine []string
	_, room := b.ShardOf("0")
	for i := 0; len(mine) < room+1; i++ {
		if shard, _ := b.ShardOf(fmt.Sprint(i)); shard == first {
			mine = append(mine, fmt.Sprint(i))
		}
	}
	require.Greater(t, 512, room)
	for _, key := range mine[:room] {
		b.must(key, 2)
	}
	_, d := b.Hold(mine[room], 5)
	require.Equal(t, []any{false, 100, time.Second}, []any{d.Allowed, d.Remaining, d.RetryAfter})
	require.EqualValues(t, 5, b.Stats().NoRoom)
	require.EqualValues(t, 5, b.Stats().Denied)
	again := b.must(mine[7], 2)
	require.Equal(t, 4, b.Held(mine[7]))
	b.now = b.now.Add(time.Minute)
	h := b.must(mine[room], 5)
	for _, key := range mine[:room] {
		require.LessOrEqual(t, b.Held(key), 4)
	}
	b.Stats()
	require.False(t, again.Units() > 0)
	require.True(t, h.Settle(5))
	require.Equal(t, []any{0, int64(0), uint64(2*room + 2 + 5)}, []any{b.Stats().Open, b.Stats().Held, b.Stats().Settled})
}

// A limit that is coarse decides the same, and tells less.
func TestCoarse(t *testing.T) {
	c := fixed(100, time.Hour)
	c.Coarse = true
	b := with(t, 100, time.Minute, c)
	b.must("a", 10)
	_, d := b.Hold("a", 91)
	require.Equal(t, []any{false, 75, time.Second}, []any{d.Allowed, d.Remaining, d.RetryAfter})
	_, d = b.Hold("a", 90)
	require.Equal(t, []any{true, 0}, []any{d.Allowed, d.Remaining})
}
