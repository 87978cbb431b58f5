package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Massuia, "Rate Limiters" (2024), approximate sliding window counter: 7 a minute, 5 in
// the previous window, 2 in the current one when a request comes 15s into it. The
// load is 2 + 5×0.75 = 5.75, and the request passes because 6.75 ≤ 7. Rounding 5.75
// down to 5 is not needed for that, and is wrong: 3 + 3.75, rounded down, would admit
// another at once, and 7.75 are too many. Nor does counting start afresh at 01:02:00:
// the three requests of this window then count in full.
func TestSlidingWindowMassuia(t *testing.T) {
	const s = time.Second
	w := must(NewSlidingWindow(7, time.Minute))
	w.Charge(clock("01:00:30"), "key", 5)
	take(t, w, clock("01:01:00"),
		step{10 * s, 1, yes(1, 110*s)}, // 5×5/6 + 1 = 5.17
		step{10 * s, 1, yes(0, 110*s)}, // T1: 6.17
		step{15 * s, 1, yes(0, 105*s)}, // T2: 6.75
		step{15 * s, 1, no(0, 9*s, 105*s)},
		step{24*s - 1, 1, no(0, 1, 96*s+1)},
		step{24 * s, 1, yes(0, 96*s)}, // 5×0.6 + 4 = 7
	)
	require.Equal(t, 3, w.PeekAt(clock("01:02:00"), "key", 1).Remaining) // T3: 4 were admitted
}

// Massuia's second telling puts the same request at 01:00:45, with the previous window
// still at 75 %. Three quarters into a window of a minute it weighs a quarter:
// 2 + 5×0.25 = 3.25. The figures 0.75 and 5.75 belong to 01:00:15.
func TestSlidingWindowMassuiaRolling(t *testing.T) {
	w := must(NewSlidingWindow(7, time.Minute))
	w.Charge(clock("00:59:30"), "key", 5)
	w.Charge(clock("01:00:10"), "key", 2)
	require.Equal(t, 1, w.PeekAt(clock("01:00:15"), "key", 1).Remaining) // 7 − 5.75
	require.Equal(t, 3, w.PeekAt(clock("01:00:45"), "key", 1).Remaining) // 7 − 3.25
	require.Equal(t, 5, w.PeekAt(clock("01:01:00"), "key", 1).Remaining) // 7 − 2
}

// Kong, "How to design a scalable rate limiting algorithm" (2017): a quarter into the
// window the previous count weighs three quarters.
func TestSlidingWindowKong(t *testing.T) {
	w := must(NewSlidingWindow(100, time.Hour))
	w.Charge(noon, "key", 40)
	require.Equal(t, 70, w.PeekAt(noon.Add(75*time.Minute), "key", 1).Remaining)
}

// "System design - Rate limiter" (2025) has the load rounded "up or down", then
// compared. Halfway, 3 weigh 1.5: beside 8, rounding down admits a tenth of 10.
func TestSlidingWindowRoundsNeitherWay(t *testing.T) {
	w := must(NewSlidingWindow(10, time.Second))
	w.Charge(noon, "key", 3)
	take(t, w, noon.Add(1500*ms),
		step{0, 8, yes(0, 1500*ms)},
		step{0, 1, no(0, 500*ms/3+1, 1500*ms)}, // 3×(1−e) ≤ 1 from e = 2/3 s, rounded up
	)
}

// At the first instant of a generation the previous one weighs exactly 1.
func TestSlidingWindowWeighsFullyAtTheEdge(t *testing.T) {
	take(t, must(NewSlidingWindow(4, time.Second)), noon,
		step{999 * ms, 4, yes(0, 1001*ms)},
		step{1000 * ms, 1, no(0, 250*ms, 1000*ms)},
		step{1250*ms - 1, 1, no(0, 1, 750*ms+1)},
		step{1250 * ms, 1, yes(0, 1750*ms)},
		step{1250 * ms, 4, no(0, 1750*ms, 1750*ms)}, // only an empty key has room for 4
	)
}

// go-chi/httprate's two counters, with the weights' part seen through the state.
func TestSlidingWindowHttprate(t *testing.T) {
	w := must(NewSlidingWindow(1000, time.Minute))
	for i, c := range []struct {
		at                string
		charges           []int
		previous, current int64
	}{
		{"01:00:00", []int{1, 99}, 0, 100},
		{"01:01:00", nil, 100, 0},
		{"01:01:00", []int{20, 20}, 100, 40},
		{"01:02:00", nil, 40, 0},
		{"01:02:00", []int{1, 9, 20}, 40, 30},
		{"01:04:00", nil, 0, 0},
	} {
		for _, n := range c.charges {
			w.Charge(clock(c.at), "key", n)
		}
		s := w.rule.Spend(w.state("key"), clock(c.at).UnixNano(), 0) // turns the state, and no more
		require.Equal(t, c.previous, s.Previous, "row %d", i)
		require.Equal(t, c.current, s.Current, "row %d", i)
	}
}
