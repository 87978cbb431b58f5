package sketchlimit_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/machine"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/internal/tests"
)

var build = tests.Build

type step struct {
	at   time.Duration // since the epoch
	n    int
	want sketchlimit.Decision
}

func run(t *testing.T, l *sketchlimit.Limiter, steps []step) {
	t.Helper()
	for i, s := range steps {
		s.want.Limit = l.Do(sketchlimit.Request{Time: time.Unix(0, int64(s.at)), Key: "k", Peek: true}).Limit
		require.Equal(t, s.want, l.TakeAt(time.Unix(0, int64(s.at)), "k", s.n), "step %d at %v", i, s.at)
	}
}

func TestFixedWindowSteps(t *testing.T) {
	const m = time.Minute
	run(t, build(t, sketchlimit.Config{Limit: 3, Window: m, Algorithm: sketchlimit.FixedWindow}), []step{
		{0, 1, sketchlimit.Decision{Allowed: true, Remaining: 2, ResetAfter: m}},
		{m / 4, 3, sketchlimit.Decision{Remaining: 2, RetryAfter: m * 3 / 4, ResetAfter: m * 3 / 4}},
		{m / 2, 2, sketchlimit.Decision{Allowed: true, Remaining: 0, ResetAfter: m / 2}},
		{m - 1, 1, sketchlimit.Decision{Remaining: 0, RetryAfter: 1, ResetAfter: 1}},
		{m, 3, sketchlimit.Decision{Allowed: true, Remaining: 0, ResetAfter: m}},
		{m - 1, 1, sketchlimit.Decision{Remaining: 0, RetryAfter: m + 1, ResetAfter: m + 1}}, // the clock steps back
		{9 * m, 1, sketchlimit.Decision{Allowed: true, Remaining: 2, ResetAfter: m}},
	})
}

func TestSlidingWindowSteps(t *testing.T) {
	const m = time.Minute
	run(t, build(t, sketchlimit.Config{Limit: 10, Window: m}), []step{
		{0, 10, sketchlimit.Decision{Allowed: true, Remaining: 0, ResetAfter: 2 * m}},
		// At the next generation's first instant the previous one weighs exactly 1;
		// a tenth of it later a unit has come free, not a nanosecond before.
		{m / 2, 1, sketchlimit.Decision{Remaining: 0, RetryAfter: m/2 + m/10, ResetAfter: m + m/2}},
		{m, 1, sketchlimit.Decision{Remaining: 0, RetryAfter: m / 10, ResetAfter: m}},
		{m + m/10 - 1, 1, sketchlimit.Decision{Remaining: 0, RetryAfter: 1, ResetAfter: m - m/10 + 1}},
		{m + m/10, 1, sketchlimit.Decision{Allowed: true, Remaining: 0, ResetAfter: 2*m - m/10}},
		{m + m/2, 5, sketchlimit.Decision{Remaining: 4, RetryAfter: m / 10, ResetAfter: m + m/2}},
		{m + m*6/10, 5, sketchlimit.Decision{Allowed: true, Remaining: 0, ResetAfter: m + m*4/10}},
		// 6 in this generation: 9 more fit when 5/6 of the next have passed.
		{m + m*9/10, 9, sketchlimit.Decision{Remaining: 3, RetryAfter: m/10 + m*5/6, ResetAfter: m + m/10}},
		{2*m + m*5/6, 9, sketchlimit.Decision{Allowed: true, Remaining: 0, ResetAfter: m + m/6}},
		{9 * m, 10, sketchlimit.Decision{Allowed: true, Remaining: 0, ResetAfter: 2 * m}},
		// The clock steps back by more than a window: nothing is wiped, and the
		// latest generation's first instant is the time, which is eight minutes away.
		{1 * m, 1, sketchlimit.Decision{Remaining: 0, RetryAfter: 9*m + m/10, ResetAfter: 10 * m}},
	})
}

