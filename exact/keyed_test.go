package exact

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// ms is the unit of most tables.
const ms = time.Millisecond

// noon is a start for tables: an edge of every window that divides a day.
var noon = time.Date(2024, 2, 24, 12, 0, 0, 0, time.UTC)

// clock is the moment of day that a document's example names, as hh:mm:ss.
func clock(s string) time.Time {
	t, err := time.Parse(time.DateTime, "2024-02-24 "+s)
	if err != nil {
		panic(err)
	}
	return t
}

// must unwraps a constructor's answer.
func must[L any](l L, err error) L {
	if err != nil {
		panic(err)
	}
	return l
}

// step is a request of n units, at a time after the start, and its answer.
type step struct {
	at   time.Duration
	n    int
	want sketchlimit.Decision // without Limit
}

func yes(remaining int, reset time.Duration) sketchlimit.Decision {
	return sketchlimit.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset}
}

func no(remaining int, retry, reset time.Duration) sketchlimit.Decision {
	return sketchlimit.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
}

// take walks a table. Each request is peeked first: TakeAt must answer what PeekAt
// has announced, and a denial must leave the key as it was.
func take(t *testing.T, l Limiter, start time.Time, steps ...step) {
	t.Helper()
	for i, s := range steps {
		now := start.Add(s.at)
		before := l.PeekAt(now, "key", s.n)
		got := l.TakeAt(now, "key", s.n)
		require.Equal(t, before.Allowed, got.Allowed, "step %d", i)
		require.Equal(t, before.RetryAfter, got.RetryAfter, "step %d", i)
		if !got.Allowed {
			require.Equal(t, before, got, "step %d", i)
		}
		got.Limit = 0
		require.Equal(t, s.want, got, "step %d, %d units at %v", i, s.n, s.at)
	}
}

// admitted counts how many of so many requests for one unit pass at one instant.
func admitted(l Limiter, now time.Time, requests int) (n int) {
	for range requests {
		if l.TakeAt(now, "key", 1).Allowed {
			n++
		}
	}
	return n
}

// five are all algorithms with a limit of 5 and a window (or what stands for it) of
// a second; MinInterval can only have 1.
func five() map[string]Limiter {
	return map[string]Limiter{
		"FixedWindow":    must(NewFixedWindow(5, time.Second)),
		"SlidingLog":     must(NewSlidingLog(5, time.Second)),
		"SlidingWindow":  must(NewSlidingWindow(5, time.Second)),
		"Slots":          must(NewSlots(5, time.Second, 4)),
		"TokenBucket":    must(NewTokenBucket(5, time.Second, 5)),
		"DiscreteBucket": must(NewDiscreteBucket(5, time.Second/5, 1)),
		"LeakyQueue":     must(NewLeakyQueue(5, time.Second/5)),
		"LeakyMeter":     must(NewLeakyMeter(5, time.Second, 5)),
		"GCRA":           must(NewGCRA(5, time.Second, 5)),
		"MinInterval":    must(NewMinInterval(time.Second)),
	}
}

func eachOfFive(t *testing.T, test func(t *testing.T, l Limiter, limit int)) {
	for name, l := range five() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, l, l.PeekAt(noon, "key", 1).Limit)
		})
	}
}

func TestNewKey(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		want := sketchlimit.Decision{Allowed: true, Limit: limit, Remaining: limit}
		require.Equal(t, want, l.PeekAt(noon, "key", limit))
		require.Zero(t, l.Keys(), "a peek is not remembered")
	})
}

func TestCostOutOfRangeIsNeverAdmitted(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		want := sketchlimit.Decision{Limit: limit, Remaining: limit, RetryAfter: sketchlimit.Never}
		for _, n := range []int{math.MinInt, -1, 0, limit + 1, math.MaxInt} {
			require.Equal(t, want, l.PeekAt(noon, "key", n), "%d units", n)
			require.Equal(t, want, l.TakeAt(noon, "key", n), "%d units", n)
		}
		l.Charge(noon, "key", 0)
		l.Charge(noon, "key", -1)
		require.Zero(t, l.Keys())
	})
}

// A flood of denied requests must not keep its sender out.
func TestDeniedRequestsChangeNothing(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		require.True(t, l.TakeAt(noon, "key", limit).Allowed)
		retry := l.PeekAt(noon, "key", limit).RetryAfter
		for now := time.Duration(0); now < retry; now += retry/1000 + 1 {
			require.Equal(t, retry-now, l.TakeAt(noon.Add(now), "key", limit).RetryAfter)
		}
		require.True(t, l.TakeAt(noon.Add(retry), "key", limit).Allowed)
	})
}

