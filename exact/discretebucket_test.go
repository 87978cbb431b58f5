package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Massuia, "Rate Limiters" (2024), token bucket: the steps, unlike the parameters given
// (5 and 1 a second), are those of a bucket of 4 that gets 4 a second. Its refills are
// drawn at whole seconds; here they count from the first token, so T4 comes at
// 01:00:02.100 and finds 4, never "all 5". At T6 one token is missing, not three.
func TestDiscreteBucketMassuia(t *testing.T) {
	b := must(NewDiscreteBucket(4, time.Second, 4))
	require.Equal(t, 4, b.Get(clock("01:00:00"), "key"))
	take(t, b, clock("01:00:00"),
		step{1100 * ms, 1, yes(3, 1000*ms)},       // T1
		step{1200 * ms, 3, yes(0, 900*ms)},        // T2
		step{1300 * ms, 1, no(0, 800*ms, 800*ms)}, // T3
		step{2100 * ms, 1, yes(3, 1000*ms)},       // T5
	)
	require.Equal(t, 3, b.Get(clock("01:00:03"), "key")) // T6
	require.Equal(t, 4, b.Get(clock("01:00:03").Add(100*ms), "key"))
}

// Smyte's description of its rate limiter bails out if `tokens >= bucket.value`: that
// refuses the last token for ever. The test must be tokens > value.
func TestDiscreteBucketSmyteLastToken(t *testing.T) {
	b := must(NewDiscreteBucket(5, time.Second, 2))
	value, ok := b.Reduce(noon, "key", 5)
	require.True(t, ok)
	require.Zero(t, value)
	value, ok = b.Reduce(noon, "key", 1)
	require.False(t, ok)
	require.Zero(t, value)
}

// Its lastUpdate advances by whole refills, so the part of a refill time that has passed
// is kept; the min with now() can never bind, as the refills are rounded down.
func TestDiscreteBucketSmyteLastUpdate(t *testing.T) {
	b := must(NewDiscreteBucket(5, time.Second, 2))
	b.Reduce(noon, "key", 5)
	for _, c := range []struct {
		at    time.Duration
		value int
	}{{1000*ms - 1, 0}, {1500 * ms, 2}, {2000*ms - 1, 2}, {2000 * ms, 4}, {3000 * ms, 5}, {9000 * ms, 5}} {
		require.Equal(t, c.value, b.Get(noon.Add(c.at), "key"), "at %v", c.at)
	}
}

// As published, the refills of a full bucket go on: one that was created on the second
// and is emptied at 10.9s gets two more tokens at 11s. Here a full bucket is as good as
// new, and a refill takes its time.
func TestDiscreteBucketFullRestartsTheClock(t *testing.T) {
	take(t, must(NewDiscreteBucket(5, time.Second, 2)), noon,
		step{0, 1, yes(4, 1000*ms)},
		step{10900 * ms, 5, yes(0, 3000*ms)},
		step{11000 * ms, 2, no(0, 900*ms, 2900*ms)},
		step{11900 * ms, 2, yes(0, 3000*ms)},
	)
}

// "Rate Limiter In Action", leaky bucket: tokens come back one every leakRateInMillis,
// but its lastLeakTimestamp becomes the current time, and what was left of the
// interval is lost. Polled every 150ms at one per 100ms it gives 2 in 300ms, not 3.
func TestDiscreteBucketInActionKeepsTheRest(t *testing.T) {
	take(t, must(NewDiscreteBucket(10, 100*ms, 1)), noon,
		step{0, 10, yes(0, 1000*ms)},
		step{150 * ms, 1, yes(0, 950*ms)},
		step{300 * ms, 1, yes(1, 900*ms)},
		step{300 * ms, 1, yes(0, 1000*ms)},
		step{300 * ms, 1, no(0, 100*ms, 1000*ms)},
	)
}

// A refill may be larger than the bucket, and RetryAfter counts whole refills.
func TestDiscreteBucketRefills(t *testing.T) {
	take(t, must(NewDiscreteBucket(3, time.Second, 100)), noon,
		step{0, 3, yes(0, 1000*ms)},
		step{1, 3, no(0, 1000*ms-1, 1000*ms-1)},
		step{1000 * ms, 3, yes(0, 1000*ms)},
	)
	take(t, must(NewDiscreteBucket(10, time.Second, 3)), noon,
		step{0, 10, yes(0, 4000*ms)},
		step{100 * ms, 3, no(0, 900*ms, 3900*ms)},
		step{100 * ms, 4, no(0, 1900*ms, 3900*ms)},
		step{100 * ms, 10, no(0, 3900*ms, 3900*ms)},
		step{3999 * ms, 9, yes(0, 3001*ms)}, // the fourth refill brings one of its three
	)
}
