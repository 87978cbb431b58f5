package exact

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/metrics"
)

// liveBytes returns the heap after a collection.
func liveBytes() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A flood of a million strangers' keys takes no more memory than the bound on keys
// allows, whatever is done about it.
func TestFloodStaysWithinMaxKeys(t *testing.T) {
	testkit.Computes(t)
	const most = 10_000
	for _, full := range []Full{DenyNew, DropIdle} {
		before := liveBytes()
		l := must(NewSlidingWindow(10, time.Hour, MaxKeys(most, full)))
		require.True(t, l.TakeAt(noon, "known", 1).Allowed)
		admitted, key, flood := 0, make([]byte, 8), 1_000_000
		if full == DropIdle && testing.Short() {
			flood = 100_000
		}
		for i := range flood {
			binary.LittleEndian.PutUint64(key, uint64(i))
			if l.Do(sketchlimit.Request{Bytes: key, Time: noon}).Allowed {
				admitted++
			}
			if i%100_000 == 0 {
				require.LessOrEqual(t, l.Keys(), most)
			}
		}
		held := l.Held()
		require.LessOrEqual(t, held.Keys, most)
		bytes := liveBytes() - before
		require.Less(t, bytes, 200*most, "the heap's bytes")
		require.InEpsilon(t, bytes, l.MemoryBytes(), 0.25)
		switch full {
		case DenyNew:
			require.Equal(t, most-1, admitted)
			require.Equal(t, Held{Keys: most, Refused: uint64(flood - most + 1)}, held)
			require.Equal(t, 9, l.PeekAt(noon, "known", 1).Remaining, "what is held stays")
			peek, d := l.PeekAt(noon, "late", 1), l.TakeAt(noon, "late", 1)
			require.Equal(t, peek, d)
			require.Equal(t, sketchlimit.Decision{Limit: 10, RetryAfter: d.RetryAfter}, d, "nothing is free")
			require.True(t, l.TakeAt(noon.Add(d.RetryAfter), "late", 1).Allowed, "after RetryAfter there is room")
		case DropIdle:
			require.Equal(t, flood, admitted)
			require.EqualValues(t, flood+1-held.Keys, held.Dropped)
			require.EqualValues(t, held.Dropped, held.DroppedUnits)
		}
		runtime.KeepAlive(l)
	}
}

// A key in use stays while idle ones are dropped.
func TestDropIdleKeepsWhatIsUsed(t *testing.T) {
	l := must(NewFixedWindow(1_000_000, time.Hour, MaxKeys(1000, DropIdle)))
	for i := range 200_000 {
		l.TakeAt(noon, strconv.Itoa(i), 1)
		if i%50 == 0 {
			l.TakeAt(noon, "busy", 1)
		}
	}
	used := 1_000_000 - l.PeekAt(noon, "busy", 1).Remaining
	require.Equal(t, 200_000/50, used)
}

// Under DropIdle a key counts above its limit by no more than the units that were
// forgotten. The oracle is a limiter without a bound, which is charged with all that
// was admitted.
func TestDropIdleOverAdmitsNoMoreThanItCounts(t *testing.T) {
	type build func(...Option) Limiter
	for name, build := range map[string]build{
		"FixedWindow":   func(o ...Option) Limiter { return must(NewFixedWindow(8, time.Second, o...)) },
		"SlidingWindow": func(o ...Option) Limiter { return must(NewSlidingWindow(8, time.Second, o...)) },
		"SlidingLog":    func(o ...Option) Limiter { return must(NewSlidingLog(8, time.Second, o...)) },
		"GCRA":          func(o ...Option) Limiter { return must(NewGCRA(8, time.Second, 8, o...)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := random(5)
			l, oracle := build(MaxKeys(20, DropIdle)), build()
			now, over := noon, 0
			for i := range 20_000 {
				now = now.Add(time.Duration(r.IntN(20)) * ms)
				key, n := strconv.Itoa(r.IntN(1+r.IntN(40))), 1+r.IntN(3)
				d := l.TakeAt(now, key, n)
				require.LessOrEqual(t, l.Keys(), 20)
				if i%50 == 0 {
					require.LessOrEqual(t, aboveAll(oracle, now), int(l.Held().DroppedUnits))
				}
				if !d.Allowed {
					continue
				}
				over += oracle.Charge(now, key, n)
			}
			held := l.Held()
			require.Positive(t, held.Dropped)
			require.Positive(t, over, "the test must reach what it tests")
		})
	}
}