func TestKeysAreSeparate(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		require.True(t, l.TakeAt(noon, "a", limit).Allowed)
		require.False(t, l.TakeAt(noon, "a", 1).Allowed)
		require.True(t, l.TakeAt(noon, "", limit).Allowed, "the empty key is a key")
		require.Equal(t, 2, l.Keys())
	})
}

// However much is charged, the key is free again ResetAfter later.
func TestChargePastTheLimit(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		for _, n := range []int{limit + 1, 1, 1000, math.MaxInt, math.MaxInt} {
			l.Charge(noon, "key", n)
			d := l.PeekAt(noon, "key", 1)
			require.False(t, d.Allowed)
			require.Zero(t, d.Remaining)
			require.Positive(t, d.RetryAfter)
			require.LessOrEqual(t, d.RetryAfter, d.ResetAfter)
			free := noon.Add(d.ResetAfter)
			require.Equal(t, limit, l.PeekAt(free, "key", 1).Remaining)
			require.Zero(t, l.PeekAt(free, "key", 1).ResetAfter)
			require.True(t, l.PeekAt(free, "key", limit).Allowed)
		}
	})
}

// The zero Time, the years that an int64 of nanoseconds cannot hold and the ends of
// what a Time can: nothing panics, and answers stay in range.
func TestAnyTime(t *testing.T) {
	times := []time.Time{
		{}, time.Unix(math.MinInt64, 0), time.Date(1677, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(-1, 0), time.Unix(0, 0),
		noon, time.Unix(0, math.MaxInt64), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(math.MaxInt64, 999999999),
		noon, {},
	}
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		for _, now := range times {
			for _, key := range []string{"a", "b" + now.String()} {
				d := l.TakeAt(now, key, 1)
				require.GreaterOrEqual(t, d.RetryAfter, time.Duration(0))
				require.GreaterOrEqual(t, d.ResetAfter, time.Duration(0))
				require.Less(t, d.ResetAfter, sketchlimit.Never)
				require.True(t, 0 <= d.Remaining && d.Remaining <= limit)
				l.Charge(now, key, limit)
				require.False(t, l.TakeAt(now, key, 1).Allowed)
			}
		}
	})
}

// The largest windows and debts there are stay inside an int64 at both ends of time.
func TestLargestSpans(t *testing.T) {
	const most = time.Duration(exactmath.MaxSpan)
	for name, l := range map[string]Limiter{
		"FixedWindow":    must(NewFixedWindow(exactmath.MaxUnits, most)),
		"SlidingLog":     must(NewSlidingLog(exactmath.MaxUnits, most)),
		"SlidingWindow":  must(NewSlidingWindow(exactmath.MaxUnits, most)),
		"Slots":          must(NewSlots(exactmath.MaxUnits, most, maxSlots)),
		"TokenBucket":    must(NewTokenBucket(1, most, 1)),
		"DiscreteBucket": must(NewDiscreteBucket(1, most, 1)),
		"LeakyQueue":     must(NewLeakyQueue(1, most)),
		"LeakyMeter":     must(NewLeakyMeter(1, most, 1)),
		"GCRA":           must(NewGCRA(1, most, 1)),
		"MinInterval":    must(NewMinInterval(most)),
	} {
		for i, now := range []time.Time{{}, noon, time.Unix(math.MaxInt64, 0)} {
			key := strconv.Itoa(i)
			limit := l.PeekAt(now, key, 1).Limit
			l.Charge(now, key, math.MaxInt)
			l.Charge(now, key, math.MaxInt)
			d := l.TakeAt(now, key, limit)
			require.False(t, d.Allowed, name)
			require.True(t, 0 < d.RetryAfter && d.RetryAfter <= 2*most, "%s: %v", name, d)
			require.True(t, d.RetryAfter <= d.ResetAfter && d.ResetAfter <= 2*most, "%s: %v", name, d)
		}
	}
}

// The latest generation is the limiter's: another key's request moves it, a peek does
// not, and an earlier time is its first instant.
func TestAlignedClockNeverReopensAWindow(t *testing.T) {
	for name, l := range map[string]Limiter{
		"FixedWindow":   must(NewFixedWindow(4, time.Second)),
		"SlidingWindow": must(NewSlidingWindow(4, time.Second)),
		"Slots":         must(NewSlots(4, 2*time.Second, 2)),
	} {
		t.Run(name, func(t *testing.T) {
			at := func(d time.Duration) sketchlimit.Decision { return l.PeekAt(noon.Add(d), "key", 4) }
			l.Charge(noon.Add(300*ms), "key", 3)
			before := at(400 * ms)
			l.PeekAt(noon.Add(1500*ms), "other", 1)
			require.Equal(t, before, at(400*ms), "a peek moves no clock")
			l.TakeAt(noon.Add(1500*ms), "other", 0) // denied, and yet seen
			start := at(1000 * ms)
			require.Equal(t, longer(start, 600*ms), at(400*ms))
			require.Equal(t, longer(start, time.Hour+time.Second), at(-time.Hour))
			require.Equal(t, start.Remaining, l.PeekAt(time.Time{}, "key", 4).Remaining)
			require.Equal(t, max(0, start.ResetAfter-100*ms), at(1100*ms).ResetAfter, "inside the latest, back is back")
		})
	}
}

