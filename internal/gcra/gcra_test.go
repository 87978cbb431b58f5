package gcra

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// drawn returns random numbers that a bucket can have.
func drawn(r *rand.Rand) (limit, burst, span int64) {
	for limit == 0 || Fills(int(limit), int(burst), time.Duration(span)) > windowmath.MaxWindow {
		limit, burst, span = any(r)
	}
	return limit, burst, span
}

func any(r *rand.Rand) (limit, burst, span int64) {
	limit, burst = 1+r.Int64N(1<<r.IntN(20)), 1+r.Int64N(1<<r.IntN(20))
	span = []int64{1e9, 60e9, 3600e9, 86400e9, 1 + r.Int64N(1<<40)}[r.IntN(5)]
	return limit, burst, span
}

// Generations are whole ticks and whole nanoseconds, a unit flows in as many ticks as
// its time has, and a time as far ahead as a full bucket and as much debt fits in 32
// bits.
func TestNew(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		limit, burst, span := drawn(r)
		b, generation := New(limit, burst, span)
		ticks := big.NewRat(b.Length, 1) // of limit units, two ways
		ticks.Mul(ticks, big.NewRat(span, int64(generation)))
		require.Zero(t, ticks.Cmp(big.NewRat(limit*b.Unit, 1)), "limit %d, span %d", limit, span)
		n, between := b.Ticks(generation)
		require.False(t, between)
		require.EqualValues(t, b.Length, n)
		require.LessOrEqual(t, b.Length+burst*b.Unit, int64(math.MaxUint32))
	}
}

// Ticks rounds down and TicksUp up, by less than one.
func TestTicks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		limit, burst, span := drawn(r)
		b, generation := New(limit, burst, span)
		elapsed := time.Duration(r.Int64N(int64(generation)))
		exactly := big.NewRat(int64(elapsed), int64(generation))
		exactly.Mul(exactly, big.NewRat(b.Length, 1))
		down, between := b.Ticks(elapsed)
		up := b.TicksUp(elapsed)
		require.LessOrEqual(t, big.NewRat(int64(down), 1).Cmp(exactly), 0)
		require.GreaterOrEqual(t, big.NewRat(up, 1).Cmp(exactly), 0)
		require.Equal(t, between, int64(down) != up)
		require.LessOrEqual(t, up-int64(down), int64(1))
	}
}

// Who waits RetryAfter finds the units, and who waits a nanosecond less does not; free
// units never exceed those that have flowed exactly.
func TestTime(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		limit, burst, span := drawn(r)
		b, _ := New(limit, burst, span)
		now := int64(1_700_000_000_000_000_000) + r.Int64N(1<<40)
		at := Time{Nanos: now, Of: uint64(limit)}
		used := int64(0)
		for range 1 + r.IntN(4) {
			if left := burst - used; left > 0 {
				n := 1 + r.Int64N(left)
				at, used = at.Add(&b, n), used+n
			}
		}
		require.Equal(t, burst-used, at.Free(&b, now, burst))
		n := 1 + r.Int64N(burst)
		if n <= burst-used {
			continue
		}
		wait := at.RetryAfter(&b, now, n, burst)
		free := func(wait time.Duration) int64 {
			later := at.At(now+int64(wait), limit)
			return later.Free(&b, now+int64(wait), burst)
		}
		require.Positive(t, wait)
		require.GreaterOrEqual(t, free(wait), n)
		require.Less(t, free(wait-1), n)
	}
	b, _ := New(5, 5, 1e9)
	for _, n := range []int64{math.MinInt64, 0, 6, math.MaxInt64} {
		require.Equal(t, windowmath.Never, new(Time).RetryAfter(&b, 0, n, 5))
		require.Equal(t, windowmath.Never, b.RetryAfter(0, 0, n, 5, 5))
	}
}

// What a bucket frees by ticks is what the exact time frees, or a unit less.
func TestFreeByTicks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20000 {
		limit, burst, span := drawn(r)
		b, _ := New(limit, burst, span)
		n := r.Int64N(burst + 1)
		require.Equal(t, burst-n, b.Free(n*b.Unit, limit, limit))
		lower := 1 + r.Int64N(limit)
		most := b.Most(lower, limit)
		require.LessOrEqual(t, most, max(burst, 1))
		n = r.Int64N(most + 1)
		require.LessOrEqual(t, b.Free(b.Charged(n, lower, limit), lower, limit), most-n)
		require.GreaterOrEqual(t, b.Free(b.Flows(n, lower, limit), lower, limit), most-n)
		if b.Even(lower, limit) {
			require.Equal(t, b.Charged(n, lower, limit), b.Flows(n, lower, limit))
		}
	}
}

func TestFills(t *testing.T) {
	require.EqualValues(t, time.Second, Fills(5, 5, time.Second))
	require.EqualValues(t, 4*time.Second+1, Fills(5, 20, time.Second))
	require.Greater(t, Fills(1, math.MaxInt32, 1<<50), int64(windowmath.MaxWindow))
	require.Equal(t, int64(math.MaxInt64), Fills(1, math.MaxInt32, math.MaxInt64))
}

func TestPassed(t *testing.T) {
	b, _ := New(5, 5, 1e9)
	require.Zero(t, b.Passed(7, 7))
	require.EqualValues(t, b.Length, b.Passed(7, 8))
	require.Equal(t, uint32(math.MaxUint32), b.Passed(0, 1<<40))
}
