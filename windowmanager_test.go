package sketchlimit_test

import (
	"math"
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

func TestWindowManagerSteps(t *testing.T) {
	w, err := sketchlimit.NewWindowManager(time.Minute, at(time.Unix(0, 0)))
	require.NoError(t, err)
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
		{"the last time that fits", time.Unix(0, math.MaxInt64), math.MaxInt64 / int64(time.Minute), math.MaxInt64 % time.Minute, 3},
		{"later times stay there", time.Unix(1<<60, 0), math.MaxInt64 / int64(time.Minute), math.MaxInt64 % time.Minute, 3},
		{"and do not wrap around", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64 / int64(time.Minute), math.MaxInt64 % time.Minute, 3},
	}
	for _, s := range steps {
		require.Equal(t, sketchlimit.Position{Generation: s.generation, Elapsed: s.elapsed}, w.At(s.now), s.name)
		require.Equal(t, s.generation, w.Latest(), s.name)
		require.Equal(t, s.turns, w.Turns(), s.name)
	}
}

func TestWindowManagerBefore1970(t *testing.T) {
	w, err := sketchlimit.NewWindowManager(time.Minute, at(time.Unix(-1<<60, 0)))
	require.NoError(t, err)
	require.Equal(t, sketchlimit.Position{Generation: -2, Elapsed: 59 * time.Second}, w.At(time.Unix(-61, 0)), "rounds down, not towards 0")
	require.Equal(t, sketchlimit.Position{Generation: -1}, w.At(time.Unix(-60, 0)))
	require.Equal(t, sketchlimit.Position{Generation: -1, Elapsed: time.Minute - 1}, w.At(time.Unix(0, -1)))
	require.Equal(t, sketchlimit.Position{}, w.At(time.Unix(0, 0)))
}

func TestWindowManagerRefusesNoLength(t *testing.T) {
	_, err := sketchlimit.NewWindowManager(0, nil)
	require.EqualError(t, err, "sketchlimit: generation of 0s, must be above 0")
}

func TestWindowManagerClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := sketchlimit.NewWindowManager(time.Minute, nil)
		require.NoError(t, err)
		first := w.Now()
		require.Equal(t, time.Now().UnixNano(), first.Generation*int64(time.Minute)+int64(first.Elapsed))
		time.Sleep(90 * time.Second)
		require.Equal(t, time.Now().UnixNano(), w.Now().Generation*int64(time.Minute)+int64(w.Now().Elapsed))
		require.Equal(t, first.Generation+1, w.Latest())
	})
}

// Whatever order times come in, no goroutine ever sees a generation end and come
// back, and every turn is counted once.
func TestWindowManagerNeverGoesBack(t *testing.T) {
	w, err := sketchlimit.NewWindowManager(time.Second, at(time.Unix(0, 0)))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 0))
			last := int64(0)
			for i := range 10_000 {
				now := time.Duration(i)*10*time.Millisecond + time.Duration(r.Int64N(int64(3*time.Second))) - time.Second
				p := w.At(time.Unix(0, int64(now)))
				if p.Generation < last || p.Generation < int64(now/time.Second) || p.Elapsed < 0 || p.Elapsed >= time.Second {
					t.Errorf("at %v after generation %d: %+v", now, last, p)
					return
				}
				last = p.Generation
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, w.Turns(), uint64(w.Latest()))
}
