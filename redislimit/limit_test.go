package redislimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestTakeLimit holds requests with limits of their own against a Limiter that is so large that
// its few keys do not meet. All that it divides is whole.
func TestTakeLimit(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	limits := []int{-1, 0, 1, 2, 3, 5, 6, 10, 30, 60, 61}
	for _, c := range []Config{
		{Algorithm: sketchlimit.SlidingWindow},
		{Algorithm: sketchlimit.FixedWindow},
		{Algorithm: sketchlimit.TokenBucket},
		{Algorithm: sketchlimit.TokenBucket, Burst: 20},
		{Algorithm: sketchlimit.TokenBucket, Burst: 180},
	} {
		t.Run(fmt.Sprint(c.Algorithm, c.Burst), func(t *testing.T) {
			c.Limit, c.LowestLimit, c.Window, c.MemoryBytes, c.Failure, c.Prefix = 60, 2, time.Minute, 1<<20, FailClosed, fmt.Sprint(c.Burst)
			s := strict(t, client, c)
			now, admitted := time.Unix(1_700_000_000, 0), 0
			limiter, err := sketchlimit.New(sketchlimit.Config{Limit: c.Limit, LowestLimit: c.LowestLimit, Window: c.Window, Algorithm: c.Algorithm,
				Burst: c.Burst, MemoryBytes: 1 << 20, Seed: 1, Clock: func() time.Time { return now }})
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(7, 8))
			for i := range 600 {
				now = now.Add(time.Duration(random.IntN(8)) * time.Second / 2)
				key, n, limit := fmt.Sprint("key", random.IntN(4)), random.IntN(8), limits[random.IntN(len(limits))]
				want := limiter.TakeLimitAt(now, key, n, limit)
				got, err := s.TakeLimitAt(t.Context(), now, key, n, limit)
				require.NoError(t, err)
				require.Equal(t, rounded(want), rounded(got), "step %d: %d of %s at %v, limit %d", i, n, key, now, limit)
				if got.Allowed && limit < 60 {
					admitted++
				}
			}
			require.Greater(t, admitted, 30)
		})
	}
}

// rounded is a decision to whole milliseconds.
func rounded(d sketchlimit.Decision) sketchlimit.Decision {
	if d.RetryAfter != sketchlimit.Never {
		d.RetryAfter = d.RetryAfter.Round(time.Millisecond)
	}
	d.ResetAfter = d.ResetAfter.Round(time.Millisecond)
	return d
}

// TestTakeLimitWithoutRedis: a lower limit holds while Redis is away, and for what Redis had
// admitted before.
func TestTakeLimitWithoutRedis(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for failure, want := range map[Failure][]int{FailLocal: {1, 0, -1}, FailOpen: {3, 3, 3}, FailClosed: {-1, -1, -1}} {
		for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.TokenBucket} {
			c := Config{Limit: 6, LowestLimit: 3, Window: time.Hour, Algorithm: a, MemoryBytes: 1 << 20, Failure: failure, Prefix: failure.String()}
			s := strict(t, client, c)
			d, err := s.TakeLimit(t.Context(), "k", 1, 3)
			require.NoError(t, err)
			require.Equal(t, 2, d.Remaining)
			goAway(t, s.scripts)
			for _, left := range want {
				d, err := s.TakeLimit(t.Context(), "k", 1, 3)
				require.NoError(t, err)
				require.Equal(t, left >= 0, d.Allowed, "%v %v", failure, a)
				require.Equal(t, max(0, left), d.Remaining, "%v %v", failure, a)
				require.Equal(t, 3, d.Limit)
			}
		}
	}
}