// The other limiters' time is the key's: no request of another key moves it, and an
// earlier time than its last admitted request is the time of that request.
func TestKeyClockNeverRunsBack(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		if k, ok := l.(interface{ aligned() bool }); ok && k.aligned() {
			t.Skip("has one clock for all keys")
		}
		year := noon.AddDate(1, 0, 0)
		require.True(t, l.TakeAt(year, "other", 1).Allowed)
		require.True(t, l.TakeAt(noon, "key", limit).Allowed)
		d := l.PeekAt(noon, "key", 1)
		require.Equal(t, longer(d, time.Hour), l.TakeAt(noon.Add(-time.Hour), "key", 1), "and has to come again first")
		require.Equal(t, d.Remaining, l.TakeAt(time.Time{}, "key", 1).Remaining)
		require.True(t, l.TakeAt(noon.Add(d.RetryAfter), "key", 1).Allowed)
	})
}

// longer returns a decision whose durations are longer.
func longer(d sketchlimit.Decision, by time.Duration) sketchlimit.Decision {
	if d.RetryAfter > 0 {
		d.RetryAfter += by
	}
	if d.ResetAfter > 0 {
		d.ResetAfter += by
	}
	return d
}

func (k *keyed[S]) aligned() bool { return k.align > 0 }

// A million keys (twenty thousand for all but one) that come once each, a thousand a
// second.
func TestMemoryFollowsTheLiveKeys(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, _ int) {
		keys := 20_000
		if _, ok := l.(*SlidingWindow); ok && !testing.Short() {
			keys = 1_000_000
		}
		for i := range keys {
			d := l.TakeAt(noon.Add(time.Duration(i)*ms), strconv.Itoa(i), 1)
			if !d.Allowed || d.ResetAfter > 2*time.Second || l.Keys() > 2*2000 { // so 2000 live at most
				t.Fatalf("request %d: %+v, %d keys", i, d, l.Keys())
			}
		}
		l.(interface{ sweep(int64) }).sweep(noon.Add(time.Duration(keys) * ms).Add(time.Hour).UnixNano())
		require.Zero(t, l.Keys())
	})
}

// governor's keyed test (foo@0, bar@200ms, baz@800ms at 1/s) keeps every key a second
// longer than this: there it takes a whole further period to be forgotten, here a key
// goes as soon as it is as good as new.
func TestSweepGovernor(t *testing.T) {
	g := must(NewGCRA(1, time.Second, 1))
	for key, at := range map[string]time.Duration{"foo": 0, "bar": 200 * ms, "baz": 800 * ms} {
		require.True(t, g.TakeAt(noon.Add(at), key, 1).Allowed)
	}
	for _, c := range []struct {
		at   time.Duration
		keys int
	}{{800 * ms, 3}, {1000 * ms, 2}, {1200*ms - 1, 2}, {1200 * ms, 1}, {1800 * ms, 0}} {
		g.sweep(noon.Add(c.at).UnixNano())
		require.Equal(t, c.keys, g.Keys(), "at %v", c.at)
	}
}

func TestConcurrentAdmissionsStayWithinTheLimit(t *testing.T) {
	eachOfFive(t, func(t *testing.T, l Limiter, limit int) {
		var units [3]atomic.Int64
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				for i := range 100 {
					key := (g + i) % len(units)
					if d := l.TakeAt(noon, strconv.Itoa(key), 1); d.Allowed {
						units[key].Add(1)
					}
					l.PeekAt(noon, strconv.Itoa(key), limit)
					l.Charge(noon, "charged", 1)
					l.Keys()
				}
			})
		}
		wg.Wait()
		for key := range units {
			require.EqualValues(t, limit, units[key].Load())
		}
	})
}

func TestShortForms(t *testing.T) {
	g := must(NewGCRA(1, time.Hour, 2))
	require.True(t, g.Allow("key"))
	require.True(t, g.Take("key", 1).Allowed)
	require.False(t, g.Allow("key"))
}

