package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

func yes(left int, reset time.Duration) sketchlimit.Decision {
	return sketchlimit.Decision{Allowed: true, Remaining: left, ResetAfter: reset}
}

func no(left int, retry, reset time.Duration) sketchlimit.Decision {
	return sketchlimit.Decision{Remaining: left, RetryAfter: retry, ResetAfter: reset}
}

// perSecond is a bucket of so many units, at the epoch.
func perSecond(t testing.TB, limit, burst int) *sketchlimit.Limiter {
	return build(t, sketchlimit.Config{Limit: limit, Window: time.Second, Burst: burst, Algorithm: sketchlimit.TokenBucket})
}

// The table that throttled (rate_test.go) and redis-cell share: 1 a second, 5 at once.
// Their retry of -1 is 0 for an admitted request, Never for one above the burst.
func TestBucketThrottledAndRedisCell(t *testing.T) {
	for _, c := range []sketchlimit.Config{
		{Limit: 5, Window: 5 * time.Second},
		{Limit: 1, Window: time.Second, Burst: 5},
	} {
		c.Algorithm = sketchlimit.TokenBucket
		l := build(t, c)
		run(t, l, []step{
			{0, 6, no(5, sketchlimit.Never, 0)},
			{0, 1, yes(4, 1000*ms)},
			{0, 1, yes(3, 2000*ms)},
			{0, 1, yes(2, 3000*ms)},
			{0, 1, yes(1, 4000*ms)},
			{0, 1, yes(0, 5000*ms)},
			{0, 1, no(0, 1000*ms, 5000*ms)},
			{3000 * ms, 1, yes(2, 3000*ms)},
			{3100 * ms, 1, yes(1, 3900*ms)},
			{4000 * ms, 1, yes(1, 4000*ms)},
			{8000 * ms, 1, yes(4, 1000*ms)},
			{9500 * ms, 1, yes(4, 1000*ms)},
		})
		peek := yes(4, 1000*ms) // they ask for 0 units
		peek.Limit = c.Limit
		require.Equal(t, peek, l.Do(sketchlimit.Request{Time: time.Unix(9, int64(500*ms)), Key: "k", Peek: true}))
		run(t, l, []step{
			{9500 * ms, 2, yes(2, 3000*ms)},
			{9500 * ms, 5, no(2, 3000*ms, 3000*ms)},
			{15000 * ms, 6, no(5, sketchlimit.Never, 0)},
		})
	}
}

// The examples of articles that the exact algorithms are held against
// (exact/tokenbucket_test.go says where the articles' own arithmetic is wrong).
func TestBucketExamples(t *testing.T) {
	run(t, perSecond(t, 1, 5), []step{ // Massuia, "Rate Limiters" (2024)
		{1100 * ms, 1, yes(4, 1000*ms)},
		{1200 * ms, 3, yes(1, 3900*ms)},
		{1300 * ms, 1, yes(0, 4800*ms)},
		{1300 * ms, 1, no(0, 800*ms, 4800*ms)},
		{2100 * ms, 1, yes(0, 5000*ms)},
		{3000 * ms, 1, no(0, 100*ms, 4100*ms)},
	})
	run(t, perSecond(t, 2, 3), []step{ // Turner (1986)
		{0, 1, yes(2, 500*ms)},
		{0, 2, yes(0, 1500*ms)},
		{250 * ms, 1, no(0, 250*ms, 1250*ms)},
		{500 * ms, 1, yes(0, 1500*ms)},
		{1500 * ms, 2, yes(0, 1500*ms)},
		{9000 * ms, 3, yes(0, 1500*ms)},
	})
	admitted := func(l *sketchlimit.Limiter, at time.Duration, requests int) (n int) {
		for range requests {
			if l.TakeAt(time.Unix(0, int64(at)), "k", 1).Allowed {
				n++
			}
		}
		return n
	}
	usage := perSecond(t, 10, 100) // "Algorithm of Rate Limiter" (2025)
	require.Equal(t, 100, admitted(usage, 0, 150))
	require.Equal(t, 10, admitted(usage, time.Second, 50))
	action := perSecond(t, 10, 10) // "Rate Limiter In Action"
	require.Equal(t, 10, admitted(action, 0, 20))
	require.Equal(t, 10, admitted(action, 10*time.Second, 200))
	overload, n := perSecond(t, 100, 20), 0 // 120 in a second
	for at := time.Duration(0); at <= time.Second; at += ms {
		n += admitted(overload, at, 20)
	}
	require.Equal(t, 120, n)
}

