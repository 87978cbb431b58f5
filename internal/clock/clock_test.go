package clock

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Each step moves the two clocks; the time is the later of the wall clock and of what
// was shown, carried on.
func TestNowFollowsTheWallClockAhead(t *testing.T) {
	const second, hour = time.Second, time.Hour
	start := time.Date(2026, 11, 25, 23, 0, 0, 0, time.UTC)
	r := reading{wall: start}
	w := wall{read: func() reading { return r }}
	want := start
	for _, s := range []struct {
		name             string
		wall, mono, want time.Duration // since the step before
	}{
		{"the first", 0, 0, 0},
		{"both go on", second, second, second},
		{"a suspend: the monotonic clock stands still", 8 * hour, 0, 8 * hour},
		{"and both go on", second, second, second},
		{"a step ahead of the least", second + 1, second, second + 1},
		{"a step back", -hour + second, second, second},
		{"and both go on, an hour behind", second, second, second},
		{"a suspend that the wall clock needs to catch up", hour / 2, 0, 0},
		{"and goes past", hour, 0, hour / 2},
		{"a machine that was set right by years", 50 * 365 * 24 * hour, 0, 50 * 365 * 24 * hour},
		{"and back", -50 * 365 * 24 * hour, second, second},
	} {
		r.wall, r.mono, want = r.wall.Add(s.wall), r.mono+s.mono, want.Add(s.want)
		for range 2 {
			now, bubble := w.now()
			require.Equal(t, want, now, s.name)
			require.False(t, bubble)
		}
	}
}

// A thread that is held up for 20 ms between the monotonic clock and the wall clock has
// not seen a step.
func TestNowLooksTwiceAtAStep(t *testing.T) {
	start, reads := time.Unix(1000, 0), 0
	w := wall{read: func() reading {
		if reads++; reads == 2 {
			return reading{wall: start.Add(20 * time.Millisecond)}
		}
		return reading{wall: start}
	}}
	w.offset.Store(start.UnixNano())
	for range 4 {
		now, _ := w.now()
		require.Equal(t, start, now)
	}
	require.Equal(t, 5, reads)
}

func TestReadingsAreGoodForOneTick(t *testing.T) {
	Start()
	require.Eventually(t, func() bool { return Tick() != 0 }, 10*time.Second, time.Microsecond)
	before := time.Now().Round(0)
	now, tick := Read()
	require.False(t, now.Before(before))
	if tick == None {
		t.Skip("the machine was away for ten ticks")
	}
	require.Eventually(t, func() bool { return Tick() != tick }, 10*time.Second, time.Microsecond)
	require.Eventually(t, func() bool { return Tick() == 0 && !process.runs.Load() }, 10*time.Second, time.Millisecond,
		"nobody asks")
	_, tick = Read()
	require.Equal(t, None, tick, "parked")
}

// Ticks go on as long as somebody reads, and rest after ten in which nobody has.
func TestTickerEndsWithItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which the process would not start it
		var c ticks
		start := time.Now()
		c.runs.Store(true)
		go c.run()
		for i := range 50 {
			synctest.Wait()
			require.EqualValues(t, i+1, c.current.Load())
			c.used.Store(true)
			time.Sleep(Resolution)
		}
		for c.runs.Load() {
			time.Sleep(Resolution)
			synctest.Wait()
		}
		require.Zero(t, c.current.Load())
		require.InDelta(t, 60*Resolution, time.Since(start), float64(Resolution))
		c.runs.Store(true)
		go c.run()
		synctest.Wait()
		require.Greater(t, c.current.Load(), uint64(50), "numbers do not come again")
		time.Sleep(2 * parkAfter * Resolution)
		require.False(t, c.runs.Load())
	})
}

// Whoever is asked in a bubble goes by its time, whether the ticker of the process runs
// or not.
func TestBubblesHaveNoTicker(t *testing.T) {
	stop := make(chan struct{})
	ended := make(chan struct{})
	var running atomic.Bool
	go func() { // the process is in use all the time
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				Start()
				Read()
				running.Store(running.Load() || Tick() != 0)
				time.Sleep(Resolution / 4)
			}
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		Start()
		for range 1000 {
			now, tick := Read()
			require.Equal(t, time.Now(), now)
			require.Equal(t, None, tick)
			require.Equal(t, time.Now(), Now())
			time.Sleep(time.Hour)
		}
	})
	require.Eventually(t, running.Load, 10*time.Second, time.Millisecond)
	close(stop)
	<-ended
	require.Less(t, time.Since(Now()), time.Hour, "the bubble's year has left no trace")
}

func TestReadingAllocatesNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(1000, func() { Read() }))
}