func TestSubWindowSteps(t *testing.T) {
	const s = time.Second
	run(t, build(t, sketchlimit.Config{Limit: 6, Window: 6 * s, SubWindows: 3}), []step{
		{1 * s, 2, sketchlimit.Decision{Allowed: true, Remaining: 4, ResetAfter: 7 * s}},
		{2 * s, 3, sketchlimit.Decision{Allowed: true, Remaining: 1, ResetAfter: 8 * s}},
		{5 * s, 2, sketchlimit.Decision{Remaining: 1, RetryAfter: 2 * s, ResetAfter: 5 * s}},
		{7*s - 1, 2, sketchlimit.Decision{Remaining: 1, RetryAfter: 1, ResetAfter: 3*s + 1}},
		{7 * s, 2, sketchlimit.Decision{Allowed: true, Remaining: 0, ResetAfter: 7 * s}},
		{8 * s, 6, sketchlimit.Decision{Remaining: 1, RetryAfter: 6 * s, ResetAfter: 6 * s}},
	})
}

// Where keys are few and the memory is large there are no collisions, and the limiter
// must agree with the exact algorithm in every field of every decision, at any time,
// also when the clock steps back or jumps ahead.
func TestAgreesWithTheExactAlgorithm(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, c := range []struct {
		config sketchlimit.Config
		oracle func(limit int, window time.Duration) (exact.Limiter, error)
	}{
		{sketchlimit.Config{Algorithm: sketchlimit.FixedWindow}, func(n int, w time.Duration) (exact.Limiter, error) { return exact.NewFixedWindow(n, w) }},
		{sketchlimit.Config{}, func(n int, w time.Duration) (exact.Limiter, error) { return exact.NewSlidingWindow(n, w) }},
		{sketchlimit.Config{SubWindows: 5}, func(n int, w time.Duration) (exact.Limiter, error) { return exact.NewSlots(n, w, 5) }},
	} {
		for _, limit := range []int{1, 2, 7, 16, 100, 257, 70_000, math.MaxInt32} {
			name := fmt.Sprintf("%v/%d/limit=%d", c.config.Algorithm, c.config.SubWindows, limit)
			t.Run(name, func(t *testing.T) {
				window := 1_000_035 * time.Microsecond // divisible by 5, by nothing round
				c.config.Limit, c.config.Window = limit, window
				l := build(t, c.config)
				oracle, err := c.oracle(limit, window)
				require.NoError(t, err)
				r := rand.New(rand.NewPCG(uint64(limit), 1))
				now := time.Unix(1_700_000_000, 0)
				for i := range 20_000 / testkit.Divisor {
					switch r.IntN(20) {
					case 0:
						now = now.Add(-time.Duration(r.Int64N(int64(2 * window))))
					case 1:
						now = now.Add(time.Duration(r.Int64N(int64(4 * window))))
					case 2: // on a boundary, or a nanosecond beside it
						now = now.Truncate(window / 5).Add(window/5 + time.Duration(r.IntN(3)-1))
					default:
						now = now.Add(time.Duration(r.Int64N(int64(window) / 20)))
					}
					key := fmt.Sprint("key", r.IntN(5))
					n := 1 + r.IntN(max(1, limit/4)) - 2*r.IntN(2) // a cost of 0 is one that Do cannot say
					if n == 0 {
						n = 1
					}
					if r.IntN(100) == 0 {
						n = limit + r.IntN(2)
					}
					require.Equal(t, oracle.PeekAt(now, key, n), l.Do(sketchlimit.Request{Time: now, Key: key, N: n, Peek: true}), "peek %d: %v %s %d", i, now, key, n)
					want, got := oracle.TakeAt(now, key, n), l.TakeAt(now, key, n)
					require.Equal(t, want, got, "take %d: %v %s %d", i, now, key, n)
				}
			})
		}
	}
}