func TestConstructorErrors(t *testing.T) {
	const span = "must be 1ns … 640511h56m49.213693952s"
	build := func(_ any, err error) error { return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{build(NewFixedWindow(0, time.Second)), "exact: limit 0, must be 1 … 2147483647"},
		{build(NewFixedWindow(math.MinInt32, time.Second)), "exact: limit -2147483648, must be 1 … 2147483647"},
		{build(NewSlidingLog(1, 0)), "exact: window 0s, " + span},
		{build(NewSlidingLog(1, exactmath.MaxSpan+1)), "exact: window 640511h56m49.213693953s, " + span},
		{build(NewSlidingWindow(-1, -1)), "exact: limit -1, must be 1 … 2147483647"},
		{build(NewSlots(0, time.Second, 1)), "exact: limit 0, must be 1 … 2147483647"},
		{build(NewSlots(1, time.Second, 0)), "exact: slots 0, must be 1 … 65536"},
		{build(NewSlots(1, time.Second, 7)), "exact: window 1s, must be a multiple of 7 slots: 6ns is left over"},
		{build(NewTokenBucket(1, -1, 1)), "exact: window -1ns, " + span},
		{build(NewLeakyMeter(1, 1, 0)), "exact: burst 0, must be 1 … 2147483647"},
		{
			build(NewGCRA(7, 24*time.Hour, 1<<30)),
			"exact: burst 1073741824, must be 1 … 26687 for a limit of 7 per 24h0m0s to be counted exactly",
		},
		{build(NewLeakyQueue(0, 1)), "exact: capacity 0, must be 1 … 2147483647"},
		{build(NewLeakyQueue(1, 0)), "exact: interval 0s, " + span},
		{build(NewLeakyQueue(3, exactmath.MaxSpan/2)), "exact: capacity 3, must be 1 … 2 at one every 320255h58m24.606846976s"},
		{build(NewDiscreteBucket(0, 1, 1)), "exact: maxAmount 0, must be 1 … 2147483647"},
		{build(NewDiscreteBucket(1, 0, 1)), "exact: refillTime 0s, " + span},
		{build(NewDiscreteBucket(1, 1, 0)), "exact: refillAmount 0, must be 1 … 2147483647"},
		{
			build(NewDiscreteBucket(9, exactmath.MaxSpan/2, 4)),
			"exact: maxAmount 9, must be 1 … 8 with 4 refilled every 320255h58m24.606846976s",
		},
		{build(NewMinInterval(0)), "exact: interval 0s, " + span},
	} {
		require.EqualError(t, c.err, c.want)
	}
}

// The caller may reuse the memory of a key.
func TestKeysAreCopied(t *testing.T) {
	g, buffer := must(NewGCRA(1, time.Hour, 1)), []byte("key")
	require.True(t, g.TakeAt(noon, unsafe.String(&buffer[0], 3), 1).Allowed)
	copy(buffer, "yek")
	require.False(t, g.TakeAt(noon, "key", 1).Allowed)
	require.True(t, g.TakeAt(noon, "yek", 1).Allowed)
}

// random draws reproducibly.
func random(seed int) *rand.Rand { return rand.New(rand.NewPCG(1, uint64(seed))) }

// The memory that the types' docs state, without slices' contents. TestLogEntrySize of
// exactmath has those of a log.
func TestStateSizes(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("sizes of 64-bit machines")
	}
	for size, states := range map[int][]any{
		8:  {int64(0)},
		16: {exactmath.WindowCount{}, exactmath.Tokens{}, exactmath.Water{}, exactmath.Queue{}},
		24: {exactmath.WindowPair{}, exactmath.Portions{}, exactmath.Arrival{}},
		32: {exactmath.Ring{}, exactmath.TimeLog{}},
	} {
		for _, s := range states {
			require.EqualValues(t, size, reflect.TypeOf(s).Size(), "%T", s)
		}
	}
}

// A key's first sight is copied, and later ones must not take its place: a key is
// often a piece of a request, which would be kept for it.
func TestKeysAreNotTheCallersMemory(t *testing.T) {
	l, err := NewFixedWindow(10, time.Minute)
	require.NoError(t, err)
	for range 3 {
		buffer := []byte("203.0.113.7 and the rest of the request")
		key := unsafe.String(&buffer[0], 11)
		l.TakeAt(time.Unix(0, 0), key, 1)
		clear(buffer)
	}
	require.Equal(t, 1, l.Keys())
	require.Equal(t, 7, l.PeekAt(time.Unix(0, 0), "203.0.113.7", 1).Remaining)
}

// state returns what is remembered of a key.
func (k *keyed[S]) state(key string) S {
	h := k.hash(key)
	if b, i := k.shard(h).find(h, key); b != nil {
		return b.entries[i].state
	}
	return k.unseen
}
