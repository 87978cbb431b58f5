package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// Massuia, "Rate Limiters" (2024), first figure: 3 a second. Its columns hold 3, 5, 4,
// 2 and 5 requests, of which 3, 3, 3, 2 and 3 are drawn as allowed.
func TestFixedWindowMassuiaFigure(t *testing.T) {
	f := must(NewFixedWindow(3, time.Second))
	for second, c := range []struct{ requests, allowed int }{{3, 3}, {5, 3}, {4, 3}, {2, 2}, {5, 3}} {
		require.Equal(t, c.allowed, admitted(f, noon.Add(time.Duration(second)*time.Second), c.requests))
	}
}

// Massuia's second figure: 5 a minute, five late in one window and five early in the
// next, so ten within the minute from 00:30 to 01:30. "System design - Rate limiter"
// (2025) says the same as [0.5:1]+[1:1.5]. The log admits five of them.
func TestFixedWindowMassuiaEdge(t *testing.T) {
	window, log := must(NewFixedWindow(5, time.Minute)), must(NewSlidingLog(5, time.Minute))
	var byWindow, byLog int
	for _, at := range []string{"00:00:30", "00:00:40", "00:00:50", "00:00:50", "00:00:59",
		"00:01:00", "00:01:05", "00:01:10", "00:01:15", "00:01:29"} {
		byWindow += admitted(window, clock(at), 1)
		byLog += admitted(log, clock(at), 1)
	}
	require.Equal(t, 10, byWindow)
	require.Equal(t, 5, byLog)
	require.Equal(t, 0, admitted(window, clock("00:01:29"), 1), "the figure's two dropped requests")
}

// "Algorithm of Rate Limiter" (2025): 99 at 59s and 99 at 61s against 100 a minute are
// 198 within two seconds.
func TestFixedWindowBoundaryOverload(t *testing.T) {
	f := must(NewFixedWindow(100, time.Minute))
	require.Equal(t, 99, admitted(f, noon.Add(59*time.Second), 99))
	require.Equal(t, 99, admitted(f, noon.Add(61*time.Second), 99))
}

// The same, usage example: FixedWindowCounter(60, 5) and ten requests at once.
func TestFixedWindowUsageExample(t *testing.T) {
	require.Equal(t, 5, admitted(must(NewFixedWindow(5, time.Minute)), noon, 10))
}

// "Rate Limiter In Action": 1000 a second, silent for 999ms, then 1000 in a millisecond
// and 1000 in the next: all pass. Split into 10 for each of 100 windows of 10ms, 20 do.
func TestFixedWindowInAction(t *testing.T) {
	for _, c := range []struct {
		limit  int
		window time.Duration
		passed int
	}{{1000, time.Second, 2000}, {10, 10 * ms, 20}} {
		f := must(NewFixedWindow(c.limit, c.window))
		got := admitted(f, noon.Add(999*ms), 1000) + admitted(f, noon.Add(1000*ms), 1000)
		require.Equal(t, c.passed, got)
	}
}

// The code of both documents begins a window with a request and ends it when more than
// its length has passed (`>`), one tick late. A window is half-open: at exactly its
// length the next one has begun.
func TestFixedWindowIsHalfOpen(t *testing.T) {
	take(t, must(NewFixedWindow(1, time.Second)), noon,
		step{0, 1, yes(0, 1000*ms)},
		step{1000*ms - 1, 1, no(0, 1, 1)},
		step{1000 * ms, 1, yes(0, 1000*ms)},
	)
}

// go-chi/httprate: increments at one instant against a limit of 3, and of 5; denied
// requests are not counted. Its increment of 0 always passes; here a cost below 1 is
// no request (TestCostOutOfRangeIsNeverAdmitted).
func TestFixedWindowHttprate(t *testing.T) {
	for _, c := range []struct {
		limit, n int
		want     []bool
	}{
		{3, 1, []bool{true, true, true, false}},
		{3, 2, []bool{true, false, false, false}},
		{3, 3, []bool{true, false, false, false}},
		{3, 4, []bool{false, false, false, false}},
	} {
		f := must(NewFixedWindow(c.limit, time.Minute))
		for i, want := range c.want {
			require.Equal(t, want, f.TakeAt(noon, "key", c.n).Allowed, "%d units, request %d", c.n, i)
		}
	}
	const minute = time.Minute
	take(t, must(NewFixedWindow(5, minute)), noon,
		step{0, 2, yes(3, minute)},
		step{0, 2, yes(1, minute)},
		step{0, 1, yes(0, minute)},
		step{0, 2, no(0, minute, minute)},
		step{0, 10, no(0, sketchlimit.Never, minute)},
		step{0, 1, no(0, minute, minute)},
	)
}