// aboveAll returns by how many units all keys together count above the limit.
func aboveAll(l Limiter, now time.Time) (units int) {
	for key := range 40 {
		units += max(0, l.DoCharge(sketchlimit.Request{Key: strconv.Itoa(key), N: 1 << 20, Time: now, Peek: true})-1<<20)
	}
	return units
}

// Under DenyNew nothing is over-admitted: what is held is exact, and what is not is
// refused.
func TestDenyNewIsExact(t *testing.T) {
	r := random(6)
	l, oracle := must(NewSlidingWindow(8, time.Second, MaxKeys(20, DenyNew))), must(NewSlidingWindow(8, time.Second))
	now, admitted := noon, 0
	for range 20_000 {
		now = now.Add(time.Duration(r.IntN(20)) * ms)
		key, n := strconv.Itoa(r.IntN(1+r.IntN(60))), 1+r.IntN(3)
		peek := l.Do(sketchlimit.Request{Key: key, N: n, Time: now, Peek: true})
		d := l.TakeAt(now, key, n)
		require.LessOrEqual(t, l.Keys(), 20)
		if peek.Allowed {
			require.True(t, d.Allowed, "what a peek has promised")
		}
		if d.Allowed {
			admitted++
			require.Zero(t, oracle.Charge(now, key, n))
		}
	}
	require.Greater(t, admitted, 5000)
	require.Positive(t, l.Held().Refused)
	require.Zero(t, l.Held().Dropped)
}

// Many goroutines on few places: never more keys than may be, never more units than the
// limit and what was forgotten.
func TestMaxKeysAtOnce(t *testing.T) {
	for _, full := range []Full{DenyNew, DropIdle} {
		l := must(NewFixedWindow(5, time.Hour, MaxKeys(300, full)))
		var units [400]atomic.Int64
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				r := random(worker)
				for range 2000 {
					key := r.IntN(len(units))
					if l.TakeAt(noon, strconv.Itoa(key), 1).Allowed {
						units[key].Add(1)
					}
					if r.IntN(50) == 0 {
						l.Held()
						for range l.All() {
							break
						}
					}
				}
			})
		}
		wg.Wait()
		above := int64(0)
		for i := range units {
			above += max(0, units[i].Load()-5)
		}
		held := l.Held()
		require.LessOrEqual(t, held.Keys, 300)
		require.LessOrEqual(t, above, int64(held.DroppedUnits))
		n := 0
		for i := range l.shards {
			n += l.shards[i].keys
		}
		require.Equal(t, held.Keys, n)
	}
}

// Reset gives a key its whole quota back, while others decide: what is admitted is the
// limit for each time.
func TestReset(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		require.False(t, l.Reset("key"))
		require.Equal(t, limit, admitted(l, noon, limit+3))
		require.True(t, l.Reset("key"))
		require.Zero(t, l.Keys())
		require.Equal(t, limit, admitted(l, noon, limit+3))

		var resets, units atomic.Int64
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 200 {
					if l.TakeAt(noon, "raced", 1).Allowed {
						units.Add(1)
					}
					if i%20 == worker && l.Reset("raced") {
						resets.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, units.Load(), int64(limit)*(resets.Load()+1))
		require.GreaterOrEqual(t, units.Load(), int64(limit))
	})
}

