package redislimit

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestOwnLimits holds requests with limits of their own against a Limiter that is so large that
// its few keys do not meet. All that it divides is whole. 0 of a request stands for 1 unit and for the Config's limit.
func TestOwnLimits(t *testing.T) {
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
				key, n, limit := fmt.Sprint("key", random.IntN(4)), random.IntN(9)-1, limits[random.IntN(len(limits))]
				r := sketchlimit.Request{Time: now, Key: key, N: n, Limit: limit, Peek: random.IntN(4) == 0}
				want := limiter.Do(r)
				got, err := s.Do(t.Context(), r)
				require.NoError(t, err)
				require.Equal(t, rounded(want), rounded(got), "step %d: %d of %s at %v, limit %d", i, n, key, now, limit)
				if got.Allowed && !r.Peek && 0 < limit && limit < 60 {
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

// TestOwnLimitsWithoutRedis: a lower limit holds while Redis is away, and for what Redis had
// admitted before.
func TestOwnLimitsWithoutRedis(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for failure, want := range map[Failure][]int{FailLocal: {1, 0, -1}, FailOpen: {3, 3, 3}, FailClosed: {-1, -1, -1}} {
		for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.TokenBucket} {
			c := Config{Limit: 6, LowestLimit: 3, Window: time.Hour, Algorithm: a, MemoryBytes: 1 << 20, Failure: failure, Prefix: failure.String()}
			s := strict(t, client, c)
			d, err := s.Do(t.Context(), sketchlimit.Request{Key: "k", Limit: 3})
			require.NoError(t, err)
			require.Equal(t, 2, d.Remaining)
			goAway(t, s.scripts)
			for _, left := range want {
				d, err := s.Do(t.Context(), sketchlimit.Request{Key: "k", Limit: 3})
				require.NoError(t, err)
				require.Equal(t, left >= 0, d.Allowed, "%v %v", failure, a)
				require.Equal(t, max(0, left), d.Remaining, "%v %v", failure, a)
				require.Equal(t, 3, d.Limit)
			}
		}
	}
}

// TestZeroCostsAreDenied: by Redis, by this machine and without looking; 0 is 1 unit in a Request alone. So are limits
// below the lowest.
func TestZeroCostsAreDenied(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, failure := range []Failure{FailLocal, FailOpen, FailClosed} {
		for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.TokenBucket} {
			s := strict(t, client, Config{Limit: 6, LowestLimit: 3, Window: time.Hour, Algorithm: a, MemoryBytes: 1 << 20, Failure: failure, Prefix: failure.String()})
			for _, away := range []bool{false, true} {
				if away {
					goAway(t, s.scripts)
				}
				for _, n := range []int{0, -1} {
					d, err := s.Take(t.Context(), "k", n)
					require.NoError(t, err)
					require.Equal(t, denied(6, d), d, "%v %v", failure, a)
					d, err = s.TakeAt(t.Context(), time.Now(), "k", n)
					require.NoError(t, err)
					require.Equal(t, denied(6, d), d, "%v %v", failure, a)
				}
				for _, limit := range []int{-1, 1, 2} {
					d, err := s.Do(t.Context(), sketchlimit.Request{Key: "k", Limit: limit})
					require.NoError(t, err)
					require.Equal(t, denied(0, d), d, "%v %v %d", failure, a, limit)
				}
				d, err := s.Do(t.Context(), sketchlimit.Request{Key: "k", N: -1})
				require.NoError(t, err)
				require.Equal(t, denied(6, d), d, "%v %v", failure, a)
				d, err = s.Do(t.Context(), sketchlimit.Request{Key: "k"})
				require.NoError(t, err)
				require.Equal(t, !away || failure != FailClosed, d.Allowed, "%v %v", failure, a)
				require.Equal(t, 6, d.Limit)
			}
		}
	}
}

// denied is a decision that denies for ever, with what is left of d.
func denied(limit int, d sketchlimit.Decision) sketchlimit.Decision {
	return sketchlimit.Decision{Limit: limit, Remaining: d.Remaining, RetryAfter: sketchlimit.Never, ResetAfter: d.ResetAfter}
}

// TestKeysOfRequests: bytes and text are one key, and so are an address and its bytes.
func TestKeysOfRequests(t *testing.T) {
	s := strict(t, connect(t, redistest.New(t).Addr), Config{Limit: 9, Window: time.Hour, MemoryBytes: 1 << 20})
	for _, same := range [][]sketchlimit.Request{
		{{Key: "k"}, {Bytes: []byte("k")}, {Bytes: []byte("k"), Key: "other"}},
		{{Key: ""}, {Bytes: []byte{}, Key: "other"}},
		{{Addr: netip.MustParseAddr("192.0.2.1")}, {Addr: netip.MustParseAddr("::ffff:192.0.2.1"), Bytes: []byte("k")}, {Key: "\xc0\x00\x02\x01"}},
		{{Addr: netip.MustParseAddr("fe80::1")}, {Addr: netip.MustParseAddr("fe80::1%eth0")}},
		{{Key: "192.0.2.1"}},
	} {
		for i, r := range same {
			d, err := s.Do(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, 8-i, d.Remaining, "%+v", r)
		}
	}
}
