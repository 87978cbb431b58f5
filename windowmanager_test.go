package sketchlimit_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// at returns a fixed clock.
func at(t time.Time) func() time.Time { return func() time.Time { return t } }

// requireAt looks at a time, and lets the manager see it.
func requireAt(t *testing.T, w *sketchlimit.WindowManager, now time.Time, generation int64, elapsed time.Duration, what ...any) {
	t.Helper()
	for _, tell := range []func(time.Time) (int64, time.Duration){w.Look, w.At, w.Look} {
		g, e := tell(now)
		require.Equal(t, generation, g, what...)
		require.Equal(t, elapsed, e, what...)
	}
}

func TestWindowManagerSteps(t *testing.T) {
	w, err := sketchlimit.NewWindowManager(time.Minute, at(time.Unix(0, 0)))
	require.NoError(t, err)
	const last = 1<<62 - 1 // ns, in 2116
	steps := []struct {
		name       string
		now        time.Time
		generation int64
		elapsed    time.Duration
		turns      uint64
	}{
		{"the epoch begins generation 0", time.Unix(0, 0), 0, 0, 0},
		{"inside it", time.Unix(59, 999_999_999), 0, time.Minute - 1, 0},
		{"back inside it", time.Unix(1, 0), 0, time.Second, 0},
		{"the next begins on the minute", time.Unix(60, 0), 1, 0, 1},
		{"back into an earlier one is the first instant of the latest", time.Unix(59, 0), 1, 0, 1},
		{"far back", time.Unix(-1e9, 0), 1, 0, 1},
		{"several at once", time.Unix(605, 0), 10, 5 * time.Second, 2},
		{"any zone", time.Unix(606, 0).In(time.FixedZone("", 5*3600+1800)), 10, 6 * time.Second, 2},
		{"the last time that fits", time.Unix(0, last), last / int64(time.Minute), last % time.Minute, 3},
		{"later times stay there", time.Unix(1<<60, 0), last / int64(time.Minute), last % time.Minute, 3},
		{"and do not wrap around", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), last / int64(time.Minute), last % time.Minute, 3},
	}
	for _, s := range steps {
		requireAt(t, w, s.now, s.generation, s.elapsed, s.name)
		require.Equal(t, s.generation, w.Latest(), s.name)
		require.Equal(t, s.turns, w.Turns(), s.name)
	}
}

func TestWindowManagerBefore1970(t *testing.T) {
	w, err := sketchlimit.NewWindowManager(time.Minute, at(time.Unix(-1<<60, 0)))
	require.NoError(t, err)
	requireAt(t, w, time.Unix(-61, 0), -2, 59*time.Second, "rounds down, not towards 0")
	requireAt(t, w, time.Unix(-60, 0), -1, 0)
	requireAt(t, w, time.Unix(0, -1), -1, time.Minute-1)
	requireAt(t, w, time.Unix(0, 0), 0, 0)
}

func TestWindowManagerRefusesNoLength(t *testing.T) {
	_, err := sketchlimit.NewWindowManager(0, nil)
	require.EqualError(t, err, "sketchlimit: generation of 0s, must be above 0")
}

func TestWindowManagerClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := sketchlimit.NewWindowManager(time.Minute, nil)
		require.NoError(t, err)
		first, elapsed := w.Now()
		require.Equal(t, time.Now().UnixNano(), first*int64(time.Minute)+int64(elapsed))
		time.Sleep(90 * time.Second)
		now, elapsed := w.Now()
		require.Equal(t, time.Now().UnixNano(), now*int64(time.Minute)+int64(elapsed))
		require.Equal(t, first+1, w.Latest())
	})
}

// Whatever order times come in, no goroutine ever sees a generation end and come
// back, and every turn is counted once.
func TestWindowManagerNeverGoesBack(t *testing.T) {
	w, err := sketchlimit.NewWindowManager(time.Second, at(time.Unix(0, 0)))
	require.NoError(t, err)
	w.At(time.Unix(0, 0))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 0))
			last := int64(0)
			for i := range 10_000 {
				now := time.Duration(i)*10*time.Millisecond + time.Duration(r.Int64N(int64(3*time.Second))) - time.Second
				generation, elapsed := w.At(time.Unix(0, int64(now)))
				if generation < last || generation < int64(now/time.Second) || elapsed < 0 || elapsed >= time.Second {
					t.Errorf("at %v after generation %d: %d and %v", now, last, generation, elapsed)
					return
				}
				last = generation
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, w.Turns(), uint64(w.Latest()))
}

// A limiter without a Clock reads the time in the background. Its short forms are
// late by the resolution at most, and make up for it in what they tell.
func TestShortFormsReadTheTimeInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, MemoryBytes: 1 << 20})
		require.NoError(t, err)
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		time.Sleep(sketchlimit.Resolution)
		require.True(t, l.AllowN("k", 10))
		time.Sleep(time.Minute)
		d := l.Take("k", 1)
		require.False(t, d.Allowed)
		require.InDelta(t, 6*time.Second, d.RetryAfter, float64(2*sketchlimit.Resolution))
		time.Sleep(d.RetryAfter)
		require.True(t, l.Peek("k").Allowed, "whoever waits as long as told passes")
		require.True(t, l.Allow("k"))
		time.Sleep(l.Peek("k").ResetAfter)
		require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 10, Remaining: 10}, l.Peek("k"))
		require.NoError(t, l.Close())
		time.Sleep(time.Hour)
		require.True(t, l.AllowN("k", 10), "a closed limiter reads the clock itself")
		require.NoError(t, l.Close(), "twice is no harm")
	})
}