// generation is the length of a generation: what time does not step back behind.

// Where ticks and the time of a unit are whole nanoseconds, and the memory is large, the
// limiter must agree with GCRA in every field of every decision.
func TestBucketAgreesWithGCRA(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, c := range []sketchlimit.Config{
		{Limit: 1, Window: 700 * ms}, {Limit: 7, Window: 1400 * ms}, {Limit: 7, Window: 1400 * ms, Burst: 1},
		{Limit: 10, Window: 100 * ms, Burst: 250}, {Limit: 1000, Window: time.Second, Burst: 3},
		{Limit: 3_000_000, Window: 3 * time.Second},
	} {
		c.Algorithm = sketchlimit.TokenBucket
		l := build(t, c)
		burst := max(c.Burst, c.Limit)
		if c.Burst > 0 {
			burst = c.Burst
		}
		oracle, err := exact.NewGCRA(c.Limit, c.Window, burst)
		require.NoError(t, err)
		unit := int64(c.Window) / int64(c.Limit)
		r := rand.New(rand.NewPCG(uint64(c.Limit), 1))
		now := time.Unix(1_700_000_000, 0)
		for i := range 20_000 {
			n := 1 + r.IntN(max(1, burst/4))
			now = now.Add(time.Duration(r.Int64N(unit * int64(n))))
			switch r.IntN(100) {
			case 0:
				now = now.Add(time.Duration(r.Int64N(int64(20 * time.Second)))) // generations
			case 1:
				n = burst + r.IntN(2)
			case 2:
				n = -1 - r.IntN(2)
			}
			key := fmt.Sprint("key", r.IntN(3))
			want := oracle.PeekAt(now, key, n)
			want.Limit = c.Limit
			require.Equal(t, want, l.Do(sketchlimit.Request{Time: now, Key: key, N: n, Peek: true}), "%+v, peek %d of %d units", c, i, n)
			want = oracle.TakeAt(now, key, n)
			want.Limit = c.Limit
			require.Equal(t, want, l.TakeAt(now, key, n), "%+v, take %d of %d units", c, i, n)
		}
	}
}

// againstGCRA sends random costs of some keys at random times, at the very instants
// that were told, and back and ahead by more than generations. It returns how many
// requests were admitted, and how many of these GCRA would not have admitted or would
// have left fewer units after. Time is what it says for windows: not before the start
// of the latest generation.
func againstGCRA(t *testing.T, l taker, c sketchlimit.Config, keys, requests int, r *rand.Rand) (admitted, over int) {
	oracle, err := exact.NewGCRA(c.Limit, c.Window, c.Burst)
	require.NoError(t, err)
	generation := generation(c)
	unit := max(1, int64(c.Window)/int64(c.Limit))
	base := time.Unix(1_700_000_000, 0)
	floor, now := int64(math.MinInt64), base
	wait := time.Duration(0) // of the last request, if it was denied
	n, key := 0, ""
	for range requests {
		again := wait > 0 && wait < 1<<56 && r.IntN(2) == 0
		if again { // not a nanosecond late
			now = now.Add(wait)
		} else {
			n, key = 1+r.IntN(c.Burst)/(1+r.IntN(8)), fmt.Sprint(r.IntN(keys))
			now = now.Add(time.Duration(r.Int64N(2*unit*int64(n)/int64(keys) + 2)))
		}
		switch r.IntN(200) {
		case 0: // in the generation, mostly
			now = now.Add(-time.Duration(r.Int64N(int64(generation)/4 + 1)))
		case 1:
			now = now.Add(-time.Duration(r.Int64N(int64(min(generation, 1<<50)) * 5)))
		case 2:
			now = now.Add(time.Duration(r.Int64N(int64(min(generation, 1<<50)) * 5)))
		case 3: // the last nanosecond of a generation
			now = time.Unix(0, (now.UnixNano()/int64(generation)+1)*int64(generation)-1)
		}
		if now.Before(base.Add(-time.Duration(1<<57))) || now.After(base.Add(1<<57)) {
			now = base
		}
		floor = max(floor, now.UnixNano()/int64(generation)*int64(generation))
		taken := time.Unix(0, max(floor, now.UnixNano()))
		d := l.TakeAt(now, key, n)
		wait = d.RetryAfter
		if d.Allowed {
			admitted++
			if want := oracle.TakeAt(taken, key, n); !want.Allowed || d.Remaining > want.Remaining {
				over++
				oracle.Charge(taken, key, n)
			}
		}
	}
	return admitted, over
}

