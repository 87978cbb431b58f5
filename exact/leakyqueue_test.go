package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Massuia, "Rate Limiters" (2024): bucketSize = 4, one request every 2s. A request that
// enters the empty bucket at 01:00:00 has leaked out at 01:00:02. With three in the
// queue at 01:00:03 the document drops all: but the bucket holds four.
func TestLeakyQueueMassuia(t *testing.T) {
	const s = time.Second
	take(t, must(NewLeakyQueue(4, 2*s)), clock("01:00:00"),
		step{0 * s, 1, yes(3, 2*s)}, // T0
		step{2 * s, 3, yes(1, 6*s)}, // T1: the first is out, three queue up
		step{3 * s, 1, yes(0, 7*s)}, // T2: one more fits
		step{3 * s, 1, no(0, 1*s, 7*s)},
		step{4 * s, 1, yes(0, 8*s)}, // T3: the second is out, three in the queue
		step{4 * s, 1, no(0, 2*s, 8*s)},
	)
}

// With a bucket of 3 its steps hold as they are written.
func TestLeakyQueueMassuiaOfThree(t *testing.T) {
	const s = time.Second
	take(t, must(NewLeakyQueue(3, 2*s)), clock("01:00:00"),
		step{0 * s, 1, yes(2, 2*s)},
		step{2 * s, 3, yes(0, 6*s)},
		step{3 * s, 1, no(0, 1*s, 5*s)}, // full, dropped
		step{4 * s, 1, yes(0, 6*s)},     // two in the queue, and space for one
	)
}

// Requests leave in order, an interval apart, however they came.
func TestLeakyQueueDelays(t *testing.T) {
	q := must(NewLeakyQueue(3, 100*ms))
	for i, c := range []struct {
		at, delay time.Duration
		n         int
		ok        bool
	}{
		{0, 100 * ms, 1, true}, {10 * ms, 190 * ms, 1, true}, {20 * ms, 280 * ms, 1, true}, {30 * ms, 0, 1, false},
		{100 * ms, 300 * ms, 1, true}, {300 * ms, 300 * ms, 2, true}, {1000 * ms, 300 * ms, 3, true},
		{1000 * ms, 0, 4, false},
	} {
		delay, ok := q.EnqueueAt(noon.Add(c.at), "key", c.n)
		require.Equal(t, c.ok, ok, "request %d", i)
		require.Equal(t, c.delay, delay, "request %d", i)
	}
}

// "Algorithm of Rate Limiter" (2025), usage example: LeakyBucket(50, 5), 100 requests at
// once; the last admitted waits 10s.
func TestLeakyQueueUsageExample(t *testing.T) {
	q := must(NewLeakyQueue(50, time.Second/5))
	require.Equal(t, 50, admitted(q, noon, 100))
	require.Equal(t, 10*time.Second, q.PeekAt(noon, "key", 1).ResetAfter)
}

// Its code leaks (int)(elapsed × rate) and then takes the current time as the last leak:
// asked more often than once an interval it never leaks, and a full queue stays full
// for ever. Asked every millisecond, five a second must pass.
func TestLeakyQueueLeaksWhilePolled(t *testing.T) {
	q := must(NewLeakyQueue(50, time.Second/5))
	require.Equal(t, 50, admitted(q, noon, 50))
	n := 0
	for at := ms; at <= 2*time.Second; at += ms {
		n += admitted(q, noon.Add(at), 1)
	}
	require.Equal(t, 10, n)
}