// Whoever waits RetryAfter passes, and not a nanosecond earlier, however full the
// sketch is.
func TestRetryAfterIsTheFirstInstant(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, c := range []sketchlimit.Config{
		{Limit: 50, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 4608},
		{Limit: 50, Window: time.Minute, MemoryBytes: 8192},
		{Limit: 50, Window: time.Minute, SubWindows: 6, MemoryBytes: 16384},
		{Limit: 50, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Burst: 30, MemoryBytes: 32768},
	} {
		l := build(t, c)
		r := rand.New(rand.NewPCG(3, 4))
		now := time.Unix(1_700_000_000, 0)
		denied := 0
		for range 100_000 {
			now = now.Add(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
			key, n := fmt.Sprint(r.IntN(3000)), 1+r.IntN(20)
			d := l.TakeAt(now, key, n)
			if d.Allowed || r.IntN(50) > 0 {
				continue
			}
			denied++
			require.Positive(t, d.RetryAfter)
			require.True(t, l.Do(sketchlimit.Request{Time: now.Add(d.RetryAfter), Key: key, N: n, Peek: true}).Allowed, "%d units of %s after %v", n, key, d.RetryAfter)
			require.False(t, l.Do(sketchlimit.Request{Time: now.Add(d.RetryAfter - 1), Key: key, N: n, Peek: true}).Allowed, "%d units of %s before %v", n, key, d.RetryAfter)
		}
		require.Greater(t, denied, 50)
	}
}

func TestKeysOfAnyKindAndSize(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 10, Window: time.Minute})
	now := time.Unix(0, 0)
	for _, key := range []string{"", "\x00", "\x00\x00", "k", strings.Repeat("k", 1<<20), strings.Repeat("k", 1<<20-1)} {
		require.Equal(t, 9, l.TakeAt(now, key, 1).Remaining)
		require.Equal(t, 8, l.Do(sketchlimit.Request{Time: now, Bytes: []byte(key)}).Remaining, "the same bytes are the same key")
		require.Equal(t, 7, l.Take(key, 1).Remaining)
		require.Equal(t, 6, l.Do(sketchlimit.Request{Bytes: []byte(key)}).Remaining)
		require.True(t, l.Allow(key))
		require.True(t, l.AllowN(key, 5))
		require.False(t, l.Allow(key))
		require.False(t, l.Peek(key).Allowed)
	}
	for _, addr := range []string{"192.0.2.1", "2001:db8::1", "::"} {
		a := netip.MustParseAddr(addr)
		require.Equal(t, 9, l.Do(sketchlimit.Request{Time: now, Addr: a}).Remaining)
		require.Equal(t, 8, l.Do(sketchlimit.Request{Addr: a}).Remaining)
		require.Equal(t, 7, l.Do(sketchlimit.Request{Time: now, Bytes: a.AsSlice()}).Remaining, "an address counts as its bytes")
	}
	require.Equal(t, 6, l.Do(sketchlimit.Request{Time: now, Addr: netip.MustParseAddr("::ffff:192.0.2.1")}).Remaining, "an IPv4-mapped address is the IPv4 address")
	require.Equal(t, 6, l.Do(sketchlimit.Request{Time: now, Addr: netip.MustParseAddr("2001:db8::1%eth0")}).Remaining, "zones do not count")
}

func TestCostsThatCanNeverPass(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 10, Window: time.Minute})
	for _, n := range []int{0, -1, math.MinInt, 11, math.MaxInt} {
		require.Equal(t, sketchlimit.Decision{Limit: 10, Remaining: 10, RetryAfter: sketchlimit.Never}, l.Take("k", n), "%d units", n)
		require.False(t, l.AllowN("k", n))
	}
	require.True(t, l.AllowN("k", 10), "and nothing was consumed")
}

func TestDeniedRequestsChangeNothing(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 10, Window: time.Minute, MemoryBytes: 4608})
	require.True(t, l.AllowN("flood", 8))
	before := l.Stats()
	for range 100_000 {
		require.False(t, l.AllowN("flood", 3))
	}
	after := l.Stats()
	require.EqualValues(t, 300_000, after.Denied)
	after.Denied = before.Denied
	require.Equal(t, before, after)
	require.Equal(t, 2, l.Peek("flood").Remaining)
}

// A flood on one key is denied without the lock. It gets the same answers as through
// it, to the nanosecond and at any time, and all of them are counted.
func TestFloodedKeyGetsTheSameAnswers(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, c := range []sketchlimit.Config{
		{Limit: 10, Window: time.Minute},
		{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.FixedWindow},
		{Limit: 10, Window: time.Minute, SubWindows: 4},
		{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Burst: 7},
	} {
		l := build(t, c)
		r := rand.New(rand.NewPCG(1, 1))
		denied := uint64(0)
		for i := range 20_000 {
			now := time.Unix(0, int64(i)*int64(20*time.Millisecond)+r.Int64N(int64(5*time.Second)))
			want := l.Do(sketchlimit.Request{Time: now, Key: "k", Peek: true}) // always through the lock
			got := l.TakeAt(now, "k", 1)
			if got.Allowed {
				require.True(t, want.Allowed)
				continue
			}
			denied++
			require.Equal(t, want, got)
		}
		require.Greater(t, denied, uint64(10_000))
		require.Equal(t, denied, l.Stats().Denied)
	}
}