// Keys are listed, reset and counted while others decide.
func TestEverythingAtOnce(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				r := random(worker)
				for range 300 {
					key, now := strconv.Itoa(r.IntN(5)), noon.Add(time.Duration(r.IntN(5000))*ms)
					switch r.IntN(6) {
					case 0:
						for key, d := range l.All() {
							require.NotEmpty(t, key)
							require.Positive(t, d.ResetAfter)
						}
					case 1:
						l.Reset(key)
					case 2:
						l.DoCharge(sketchlimit.Request{Key: key, Time: now})
					case 3:
						l.Stats()
						l.Held()
						l.MemoryBytes()
					default:
						l.Do(sketchlimit.Request{Key: key, Time: now, Peek: r.IntN(2) == 0})
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestAllListsWhatIsUsed(t *testing.T) {
	now := noon
	l := must(NewSlidingWindow(10, time.Minute, Clock(func() time.Time { return now })))
	want := map[string]int{}
	for i := range 1000 {
		key := fmt.Sprint("key ", i)
		l.Take(key, 1+i%10)
		want[key] = 9 - i%10
	}
	got := map[string]int{}
	for key, d := range l.All() {
		got[key] = d.Remaining
		require.Equal(t, l.Peek(key), d)
	}
	require.Equal(t, want, got)
	now = noon.Add(time.Hour)
	for key := range l.All() {
		t.Fatal(key, "has its whole quota back")
	}
}

// A request of the interface is the same as the short forms, whatever its key is made of.
func TestDo(t *testing.T) {
	now := noon
	l := must(NewSlidingWindow(10, time.Minute, Clock(func() time.Time { return now })))
	do := func(r sketchlimit.Request) int { return l.Do(r).Remaining }
	require.Equal(t, 9, do(sketchlimit.Request{Key: "key"}), "N is 1 if it is not set")
	require.Equal(t, 7, do(sketchlimit.Request{Bytes: []byte("key"), N: 2}))
	require.Equal(t, 7, do(sketchlimit.Request{Key: "key", Peek: true}))
	require.Equal(t, sketchlimit.Never, l.Do(sketchlimit.Request{Key: "key", N: -1}).RetryAfter)
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1%eth0")
	require.Equal(t, 9, do(sketchlimit.Request{Addr: v4}))
	require.Equal(t, 8, do(sketchlimit.Request{Addr: netip.AddrFrom16(v4.As16())}))
	require.Equal(t, 7, do(sketchlimit.Request{Bytes: v4.AsSlice()}))
	require.Equal(t, 9, do(sketchlimit.Request{Addr: v6}))
	require.Equal(t, 8, do(sketchlimit.Request{Addr: v6.WithZone("")}))
	now = now.Add(3 * time.Minute)
	require.Equal(t, 9, do(sketchlimit.Request{Key: "key"}))
}

// A lower limit of the request's own is the same algorithm with that limit, over the
// same counts.
func TestOwnLimits(t *testing.T) {
	for name, build := range map[string]func(int) Limiter{
		"FixedWindow":   func(n int) Limiter { return must(NewFixedWindow(n, time.Second)) },
		"SlidingLog":    func(n int) Limiter { return must(NewSlidingLog(n, time.Second)) },
		"SlidingWindow": func(n int) Limiter { return must(NewSlidingWindow(n, time.Second)) },
		"Slots":         func(n int) Limiter { return must(NewSlots(n, time.Second, 4)) },
	} {
		t.Run(name, func(t *testing.T) {
			r, now, l := random(7), noon, build(20)
			oracles := map[int]Limiter{3: build(3), 11: build(11), 20: build(20)}
			denied := 0
			for range 5000 {
				now = now.Add(time.Duration(r.IntN(100)) * ms)
				limit, n := []int{3, 11, 20}[r.IntN(3)], 1+r.IntN(4)
				want := oracles[limit].PeekAt(now, "key", n)
				d := l.Do(sketchlimit.Request{Key: "key", N: n, Limit: limit, Time: now})
				require.Equal(t, want.Allowed, d.Allowed)
				require.Equal(t, want.RetryAfter, d.RetryAfter)
				require.Equal(t, limit, d.Limit)
				if !d.Allowed {
					require.Equal(t, want, d)
					denied++
					continue
				}
				for _, o := range oracles {
					o.Charge(now, "key", n)
				}
			}
			require.Greater(t, denied, 500)
			require.Equal(t, sketchlimit.Never, l.Do(sketchlimit.Request{Key: "key", Limit: -1}).RetryAfter)
			require.Equal(t, 20, l.Do(sketchlimit.Request{Key: "other", Limit: 1000}).Limit)
		})
	}
	l := must(NewGCRA(10, time.Second, 10))
	require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never}, l.Do(sketchlimit.Request{Key: "key", Limit: 9}))
	require.EqualValues(t, 1, l.Stats().TooLow)
}

func TestOf(t *testing.T) {
	clock := func() time.Time { return noon }
	c := sketchlimit.Config{Limit: 10, Window: time.Minute, Clock: clock}
	for want, change := range map[string]func(*sketchlimit.Config){
		"*exact.SlidingWindow": func(*sketchlimit.Config) {},
		"*exact.Slots":         func(c *sketchlimit.Config) { c.SubWindows = 6 },
		"*exact.FixedWindow":   func(c *sketchlimit.Config) { c.Algorithm = sketchlimit.FixedWindow },
		"*exact.GCRA":          func(c *sketchlimit.Config) { c.Algorithm, c.Burst = sketchlimit.TokenBucket, 20 },
	} {
		c := c
		change(&c)
		l, err := Of(c, MaxKeys(5, DenyNew))
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprintf("%T", l))
		require.Equal(t, time.Minute, l.Window())
		require.Zero(t, l.LowestLimit())
		require.Equal(t, 10, l.Peek("key").Limit)
		for i := range 10 {
			require.Equal(t, i < 5, l.Allow(strconv.Itoa(i)))
		}
		c.LowestLimit = 4
		l, err = Of(c)
		require.NoError(t, err)
		if c.Algorithm == sketchlimit.TokenBucket {
			require.Zero(t, l.LowestLimit())
			require.False(t, l.Do(sketchlimit.Request{Key: "key", Limit: 4}).Allowed)
			continue
		}
		require.Equal(t, 4, l.LowestLimit())
		require.False(t, l.Do(sketchlimit.Request{Key: "key", Limit: 3}).Allowed)
		require.True(t, l.Do(sketchlimit.Request{Key: "key", Limit: 4}).Allowed)
	}
	c.LowestLimit = 11
	_, err := Of(c)
	require.EqualError(t, err, "exact: LowestLimit 11, must be 0 … Limit 10")
	_, err = Of(sketchlimit.Config{Limit: 0, Window: time.Second})
	require.EqualError(t, err, "exact: limit 0, must be 1 … 2147483647")
	_, err = Of(sketchlimit.Config{Limit: 1, Window: 60})
	require.EqualError(t, err, "exact: Window 60ns, must be at least 1ms: a number without a unit is nanoseconds, was 60 * time.Second meant?")
}

