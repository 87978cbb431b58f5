package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Massuia, "Rate Limiters" (2024): bucketSize = 5, refillRate = 1 token/sec. The document
// "starts full with 4 tokens", "refills 4 token per second" and is "refilled with all
// 5" within 0.8s; none of these follow from the parameters. With them, and tokens
// that flow in continuously:
func TestTokenBucketMassuia(t *testing.T) {
	take(t, must(NewTokenBucket(1, time.Second, 5)), clock("01:00:00"),
		step{1100 * ms, 1, yes(4, 1000*ms)}, // T1: full with 5, not 4
		step{1200 * ms, 3, yes(1, 3900*ms)}, // T2: 1.1 left, not empty
		step{1300 * ms, 1, yes(0, 4800*ms)}, // T3: 1.2 are one token: not dropped
		step{1300 * ms, 1, no(0, 800*ms, 4800*ms)},
		step{2100 * ms, 1, yes(0, 5000*ms)}, // T5
		step{3000 * ms, 1, no(0, 100*ms, 4100*ms)},
	)
}

// The same with the 4 tokens the steps begin with: T2 does empty it and T3 is dropped,
// but T4 finds 0.9 tokens, not 5, and T6 0.9 after T5's 1, not 4.
func TestTokenBucketMassuiaOfFour(t *testing.T) {
	take(t, must(NewTokenBucket(1, time.Second, 4)), clock("01:00:00"),
		step{1100 * ms, 1, yes(3, 1000*ms)},
		step{1200 * ms, 3, yes(0, 3900*ms)},
		step{1300 * ms, 1, no(0, 800*ms, 3800*ms)},
		step{2000 * ms, 1, no(0, 100*ms, 3100*ms)},
		step{2100 * ms, 1, yes(0, 4000*ms)},
		step{3000 * ms, 1, no(0, 100*ms, 3100*ms)},
	)
}

// "Algorithm of Rate Limiter" (2025), usage example: TokenBucket(100, 10), 150 requests
// at once. (In a loop that takes time, whatever flowed in meanwhile passes as well.)
func TestTokenBucketUsageExample(t *testing.T) {
	b := must(NewTokenBucket(10, time.Second, 100))
	require.Equal(t, 100, admitted(b, noon, 150))
	require.Equal(t, 10, admitted(b, noon.Add(time.Second), 50))
}

// The same, "a target of 100 requests/sec might see 120 in a second during a burst":
// that is a burst of 20, and exactly 120 is the most.
func TestTokenBucketShortTermOverload(t *testing.T) {
	b := must(NewTokenBucket(100, time.Second, 20))
	var n int
	for at := time.Duration(0); at <= time.Second; at += ms {
		n += admitted(b, noon.Add(at), 20)
	}
	require.Equal(t, 120, n)
}

// "Rate Limiter In Action", RateLimiter: its diff is in seconds but compared with 1000,
// so that up to 999 seconds' worth pile up without bound, and its `> 0` after the
// decrement refuses the last token. Ten seconds idle are one full bucket, to the last
// token of it.
func TestTokenBucketInAction(t *testing.T) {
	b := must(NewTokenBucket(10, time.Second, 10))
	require.Equal(t, 10, admitted(b, noon, 20))
	require.Equal(t, 10, admitted(b, noon.Add(10*time.Second), 200))
}

// golang.org/x/time/rate, 10 a second, times in tenths: tokens before, units, admitted.
//
// What does not apply: its request for no units always passes, here it is none; limits
// of 0 and Inf and changes of limit or burst do not exist here; and its clock follows
// a step back and so refills the same span twice (row "clock jumps back"), which
// TestKeyClockNeverRunsBack excludes.
func TestTokenBucketXTimeRate(t *testing.T) {
	type row struct {
		at, before, n int
		ok            bool
	}
	for burst, rows := range map[int][]row{
		1: {
			{0, 1, 1, true}, {0, 0, 1, false}, {0, 0, 1, false}, {1, 1, 1, true}, {1, 0, 1, false}, {1, 0, 1, false},
			{2, 1, 2, false}, {2, 1, 1, true}, {2, 0, 1, false},
		},
		3: {
			{0, 3, 2, true}, {0, 1, 2, false}, {0, 1, 1, true}, {0, 0, 1, false}, {1, 1, 4, false}, {2, 2, 1, true},
			{3, 2, 1, true}, {4, 2, 1, true}, {4, 1, 1, true}, {4, 0, 1, false}, {4, 0, 1, false}, {9, 3, 3, true},
			{9, 0, 1, false},
		},
	} {
		b := must(NewTokenBucket(10, time.Second, burst))
		for i, r := range rows {
			now := noon.Add(time.Duration(r.at) * 100 * ms)
			require.Equal(t, r.before, b.PeekAt(now, "key", 1).Remaining, "burst %d, row %d", burst, i)
			require.Equal(t, r.ok, b.TakeAt(now, "key", r.n).Allowed, "burst %d, row %d", burst, i)
		}
	}
}

func TestTokenBucketXTimeRateCounts(t *testing.T) {
	require.Equal(t, 5, admitted(must(NewTokenBucket(1, time.Second, 5)), noon, 15))
	// 100/s with a burst of 100, one call each 2ms for 5s: x/time/rate allows
	// 0.999×600 to 601; without rounding it is all that flowed by 4.998s.
	b := must(NewTokenBucket(100, time.Second, 100))
	n := 0
	for at := time.Duration(0); at < 5*time.Second; at += 2 * ms {
		n += admitted(b, noon.Add(at), 1)
	}
	require.Equal(t, 599, n)
	require.True(t, must(NewTokenBucket(10, 13*time.Second, 1)).TakeAt(noon, "key", 1).Allowed) // 0.769…/s
}

// Its reservations, 10 a second with a burst of 2: a reservation is a charge, and acts
// when the same request would have passed.
func TestTokenBucketXTimeRateReservations(t *testing.T) {
	b := must(NewTokenBucket(10, time.Second, 2))
	for i, r := range []struct{ at, n, act int }{{0, 2, 0}, {0, 2, 2}, {3, 2, 4}} {
		now := noon.Add(time.Duration(r.at) * 100 * ms)
		retry := b.PeekAt(now, "key", r.n).RetryAfter
		require.Equal(t, time.Duration(r.act-r.at)*100*ms, retry, "row %d", i)
		b.Charge(now, "key", r.n)
	}
}

// Three units a second are not a whole number of nanoseconds apart: each wait is rounded
// up, and yet after any number of them nothing has been lost or gained.
func TestTokenBucketKeepsFractions(t *testing.T) {
	b, now := must(NewTokenBucket(3, time.Second, 3)), noon
	require.Equal(t, 3, admitted(b, now, 4))
	for range 3000 {
		now = now.Add(b.TakeAt(now, "key", 1).RetryAfter)
		require.True(t, b.TakeAt(now, "key", 1).Allowed)
	}
	require.Equal(t, 1000*time.Second, now.Sub(noon))
}