// Allow knows a key that has nothing left by the clock in the background, up to the
// reading at which a unit comes free and no further.
func TestAllowAtTheTickThatFreesAUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: time.Second, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 8 << 10, Seed: 1})
		require.NoError(t, err)
		defer l.Close()
		require.True(t, l.Allow("k"))
		require.False(t, l.Take("k", 1).Allowed, "and it is remembered until when")
		free := time.Now().Truncate(time.Second).Add(time.Second)
		time.Sleep(time.Until(free.Add(-sketchlimit.Resolution)))
		synctest.Wait()
		require.False(t, l.Allow("k"))
		time.Sleep(time.Until(free))
		synctest.Wait()
		require.True(t, l.Allow("k"))
	})
}

// A key that is denied once is not known to have nothing left until another one has.
func TestKeyDeniedOnceWaitsNoLongerThanItself(t *testing.T) {
	now := time.Unix(0, 0)
	l := build(t, sketchlimit.Config{Limit: 10, Window: time.Second, MemoryBytes: 8 << 10, Clock: func() time.Time { return now }})
	require.Equal(t, 1, l.Plan().Shards)
	require.True(t, l.AllowN("early", 10))
	now = time.Unix(1, 0)
	require.True(t, l.AllowN("late", 10))
	require.Equal(t, 1100*time.Millisecond, l.Take("late", 1).RetryAfter)
	now = now.Add(50 * time.Millisecond)
	require.False(t, l.Allow("early"))
	now = now.Add(50 * time.Millisecond)
	require.True(t, l.Allow("early"))
	require.False(t, l.Allow("late"))
}

func TestDecisionsAllocateNothing(t *testing.T) {
	key, bytes := "198.51.100.255", []byte("198.51.100.255")
	v4, v6 := netip.MustParseAddr("198.51.100.255"), netip.MustParseAddr("2001:db8::1%eth0")
	for name, c := range map[string]sketchlimit.Config{
		"fixed":   {Limit: 100, Window: time.Minute, Algorithm: sketchlimit.FixedWindow},
		"sliding": {Limit: 100, Window: time.Minute},
		"slots":   {Limit: 100, Window: time.Minute, SubWindows: 10},
		"bucket":  {Limit: 100, Window: time.Minute, Algorithm: sketchlimit.TokenBucket},
		"single":  {Limit: 1, Window: time.Minute},
	} {
		l := build(t, c)
		now := time.Unix(0, 0)
		for kind, f := range map[string]func(){
			"Allow":      func() { l.Allow(key) },
			"Take":       func() { l.Take(key, 1) },
			"TakeBytes":  func() { l.Do(sketchlimit.Request{Bytes: bytes}) },
			"TakeAddr 4": func() { l.Do(sketchlimit.Request{Addr: v4}) },
			"TakeAddr 6": func() { l.Do(sketchlimit.Request{Addr: v6}) },
			"Peek":       func() { l.Peek(key) },
			"Prefetch":   func() { l.Prefetch(bytes) },
			"turning":    func() { now = now.Add(time.Minute); l.TakeAt(now, key, 3) },
		} {
			require.Zero(t, testing.AllocsPerRun(1000, f), "%s %s", name, kind)
		}
	}
}

func TestSameInputsSameDecisions(t *testing.T) {
	testkit.OneGoroutine(t)
	decisions := func(seed uint64) (all []sketchlimit.Decision) {
		l := build(t, sketchlimit.Config{Limit: 20, Window: time.Second, MemoryBytes: 4608, Seed: seed})
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 50_000 {
			all = append(all, l.TakeAt(time.Unix(0, int64(i)*100_000), fmt.Sprint(r.IntN(2000)), 1+r.IntN(3)))
		}
		return all
	}
	require.Equal(t, decisions(5), decisions(5))
	require.NotEqual(t, decisions(5), decisions(6))
}

