package budget_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// start is the first instant of a minute, of an hour and of a day.
var start = time.Unix(20_000*24*3600, 0)

// bench is a budget with a clock that stands still.
type bench struct {
	*testing.T
	*budget.Budget
	now time.Time
}

// with returns a budget of the limits, whose memory and clock need not be told.
func with(t *testing.T, inFlight int, holdFor time.Duration, limits ...sketchlimit.Config) *bench {
	t.Helper()
	b := &bench{T: t, now: start}
	for i := range limits {
		limits[i].Seed, limits[i].Clock = 1, func() time.Time { return b.now }
		if limits[i].Keys == 0 && limits[i].MemoryBytes == 0 {
			limits[i].MemoryBytes = 256 << 10
		}
	}
	var err error
	b.Budget, err = budget.New(budget.Config{Limits: limits, InFlight: inFlight, HoldFor: holdFor})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// must holds units that are free.
func (b *bench) must(key string, n int) budget.Hold {
	b.Helper()
	h, d := b.Hold(key, n)
	require.True(b, d.Allowed, "%+v", d)
	return h
}

func fixed(limit int, window time.Duration) sketchlimit.Config {
	return sketchlimit.Config{Limit: limit, Window: window, Algorithm: sketchlimit.FixedWindow}
}

func sliding(limit int, window time.Duration) sketchlimit.Config {
	return sketchlimit.Config{Limit: limit, Window: window}
}

func bucket(limit int, window time.Duration) sketchlimit.Config {
	return sketchlimit.Config{Limit: limit, Window: window, Algorithm: sketchlimit.TokenBucket}
}

// A request that finds no room looks for holds that have expired in other shards, and
// is counted once.
func TestSweepFindsRoom(t *testing.T) {
	b := with(t, 1024, time.Minute, fixed(2000, time.Hour)) // 4 shards
	open := uint64(0)
	for _, d := b.Hold("hot", 1); d.Allowed; _, d = b.Hold("hot", 1) {
		open++
	}
	require.GreaterOrEqual(t, open, uint64(1280)) // a quarter more than there need be room for
	require.Less(t, open, uint64(2000))
	_, d := b.Hold("new", 7)
	require.Equal(t, sketchlimit.Decision{Limit: 2000, Remaining: 2000, RetryAfter: time.Second, ResetAfter: d.ResetAfter}, d)
	b.now = b.now.Add(time.Minute)
	for i := range 100 {
		b.must(fmt.Sprint("new ", i), 1)
	}
	s := b.Stats()
	require.Equal(t, []any{100, int64(100), open, open, uint64(8), uint64(8)},
		[]any{s.Open, s.Held, s.Expired, s.Settled, s.Denied, s.NoRoom})
}

// A request with a limit below the lowest counts as one of the lowest, which is Limit
// where no other is given.
func TestChargeBelowTheLowestLimit(t *testing.T) {
	for _, c := range []sketchlimit.Config{bucket(100, time.Minute), fixed(100, time.Minute)} {
		for _, low := range []int{0, 50} {
			c.LowestLimit = low
			b := with(t, 10, time.Minute, c)
			lowest := 100
			if low > 0 {
				lowest = low
			}
			for _, limit := range []int{-1, 1, lowest - 1} {
				key := fmt.Sprint(limit)
				require.Equal(t, 10, b.DoCharge(sketchlimit.Request{Key: key, N: lowest + 10, Limit: limit, Peek: true}), "%d of %d", limit, low)
				require.Equal(t, 10, b.DoCharge(sketchlimit.Request{Key: key, N: lowest + 10, Limit: limit}), "%d of %d", limit, low)
				_, d := b.Do(sketchlimit.Request{Key: key, N: 1, Limit: lowest})
				if c.Algorithm == sketchlimit.TokenBucket {
					require.Equal(t, time.Minute/time.Duration(lowest)*11, d.RetryAfter)
				}
			}
		}
	}
}

// A look at a charge tells what the charge tells: of several limits as well, and where
// answers are coarse.
func TestPeekedCharges(t *testing.T) {
	day := fixed(50, 24*time.Hour)
	coarse := sliding(100, time.Minute)
	coarse.Coarse = true
	for name, limits := range map[string][]sketchlimit.Config{
		"minute and day": {fixed(30, time.Minute), day},
		"coarse":         {coarse},
		"bucket":         {bucket(100, time.Minute)},
	} {
		b := with(t, 10, time.Minute, limits...)
		b.must("a", 20)
		for i, n := range []int{3, 4, 10, 1, 20, 200, 1} {
			b.now = b.now.Add(15 * time.Second)
			peeked := b.DoCharge(sketchlimit.Request{Key: "a", N: n, Peek: true})
			require.Equal(t, peeked, b.Charge("a", n), "%s, charge %d", name, i)
		}
	}
}

// What becomes of the Config afterwards is the caller's.
func TestConfigIsCopied(t *testing.T) {
	limits := []sketchlimit.Config{bucket(100, time.Minute)}
	limits[0].LowestLimit, limits[0].MemoryBytes = 50, 64<<10
	b, err := budget.New(budget.Config{Limits: limits, InFlight: 10, HoldFor: time.Minute})
	require.NoError(t, err)
	defer b.Close()
	limits[0].LowestLimit = 1
	require.Equal(t, 10, b.DoCharge(sketchlimit.Request{Key: "a", N: 60, Limit: 10}))
}
