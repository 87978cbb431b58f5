package redislimit

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// commonBuckets are limits, windows and bursts as people choose them.
func commonBuckets() (all []Config) {
	for _, window := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for _, limit := range []int{1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 30, 60, 100, 300, 600, 999, 1000} {
			for _, burst := range []int{0, 1, 2, 3, 7, 20} {
				all = append(all, Config{Limit: limit, Window: window, Burst: burst, Algorithm: sketchlimit.TokenBucket,
					MemoryBytes: 100 << 10, Failure: FailClosed})
			}
		}
	}
	return all
}

// rationalBucket is GCRA in rational numbers of microseconds.
type rationalBucket struct{ unit, most, full *big.Rat }

func newRationalBucket(c Config, now time.Time) *rationalBucket {
	burst := c.Burst
	if burst == 0 {
		burst = c.Limit
	}
	unit := big.NewRat(c.Window.Microseconds(), int64(c.Limit))
	return &rationalBucket{unit, new(big.Rat).Mul(unit, big.NewRat(int64(burst), 1)), big.NewRat(now.UnixMicro(), 1)}
}

// after returns when the bucket is full again if n units are taken at a time, and whether they are in it.
func (r *rationalBucket) after(now time.Time, n int) (full *big.Rat, ok bool) {
	at := big.NewRat(now.UnixMicro(), 1)
	if full = at; r.full.Cmp(at) > 0 {
		full = r.full
	}
	full = new(big.Rat).Add(full, new(big.Rat).Mul(r.unit, big.NewRat(int64(n), 1)))
	return full, new(big.Rat).Sub(full, at).Cmp(r.most) <= 0
}

// bucketTakers returns a Strict and an Exact of a Config, apart from those of others.
func bucketTakers(t *testing.T, client redis.UniversalClient, c Config) map[string]taker {
	c.Timeout, c.Prefix = patience, fmt.Sprint(c.Limit, c.Window, c.Burst)
	e, err := NewExact(client, c)
	require.NoError(t, err)
	return map[string]taker{"strict": strict(t, client, c), "exact": e}
}

// TestBucketOfNPassesN: at a time like any other, a full bucket of n units passes n and no more, one after
// another.
func TestBucketOfNPassesN(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	now := time.UnixMicro(1_700_000_000_123_457)
	for i, c := range commonBuckets() {
		burst := c.Burst
		if burst == 0 {
			burst = c.Limit
		}
		if burst > 100 {
			continue
		}
		for name, l := range bucketTakers(t, client, c) {
			for n := range burst + 1 {
				d, err := l.TakeAt(t.Context(), now, fmt.Sprint(i), 1)
				require.NoError(t, err)
				require.Equal(t, n < burst, d.Allowed, "%s: %d per %v, burst %d: unit %d", name, c.Limit, c.Window, burst, n+1)
			}
		}
	}
}

// TestBucketAtItsRatePasses: one unit after another, each in the first microsecond in which it has flowed.
func TestBucketAtItsRatePasses(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	start := time.UnixMicro(1_700_000_000_123_457)
	for i, c := range commonBuckets() {
		for name, l := range bucketTakers(t, client, c) {
			for n := range int64(40) {
				since := n * ((c.Window.Microseconds() + int64(c.Limit) - 1) / int64(c.Limit))
				d, err := l.TakeAt(t.Context(), start.Add(time.Duration(since)*time.Microsecond), fmt.Sprint(i), 1)
				require.NoError(t, err)
				require.True(t, d.Allowed, "%s: %d per %v, burst %d: unit %d", name, c.Limit, c.Window, c.Burst, n+1)
			}
		}
	}
}

// TestBucketIsRational holds decisions against rational arithmetic, at times that are the first at which a
// request passes, or a microsecond before, or any: they are the same, where no keys meet.
func TestBucketIsRational(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	random := rand.New(rand.NewPCG(9, 10))
	for i, c := range commonBuckets() {
		burst := c.Burst
		if burst == 0 {
			burst = c.Limit
		}
		for name, l := range bucketTakers(t, client, c) {
			now := time.UnixMicro(1_700_000_000_000_000 + random.Int64N(1e9))
			want := newRationalBucket(c, now)
			for range 12 {
				n := 1 + random.IntN(burst)
				full, ok := want.after(now, n)
				d, err := l.TakeAt(t.Context(), now, fmt.Sprint(i), n)
				require.NoError(t, err)
				require.Equal(t, ok, d.Allowed, "%s: %d of %d per %v, burst %d", name, n, c.Limit, c.Window, burst)
				if ok {
					want.full = full
				}
				switch random.IntN(4) {
				case 0:
					now = now.Add(d.RetryAfter)
				case 1:
					now = now.Add(max(0, d.RetryAfter-time.Microsecond))
				case 2:
					now = now.Add(time.Duration(random.Int64N(c.Window.Microseconds()/int64(c.Limit)+1)) * time.Microsecond)
				}
			}
		}
	}
}

// TestBucketRounds: where units have no whole number of ticks, a bucket admits no more than rational arithmetic
// does, and one unit less at most.
func TestBucketRounds(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	c := Config{Limit: 999_983, Window: 1000 * 24 * time.Hour, Burst: 5, Algorithm: sketchlimit.TokenBucket, MemoryBytes: 100 << 10, Failure: FailClosed}
	for _, l := range bucketTakers(t, client, c) {
		admitted := 0
		for range 10 {
			d, err := l.TakeAt(context.Background(), time.UnixMicro(1_700_000_000_123_457), "k", 1)
			require.NoError(t, err)
			if d.Allowed {
				admitted++
			}
		}
		require.Equal(t, 4, admitted)
	}
}