func TestOptionErrors(t *testing.T) {
	for want, o := range map[string]Option{
		"exact: MaxKeys 0, must be at least 1":                    MaxKeys(0, DenyNew),
		"exact: MaxKeys with Full 2, must be DenyNew or DropIdle": MaxKeys(1, 2),
		"exact: Clock nil, must be a function":                    Clock(nil),
		"exact: option 0 nil, must be one":                        nil,
	} {
		l, err := NewGCRA(1, time.Second, 1, o)
		require.EqualError(t, err, want)
		require.Nil(t, l)
	}
}

func TestStatsAndMetrics(t *testing.T) {
	l := must(NewFixedWindow(5, time.Hour, Clock(func() time.Time { return noon })))
	l.Take("key", 3)
	l.Take("key", 4)
	l.Take("key", 1_000_000)
	require.Equal(t, 2, l.DoCharge(sketchlimit.Request{Key: "key", N: 4}))
	l.Do(sketchlimit.Request{Key: "key", Limit: 1})
	stats := l.Stats()
	require.Equal(t, sketchlimit.Stats{Admitted: 7, Denied: 4 + 5 + 1, Overdraft: 2, DistinctKeys: 1}, stats)
	samples, err := metrics.Limiters(maps.All(map[string]Limiter{"a": l})).Read(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, samples)
}

func TestDecisionsAllocateNothing(t *testing.T) {
	l := must(NewSlidingWindow(1<<30, time.Hour))
	key, addr := []byte("some key"), netip.MustParseAddr("2001:db8::1")
	l.Allow("some key")
	l.Do(sketchlimit.Request{Addr: addr})
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		l.Allow("some key")
		l.Do(sketchlimit.Request{Bytes: key})
		l.Do(sketchlimit.Request{Addr: addr, Peek: true})
		l.Do(sketchlimit.Request{Addr: addr})
	}))
}