func TestSeedIsDrawnUnlessGiven(t *testing.T) {
	filled := func() (denied int) {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: time.Hour, MemoryBytes: 4608})
		require.NoError(t, err)
		for i := range 4000 {
			if !l.Allow(fmt.Sprint(i)) {
				denied = denied*31 + i
			}
		}
		return denied
	}
	require.NotEqual(t, filled(), filled())
}

// MemoryBytes is what the heap shows, within 2 %, and never more than was asked for.
func TestMemoryIsAsStated(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, c := range []sketchlimit.Config{
		{Limit: 100, MemoryBytes: 2 << 20},
		{Limit: 100, MemoryBytes: 64<<20 + 12345},
		{Limit: 5, MemoryBytes: 1 << 20, Algorithm: sketchlimit.FixedWindow},
		{Limit: 100_000, MemoryBytes: 8 << 20, SubWindows: 6},
		{Limit: 1, Keys: 1_000_000},
		{Limit: 1, Keys: 1_000_000, Algorithm: sketchlimit.TokenBucket},
		{Limit: 100, MemoryBytes: 4 << 20, Algorithm: sketchlimit.TokenBucket},
		{Limit: 1000, Keys: 1_000_000, FalseDenialRate: 1e-6},
	} {
		c.Window = time.Minute
		before := testkit.Heap()
		l := build(t, c)
		grown := testkit.Heap() - before
		require.InEpsilon(t, grown, l.MemoryBytes(), 0.02, "%+v", c)
		if c.MemoryBytes > 0 {
			require.LessOrEqual(t, l.MemoryBytes(), c.MemoryBytes)
			require.Greater(t, l.MemoryBytes(), c.MemoryBytes*95/100, "what was granted is used: %+v", c)
		}
		for i := range 100_000 / testkit.Divisor {
			var key [8]byte
			binary.LittleEndian.PutUint64(key[:], uint64(i))
			l.Do(sketchlimit.Request{Time: time.Unix(int64(i)/1000, 0), Bytes: key[:]})
		}
		require.InDelta(t, grown, testkit.Heap()-before, 32<<10, "it does not grow")
		runtime.KeepAlive(l)
	}
}

// Small ones too, of which there may be many: the runtime rounds allocations up.
func TestMemoryOfSmallLimitersIsAsStated(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("memory is stated for machines of 64 bits")
	}
	for _, memory := range []int{5 << 10, 10_000, 24 << 10, 33_000, 64 << 10, 100_000} {
		c := sketchlimit.Config{Limit: 100, Window: time.Minute, MemoryBytes: memory}
		for _, c.Clock = range []func() time.Time{nil, time.Now} {
			stated, each := ofHundred(t, c)
			for range 4 { // the least: the runtime takes some KiB for itself now and then
				_, again := ofHundred(t, c)
				each = min(each, again)
			}
			require.LessOrEqual(t, stated, memory)
			require.InDelta(t, stated, each, 64, "%d bytes", memory) // 64: the test's own
		}
	}
}

// ofHundred returns what each of a hundred limiters states, and what it takes of the
// heap.
func ofHundred(t *testing.T, c sketchlimit.Config) (stated int, each float64) {
	all := make([]*sketchlimit.Limiter, 100)
	before := testkit.Heap()
	for i := range all {
		l, err := sketchlimit.New(c)
		require.NoError(t, err)
		all[i] = l
	}
	each = float64(testkit.Heap()-before) / float64(len(all))
	for _, l := range all {
		require.NoError(t, l.Close())
	}
	t.Logf("stated %d, on the heap %.0f", all[0].MemoryBytes(), each)
	return all[0].MemoryBytes(), each
}

