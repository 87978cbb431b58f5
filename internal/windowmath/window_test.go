package windowmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// used returns what counts weigh by age, at a position, in rational numbers.
func used(w *Window, counts []int64, elapsed time.Duration) *big.Rat {
	sum := new(big.Rat)
	for age, c := range counts {
		part := big.NewRat(c, 1)
		if age > 0 && age == w.Ring.Buffers()-1 {
			part.Mul(part, big.NewRat(w.Timeline.Length()-int64(elapsed), w.Timeline.Length()))
		}
		sum.Add(sum, part)
	}
	return sum
}

// admits reports whether n units are free after a time in which nothing comes, in
// rational numbers.
func admits(w *Window, counts []int64, p rotating.Position, n, limit int64, later time.Duration) bool {
	at := w.Timeline.Add(p, later)
	aged := make([]int64, len(counts))
	if by := at.Generation - p.Generation; by < int64(len(counts)) {
		copy(aged[by:], counts)
	}
	sum := used(w, aged, at.Elapsed)
	return sum.Add(sum, big.NewRat(n, 1)).Cmp(big.NewRat(limit, 1)) <= 0
}

// window returns a random window, with a position and counts by age that are within a
// limit.
func window(r *rand.Rand) (w Window, p rotating.Position, counts []int64, limit int64) {
	length := 1 + r.Int64N(1<<r.IntN(40))
	w = New(time.Duration(length), 1+r.IntN(5))
	p = rotating.Position{Generation: r.Int64N(100), Elapsed: time.Duration(r.Int64N(length))}
	limit = 1 + r.Int64N(1<<r.IntN(31))
	counts = make([]int64, w.Ring.Buffers())
	left := limit
	for age := range counts {
		counts[age] = r.Int64N(left + 1)
		if r.IntN(3) == 0 {
			left -= counts[age]
		}
	}
	return w, p, counts, limit
}

func TestWeighted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		w, p, counts, limit := window(r)
		oldest := len(counts) - 1
		for age, c := range counts {
			alone := make([]int64, len(counts))
			alone[age] = c
			exactly := used(&w, alone, p.Elapsed)
			weighted := w.Weighted(c, age, p.Elapsed)
			require.GreaterOrEqual(t, big.NewRat(weighted, 1).Cmp(exactly), 0)
			require.Less(t, big.NewRat(weighted-1, 1).Cmp(exactly), 0, "rounded up by less than one")
		}
		if oldest > 0 {
			free := r.Int64N(limit + 1)
			require.Equal(t, w.Weighted(counts[oldest], oldest, p.Elapsed) <= free, w.WeighsAtMost(counts[oldest], p.Elapsed, free))
		}
	}
	w := New(math.MaxInt64, 2)
	require.Equal(t, int64(math.MaxInt64), w.Weighted(math.MaxInt64, 1, 0))
	require.EqualValues(t, 1, w.Weighted(math.MaxInt64, 1, math.MaxInt64-1))
}

// Who waits RetryAfter passes, and who waits a nanosecond less does not.
func TestRetryAfter(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		w, p, counts, limit := window(r)
		n := 1 + r.Int64N(limit)
		if admits(&w, counts, p, n, limit, 0) {
			continue
		}
		after := w.RetryAfter(p, n, limit, func(age int) int64 { return counts[age] })
		require.Positive(t, after)
		require.True(t, admits(&w, counts, p, n, limit, after))
		require.False(t, admits(&w, counts, p, n, limit, after-1))
	}
}

func TestRetryAfterNever(t *testing.T) {
	w := New(time.Second, 2)
	for _, n := range []int64{math.MinInt64, -1, 0, 6, math.MaxInt64} {
		require.Equal(t, Never, w.RetryAfter(rotating.Position{}, n, 5, func(int) int64 { return 0 }))
	}
}

// A key weighs nothing after ResetAfter, and something a nanosecond before.
func TestResetAfter(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5000 {
		w, p, _, _ := window(r)
		newest := r.IntN(w.Ring.Buffers())
		counts := make([]int64, w.Ring.Buffers())
		counts[newest] = 1 << 40
		after := w.ResetAfter(p, newest)
		require.True(t, admits(&w, counts, p, 1, 1, after))
		require.False(t, admits(&w, counts, p, 1, 1, after-1))
	}
	w := New(time.Second, 3)
	require.Zero(t, w.ResetAfter(rotating.Position{}, 3))
}

func TestSpan(t *testing.T) {
	for generations, want := range map[int]time.Duration{1: 7, 2: 7, 4: 21} {
		w := New(7, generations)
		require.Equal(t, want, w.Span())
	}
}
