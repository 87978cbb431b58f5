package redislimit

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// taker is what [Strict] and [Exact] have in common.
type taker interface {
	TakeAt(ctx context.Context, now time.Time, key string, n int) (sketchlimit.Decision, error)
}

// peekAt returns what TakeAt would answer.
func peekAt(t testing.TB, s *Strict, now time.Time, key string, n int) sketchlimit.Decision {
	t.Helper()
	d, err := s.Do(t.Context(), sketchlimit.Request{Time: now, Key: key, N: cmp.Or(n, -1), Peek: true})
	require.NoError(t, err)
	return d
}

func connect(t testing.TB, addrs ...string) redis.UniversalClient {
	c := newClient(addrs...)
	t.Cleanup(func() { c.Close() })
	return c
}

func newClient(addrs ...string) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs})
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// oracle returns the exact algorithm of a Config.
func oracle(t testing.TB, c Config) exact.Limiter {
	var l exact.Limiter
	var err error
	switch c.Algorithm {
	case sketchlimit.SlidingWindow:
		l, err = exact.NewSlidingWindow(c.Limit, c.Window)
	case sketchlimit.FixedWindow:
		l, err = exact.NewFixedWindow(c.Limit, c.Window)
	default:
		burst := c.Burst
		if burst == 0 {
			burst = c.Limit
		}
		l, err = exact.NewTokenBucket(c.Limit, c.Window, burst)
	}
	require.NoError(t, err)
	return l
}

// oracleConfigs are in whole ticks, so that nothing is rounded.
var oracleConfigs = []Config{
	{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.SlidingWindow},
	{Limit: 300, Window: time.Second, Algorithm: sketchlimit.SlidingWindow},
	{Limit: 20_000_000, Window: 2 * time.Second, Algorithm: sketchlimit.SlidingWindow},
	{Limit: 1 << 17, Window: time.Millisecond, Algorithm: sketchlimit.SlidingWindow},
	{Limit: 1_000_000_000, Window: 24 * time.Hour, Algorithm: sketchlimit.SlidingWindow},
	{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.FixedWindow},
	{Limit: 70_000, Window: time.Hour, Algorithm: sketchlimit.FixedWindow},
	{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.TokenBucket},
	{Limit: 1, Window: time.Millisecond, Algorithm: sketchlimit.TokenBucket, Burst: 5},
	{Limit: 100, Window: time.Second, Algorithm: sketchlimit.TokenBucket, Burst: 20},
	{Limit: 4096, Window: 1 << 44 * time.Microsecond, Algorithm: sketchlimit.TokenBucket},
}

// TestEqualsTheOracle holds every field of every decision against the exact algorithm, for
// a sketch that is so large that its few keys do not meet, and for Exact.
func TestEqualsTheOracle(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, c := range oracleConfigs {
		t.Run(fmt.Sprintf("%v/%d/%v", c.Algorithm, c.Limit, c.Window), func(t *testing.T) {
			c.MemoryBytes, c.Failure, c.Timeout = 1<<20, FailClosed, patience
			strict := strict(t, client, c)
			tick := max(strict.window.tick, time.Microsecond)
			walk(t, c, tick, strict, oracle(t, c), 400)
			e, err := NewExact(client, c)
			require.NoError(t, err)
			want := oracle(t, c)
			if c.Algorithm == sketchlimit.SlidingWindow {
				want, err = exact.NewSlidingLog(c.Limit, c.Window)
				require.NoError(t, err)
			}
			walk(t, c, tick, e, want, 400)
		})
	}
}

// walk compares decisions on a few keys, while time goes on by less than a unit's time and
// by more than a window, in whole ticks, to which the oracle's durations are rounded up.
func walk(t *testing.T, c Config, tick time.Duration, got taker, want exact.Limiter, steps int) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.UnixMicro(1_700_000_000_000_000 / tick.Microseconds() * tick.Microseconds())
	for i := range steps {
		switch span := int64(c.Window / tick); random.IntN(8) {
		case 0:
			now = now.Add(time.Duration(random.Int64N(3*span)) * tick)
		case 1, 2, 3:
			now = now.Add(time.Duration(random.Int64N(span/10+1)) * tick)
		}
		key, n := fmt.Sprint("key", random.IntN(4)), 1+random.IntN(max(1, c.Limit/3))
		switch random.IntN(20) {
		case 0:
			n = 0
		case 1:
			n = max(c.Limit, c.Burst) + 1
		case 2:
			n = c.Limit
		}
		same := func(w, d sketchlimit.Decision) {
			w.Limit = d.Limit // the exact bucket states its burst
			if w.RetryAfter != sketchlimit.Never {
				w.RetryAfter = (w.RetryAfter + tick - 1) / tick * tick
			}
			w.ResetAfter = (w.ResetAfter + tick - 1) / tick * tick
			require.Equal(t, w, d, "step %d: %d of %s at %v", i, n, key, now)
		}
		if s, ok := got.(*Strict); ok {
			same(want.PeekAt(now, key, n), peekAt(t, s, now, key, n))
		}
		d, err := got.TakeAt(t.Context(), now, key, n)
		require.NoError(t, err)
		same(want.TakeAt(now, key, n), d)
	}
}

// TestNeverOverAdmits lets keys meet in the least memory there is: what is admitted, the
// exact algorithm must admit, given what was admitted before.
func TestNeverOverAdmits(t *testing.T) {
	client, wrong := connect(t, redistest.New(t).Addr), 0
	for _, c := range oracleConfigs {
		t.Run(fmt.Sprintf("%v/%d/%v", c.Algorithm, c.Limit, c.Window), func(t *testing.T) {
			c.MemoryBytes, c.Failure = 2100, FailClosed
			strict := strict(t, client, c)
			want := oracle(t, c)
			random := rand.New(rand.NewPCG(3, 4))
			now := time.Unix(1_700_000_000, 0)
			for range 1500 {
				if random.IntN(300) == 0 {
					now = now.Add(time.Duration(random.Int64N(c.Window.Microseconds()/2)) * time.Microsecond)
				}
				key, n := fmt.Sprint("key", random.IntN(600)), 1+random.IntN(max(1, c.Limit/4))
				d, err := strict.TakeAt(t.Context(), now, key, n)
				require.NoError(t, err)
				w := want.PeekAt(now, key, n)
				require.False(t, d.Allowed && !w.Allowed, "%d of %s at %v", n, key, now)
				switch {
				case d.Allowed:
					require.LessOrEqual(t, d.Remaining+n, w.Remaining)
					want.Charge(now, key, n)
				case w.Allowed:
					wrong++
				}
			}
		})
	}
	require.NotZero(t, wrong, "no keys have met")
}