// AllowN leaves generations unread that cannot matter; it must come to what Take does.
func TestAllowDecidesAsTakeDoes(t *testing.T) {
	for name, c := range map[string]sketchlimit.Config{
		"fixed":       {Algorithm: sketchlimit.FixedWindow, Limit: 20},
		"sliding":     {Limit: 20},
		"sub-windows": {Limit: 20, SubWindows: 4},
		"bucket":      {Algorithm: sketchlimit.TokenBucket, Limit: 20, Burst: 21},
		"limit 1":     {Limit: 1},
		"limit 2":     {Limit: 2},
	} {
		var now time.Time
		c.Window, c.MemoryBytes, c.Seed, c.Clock = time.Second, 16<<10, 1, func() time.Time { return now }
		allow, take := build(t, c), build(t, c)
		r := rand.New(rand.NewPCG(1, 2))
		admitted := 0
		const requests = 100_000 / testkit.Divisor
		for i := range requests {
			now = time.Unix(0, int64(i)*int64(c.Window)/5000+r.Int64N(1e6))
			key, n := strconv.Itoa(r.IntN(200)), 1
			if r.IntN(4) == 0 {
				n = r.IntN(c.Limit + 2)
			}
			got, want := allow.AllowN(key, n), take.Take(key, n).Allowed
			require.Equal(t, want, got, "%s, request %d", name, i)
			if got {
				admitted++
			}
		}
		require.Greater(t, admitted, requests/100, name)
		require.Less(t, admitted, requests*99/100, name)
		require.Equal(t, take.Stats(), allow.Stats(), name)
	}
}

// Sizes for all limits leave room to tell how many keys there are, and that there are
// more than planned.
func TestStatsTellHowManyKeysThereAre(t *testing.T) {
	testkit.Computes(t)
	const keys = 20_000
	for _, a := range []sketchlimit.Config{{}, {Algorithm: sketchlimit.FixedWindow}, {SubWindows: 4}} {
		for _, limit := range []int{2, 5, 16, 17, 32, 100, 257, 1000, 10_000, 65_537, math.MaxInt32} {
			for _, rate := range []float64{1e-3, 1e-6} {
				c := a
				c.Limit, c.Window, c.Keys, c.FalseDenialRate, c.Seed = limit, time.Minute, keys, rate, 1
				l := build(t, c)
				send := func(keys int) {
					for i := range keys {
						l.TakeAt(time.Unix(0, 0), strconv.Itoa(i), 1)
					}
				}
				send(keys)
				s := l.Stats()
				require.InEpsilon(t, keys, s.DistinctKeys, 0.05, "%+v: %+v", c, l.Plan())
				require.False(t, s.OutsidePlan)
				send(3 * keys) // above Headroom, which is 2
				s = l.Stats()
				require.True(t, s.OutsidePlan, "%+v: %+v", c, s)
			}
		}
	}
}

// As many keys as planned are within the plan, however far the estimate of their number
// is off. Three times as many are not.
func TestAsManyKeysAsPlanned(t *testing.T) {
	testkit.Computes(t)
	for _, keys := range []int{200, 1000, 10_000} {
		for seed := range uint64(min(100, 200_000/keys)) {
			l := build(t, sketchlimit.Config{Limit: 1000, Window: time.Minute, Keys: keys, Headroom: 1, Seed: seed + 1})
			send := func(from, to int) bool {
				for i := from; i < to; i++ {
					l.TakeAt(time.Unix(0, 0), strconv.Itoa(i), 1)
				}
				return l.Stats().OutsidePlan
			}
			require.False(t, send(0, keys), "%d keys, seed %d: %+v", keys, seed, l.Stats())
			require.True(t, send(keys, 3*keys), "%d keys, seed %d: %+v", keys, seed, l.Stats())
		}
	}
}

func TestStatsTellAnOverload(t *testing.T) {
	testkit.Computes(t)
	plan := build(t, sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 20_000}).Plan()
	require.EqualValues(t, 40_000, plan.Keys, "with headroom")
	for name, c := range map[string]sketchlimit.Config{
		"keys":   {Keys: 20_000},
		"plan":   {Plan: &plan},
		"memory": {MemoryBytes: 16 << 10}, // nobody said how many keys: the rate tells
	} {
		c.Limit, c.Window = 100, time.Minute
		l := build(t, c)
		send := func(keys, requests int) {
			for i := range keys * requests {
				l.TakeAt(time.Unix(0, 0), strconv.Itoa(i%keys), 1)
			}
		}
		send(38_000, 1)
		require.False(t, l.Stats().OutsidePlan, name)
		if send(44_000, 1); name != "memory" {
			require.True(t, l.Stats().OutsidePlan, name)
		}
		send(100_000, 6)
		s := l.Stats()
		require.True(t, s.OutsidePlan, "%s: %+v", name, s)
	}
}