// randomBucket is a bucket of almost any size and time.
func randomBucket(r *rand.Rand) sketchlimit.Config {
	any := func(most float64) float64 { return math.Exp(r.Float64() * math.Log(most)) }
	c := sketchlimit.Config{Algorithm: sketchlimit.TokenBucket, Limit: int(any(1 << 20)), Burst: int(any(1 << 20))}
	c.Window = ms + time.Duration(any(float64(min(100*time.Hour, 1<<60/time.Duration(c.Burst))))) // GCRA counts it exactly
	return c
}

// Whatever limit, burst, window and costs are, and however the clock steps: what is
// admitted passes GCRA, which knows no ticks. With few cells and many keys as well.
func TestBucketNeverOverAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	total := 0
	for i := range 200 {
		c := randomBucket(r)
		if c.MemoryBytes = 64 << 10; i%2 == 0 {
			c.MemoryBytes = 4608
		}
		admitted, over := againstGCRA(t, build(t, c), c, 1+r.IntN(300), 4000/testkit.Divisor, r)
		require.Zero(t, over, "%+v", c)
		total += admitted
	}
	require.Greater(t, total, 200*4000/testkit.Divisor/10)
}

// flooredTimes is a bucket a key whose times are cut to ticks, not rounded up.
type flooredTimes struct {
	c     sketchlimit.Config
	tick  int64
	times map[string]int64
}

func (f flooredTimes) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	t := now.UnixNano()
	full := max(f.times[key]*f.tick, t) + int64(n)*int64(f.c.Window)/int64(f.c.Limit)
	if over := full - t - int64(f.c.Burst)*int64(f.c.Window)/int64(f.c.Limit); over > 0 {
		return sketchlimit.Decision{RetryAfter: time.Duration(over)}
	}
	f.times[key] = full / f.tick
	return sketchlimit.Decision{Allowed: true}
}

func TestFlooredTicksOverAdmit(t *testing.T) {
	c := sketchlimit.Config{Limit: 1000, Window: time.Minute, Burst: 1000}
	f := flooredTimes{c, int64(generation(c) >> 30), map[string]int64{}}
	_, over := againstGCRA(t, f, c, 3, 4000, rand.New(rand.NewPCG(1, 2)))
	require.NotZero(t, over, "the test above would see it")
}

// Three wraps of a cell's 32 bits and more: with few keys nobody is denied wrongly, least
// of all a key that was idle for long, and nobody gets more than his due.
func TestBucketThroughWraps(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, c := range []sketchlimit.Config{
		{Limit: 6, Window: time.Minute, Burst: 6},           // three ticks a generation are a full bucket
		{Limit: 1000, Window: 1600 * ms, Burst: 2},          // and here very little
		{Limit: 5, Window: 24 * time.Hour, Burst: 50},       // or days
		{Limit: 1 << 20, Window: 1 << 40, Burst: 1<<20 - 1}, // most of what a cell holds
	} {
		c.Algorithm, c.MemoryBytes = sketchlimit.TokenBucket, 1<<20
		l := build(t, c)
		oracle, err := exact.NewGCRA(c.Limit, c.Window, c.Burst)
		require.NoError(t, err)
		generation := generation(c)
		fill := time.Duration(float64(c.Burst) * float64(c.Window) / float64(c.Limit))
		r := rand.New(rand.NewPCG(3, 4))
		end, steps := 13*generation, 20_000
		last := map[string]time.Duration{}
		idle, denied := 0, 0
		for i := range steps {
			at := end / time.Duration(steps) * time.Duration(i)
			now := time.Unix(0, int64(at))
			key := fmt.Sprint("busy", i%3)
			if i%7 == 0 {
				key = fmt.Sprint("idle", r.IntN(500))
			}
			n := 1 + r.IntN(c.Burst)
			before, known := last[key]
			rested := !known || at-before > fill
			if rested {
				n, idle = c.Burst, idle+1
			}
			want, got := oracle.PeekAt(now, key, n), l.TakeAt(now, key, n)
			if rested {
				require.True(t, got.Allowed, "%+v, %s at %v, last at %v", c, key, at, before)
			}
			if !got.Allowed {
				denied++
				require.LessOrEqual(t, want.Remaining-got.Remaining, 1, "rounding costs less than a unit")
				continue
			}
			require.True(t, want.Allowed, "%+v, %s at %v", c, key, at)
			oracle.TakeAt(now, key, n)
			last[key] = at
		}
		require.Greater(t, idle, 400)
		require.Greater(t, denied, 100)
		require.GreaterOrEqual(t, l.Stats().Rotations, uint64(12))
	}
}

