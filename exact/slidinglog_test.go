package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Massuia, "Rate Limiters" (2024): 5 a minute. The request at 01:01:20 passes, though
// not because "the logs before 01:00:20 are cleared", which would leave three: those
// of 01:00:20 itself are a window old and do not count either. Room for two there has
// been since 01:01:10.
func TestSlidingLogMassuia(t *testing.T) {
	const s = time.Second
	take(t, must(NewSlidingLog(5, time.Minute)), clock("01:00:00"),
		step{10 * s, 1, yes(4, 60*s)}, // T1: two requests
		step{10 * s, 1, yes(3, 60*s)},
		step{20 * s, 1, yes(2, 60*s)}, // T2: three
		step{20 * s, 1, yes(1, 60*s)},
		step{20 * s, 1, yes(0, 60*s)},
		step{30 * s, 1, no(0, 40*s, 50*s)}, // T3: dropped
		step{70*s - 1, 1, no(0, 1, 10*s+1)},
		step{80 * s, 1, yes(4, 60*s)}, // T4
	)
}

// All documents keep a unit of age exactly window: "remove all timestamp before
// 1:00:30" at 1:01:30 ("System design - Rate limiter", 2025), and `now - t > window`
// in the code of "Rate Limiter In Action" and "Algorithm of Rate Limiter" (2025).
// Then a steady limit units every window would be one too many. Here the window is
// half-open.
func TestSlidingLogIsHalfOpen(t *testing.T) {
	take(t, must(NewSlidingLog(1, time.Minute)), clock("01:00:30"),
		step{0, 1, yes(0, time.Minute)},
		step{time.Minute - 1, 1, no(0, 1, 1)},
		step{time.Minute, 1, yes(0, time.Minute)},
		step{2 * time.Minute, 1, yes(0, time.Minute)},
	)
}

// "Algorithm of Rate Limiter" (2025): SlidingWindowLog(1, 10), 15 requests at once.
func TestSlidingLogUsageExample(t *testing.T) {
	require.Equal(t, 10, admitted(must(NewSlidingLog(10, time.Second)), noon, 15))
}

// RetryAfter waits for as many units as are needed, not for the first.
func TestSlidingLogWaitsForEnoughUnits(t *testing.T) {
	take(t, must(NewSlidingLog(6, time.Second)), noon,
		step{0, 1, yes(5, 1000*ms)},
		step{100 * ms, 2, yes(3, 1000*ms)},
		step{200 * ms, 3, yes(0, 1000*ms)},
		step{300 * ms, 1, no(0, 700*ms, 900*ms)},
		step{300 * ms, 2, no(0, 800*ms, 900*ms)},
		step{300 * ms, 3, no(0, 800*ms, 900*ms)},
		step{300 * ms, 4, no(0, 900*ms, 900*ms)},
		step{1100 * ms, 3, yes(0, 1000*ms)},
	)
}