// edited decides on requests of a few keys while its limit is changed now and then,
// saved and restored.
type edited struct {
	*sketchlimit.Limiter
	config sketchlimit.Config
	limits []int // one after the other, the first is that of the config
	now    time.Time
}

func (l *edited) change(t *testing.T, limit int) {
	t.Helper()
	next, err := l.WithLimit(l.now, limit, 0)
	require.NoError(t, err)
	require.Equal(t, l.MemoryBytes(), next.MemoryBytes())
	_, err = l.WithLimit(l.now, limit, 0)
	require.ErrorIs(t, err, errors.ErrUnsupported, "it has been replaced")
	l.Limiter, l.limits = next, append(l.limits, limit)
}

// restart saves the counts, and restores them to a limiter that has gone through as
// many limits.
func (l *edited) restart(t *testing.T) {
	t.Helper()
	var saved bytes.Buffer
	_, err := l.WriteTo(&saved)
	require.NoError(t, err)
	next, err := sketchlimit.New(l.config)
	require.NoError(t, err)
	most := l.limits[0]
	for _, limit := range l.limits {
		most = max(most, limit)
	}
	for _, limit := range []int{most, l.limits[len(l.limits)-1]} {
		if limit == next.Plan().Limit {
			continue
		}
		next, err = next.WithLimit(l.now, limit, 0)
		require.NoError(t, err)
	}
	_, err = next.ReadFrom(&saved)
	require.NoError(t, err)
	l.Limiter = next
}

// Whatever limits follow each other, a key has what is left of the present one:
// exactly, as few keys come.
func TestWithLimitOfWindows(t *testing.T) {
	for name, c := range map[string]sketchlimit.Config{
		"fixed":   {Algorithm: sketchlimit.FixedWindow},
		"sliding": {},
		"slots":   {SubWindows: 4},
	} {
		for _, limits := range [][]int{{2, 3, 5, 10, 20, 33, 120}, {200, 300, 511, 512, 4000, 8000}, {70_000, 140_000, 65_000, 9000}} {
			for seed := range uint64(2) {
				random := rand.New(rand.NewPCG(seed, 9))
				c.Window, c.Limit, c.Keys, c.Seed = time.Minute, limits[seed%2], 1000, seed+1
				slots := int64(max(1, c.SubWindows))
				slot := int64(c.Window) / slots
				var l *edited
				c.Clock = func() time.Time { return l.now }
				l = &edited{config: c, limits: []int{c.Limit}, now: time.Unix(1e9, 0)}
				var err error
				l.Limiter, err = sketchlimit.New(c)
				require.NoError(t, err)
				used := map[string]map[int64]int64{}
				limit := c.Limit
				for range 600 {
					switch random.IntN(30) {
					case 0, 1:
						limit = limits[random.IntN(len(limits))]
						l.change(t, limit)
					case 2:
						l.restart(t)
					}
					l.now = l.now.Add(time.Duration(random.Int64N(int64(c.Window) / 40)))
					key, n := fmt.Sprint(random.IntN(3)), 1+random.IntN(max(1, limit/4))
					counts := used[key]
					if counts == nil {
						counts = map[int64]int64{}
						used[key] = counts
					}
					at, into := l.now.UnixNano()/slot, l.now.UnixNano()%slot
					full, oldest := int64(0), int64(0)
					for age := range slots {
						full += counts[at-age]
					}
					if c.Algorithm == sketchlimit.SlidingWindow {
						oldest = counts[at-slots]
					} else {
						full = counts[at]
					}
					want := float64(int64(limit)-full-int64(n))*float64(slot) >= float64(oldest)*float64(slot-into)
					var d sketchlimit.Decision
					if random.IntN(2) == 0 {
						d = l.TakeAt(l.now, key, n)
					} else { // which reads no more than it must
						d.Allowed = l.AllowN(key, n)
					}
					require.Equal(t, want, d.Allowed, "%s, seed %d: %d of %d, oldest %d, and %d", name, seed, full, limit, oldest, n)
					if d.Allowed {
						counts[at] += int64(n)
					}
				}
			}
		}
	}
}