// A shard that nobody touched for any number of generations reads as one that was.
func TestBucketJumpsAhead(t *testing.T) {
	c := sketchlimit.Config{Limit: 60, Window: time.Minute, Burst: 90, Algorithm: sketchlimit.TokenBucket}
	for _, jump := range []int64{0, 1, 2, 3, 4, 5, 1 << 20, 1 << 27} {
		c.Clock = at(time.Unix(0, 1))
		l := build(t, c)
		full := time.Duration(90e9)
		require.True(t, l.TakeAt(time.Unix(0, 1), "k", 90).Allowed)
		now := time.Unix(0, 1+jump*int64(generation(c)))
		d := l.Do(sketchlimit.Request{Time: now, Key: "k", Peek: true})
		want := max(0, full-time.Duration(jump*int64(generation(c))))
		require.InDelta(t, float64(want), float64(d.ResetAfter), 64, "%d generations", jump)
		require.Equal(t, d, func() sketchlimit.Decision {
			l.TakeAt(now, "other", 1)
			return l.Do(sketchlimit.Request{Time: now, Key: "k", Peek: true})
		}())
		if d.Allowed { // and back again: the generation's start is what the time is then
			early := l.Do(sketchlimit.Request{Time: time.Unix(0, 1), Key: "k", Peek: true})
			require.LessOrEqual(t, early.Remaining, d.Remaining)
		}
	}
}

// A bucket that fills in less than the clock's resolution would lose most of its rate to
// a clock that is late.
func TestShortBucketsReadTheClockThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, burst := range []int{1, 1000} {
			l, err := sketchlimit.New(sketchlimit.Config{Limit: 10_000, Window: time.Second, Burst: burst,
				Algorithm: sketchlimit.TokenBucket, MemoryBytes: 64 << 10})
			require.NoError(t, err)
			denied := 0
			for range 1000 {
				if !l.Allow("k") {
					denied++
				}
				time.Sleep(100 * time.Microsecond)
			}
			require.Zero(t, denied, "burst %d", burst)
			require.NoError(t, l.Close())
		}
	})
}

func TestBucketLimitsHoldUnderConcurrency(t *testing.T) {
	const limit = 100
	for keys, perGoroutine := range map[int]int{1: 3000, 100: 3000, 1_000_000: 20_000 / testkit.Divisor} {
		l := build(t, sketchlimit.Config{Limit: limit, Window: time.Second, Algorithm: sketchlimit.TokenBucket, MemoryBytes: 8 << 20})
		s := race(l, keys, perGoroutine, time.Second)
		for _, n := range s.all { // a full bucket, and what has flowed by the end
			require.LessOrEqual(t, n, limit+limit*s.last/int64(time.Second))
		}
		// A request that is held up, or comes after a step back, is up to half a window
		// behind, in which half of the limit flows: as if that many units more were in
		// use. A bucket is full at the beginning.
		require.Zero(t, s.underAdmitted(limit/2, s.generations), "%d keys", keys)
		stats := l.Stats()
		require.Equal(t, s.admitted, stats.Admitted)
		require.Equal(t, s.denied, stats.Denied)
		if keys <= 100 {
			require.Greater(t, len(s.refused), keys*4, "the limit was in force in most generations")
		}
	}
}