// Units of a bucket are as many units of the next limit's, and flow back at its rate
// from then on; each change costs a tick.
func TestWithLimitOfBuckets(t *testing.T) {
	for _, limits := range [][]int{{12, 18, 20, 10}, {4000, 2500, 3333, 2000}} {
		for seed := range uint64(10) {
			random := rand.New(rand.NewPCG(seed, 9))
			c := sketchlimit.Config{Algorithm: sketchlimit.TokenBucket, Window: time.Minute, Limit: limits[0], Keys: 1000, Seed: seed + 1}
			l := &edited{config: c, limits: []int{c.Limit}, now: time.Unix(1e9, 0)}
			var err error
			l.Limiter, err = sketchlimit.New(c)
			require.NoError(t, err)
			limit := c.Limit
			used, last := map[string]float64{}, l.now
			pass := func(d time.Duration) {
				l.now = l.now.Add(d)
				for key := range used {
					used[key] = max(0, used[key]-float64(limit)*l.now.Sub(last).Seconds()/60)
				}
				last = l.now
			}
			for i := range 600 {
				switch random.IntN(30) {
				case 0, 1:
					pass(time.Duration(random.Int64N(int64(time.Second))))
					limit = limits[random.IntN(len(limits))]
					l.change(t, limit)
				case 2:
					l.restart(t)
				}
				pass(time.Duration(random.Int64N(int64(time.Minute) / 20)))
				if i%200 == 100 {
					pass(20 * time.Minute) // over the end of a generation
				}
				key, n := fmt.Sprint(random.IntN(3)), 1+random.IntN(max(1, limit/4))
				over := used[key] + float64(n) - float64(limit)
				d := l.TakeAt(l.now, key, n)
				if d.Allowed {
					require.LessOrEqual(t, over, 1e-6, "seed %d", seed)
					used[key] += float64(n)
				} else {
					require.Greater(t, over, -0.01, "seed %d", seed)
				}
			}
		}
	}
}

// Decisions by the limiter of before and by the one that has taken over count together,
// whenever they come.
func TestWithLimitWhileDecisionsGoOn(t *testing.T) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.FixedWindow, sketchlimit.SlidingWindow, sketchlimit.TokenBucket} {
		now := time.Unix(1e9, 0)
		l, err := sketchlimit.New(sketchlimit.Config{
			Algorithm: algorithm, Limit: 1000, Window: time.Hour, Keys: 10_000, Clock: func() time.Time { return now },
		})
		require.NoError(t, err)
		var current atomic.Pointer[sketchlimit.Limiter]
		current.Store(l)
		group, err := sketchlimit.NewGroup(l)
		require.NoError(t, err)
		var admitted [8]atomic.Int64
		var done sync.WaitGroup
		for i := range admitted {
			done.Go(func() {
				key := fmt.Sprint(i % 4)
				for range 1500 {
					allowed := false
					switch i {
					case 4:
						allowed = l.Take(key, 1).Allowed
					case 5:
						allowed = group.Allow(key)
					default:
						allowed = current.Load().Allow(key)
					}
					if allowed {
						admitted[i%4].Add(1)
					}
				}
			})
		}
		for _, limit := range []int{1500, 1200, 2000, 1000} {
			next, err := current.Load().WithLimit(now, limit, 0)
			require.NoError(t, err)
			current.Store(next)
			runtime.Gosched()
		}
		done.Wait()
		for i := range 4 {
			require.LessOrEqual(t, admitted[i].Load(), int64(2000))
			least := int64(990)
			if algorithm == sketchlimit.TokenBucket {
				least /= 2 // a unit that is admitted at 1000 of 2000, by the limiter of before, flows back as slowly as two
			}
			require.GreaterOrEqual(t, admitted[i].Load(), least, "%v", algorithm)
		}
	}
}

func TestCheckMemory(t *testing.T) {
	require.NoError(t, sketchlimit.CheckMemory(1<<20))
	require.NoError(t, sketchlimit.CheckMemory(-1))
	if most, _, ok := machine.Memory(); ok && most < math.MaxInt {
		require.NoError(t, sketchlimit.CheckMemory(int(most)))
		require.ErrorContains(t, sketchlimit.CheckMemory(int(most)+1), fmt.Sprintf("%d bytes, must be at most %d: the memory", most+1, most))
	}
}
