package redislimit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestStatsFalseDenialRate holds the rate, in a sketch that is far too small, against how many of
// 1000 new keys are denied: within 6 standard deviations of that, by chance once in 5e8. Two
// generations, or two of a bucket's, have been written to, and some blocks in the first alone.
func TestStatsFalseDenialRate(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, c := range []Config{
		{Limit: 10, Algorithm: sketchlimit.SlidingWindow},
		{Limit: 10, Algorithm: sketchlimit.FixedWindow},
		{Limit: 300, Algorithm: sketchlimit.SlidingWindow},
		{Limit: 10, Algorithm: sketchlimit.TokenBucket},
	} {
		t.Run(fmt.Sprint(c.Algorithm, c.Limit), func(t *testing.T) {
			c.Window, c.MemoryBytes, c.Failure = time.Hour, 3000, FailClosed
			s := strict(t, client, c)
			start := time.Unix(1_700_000_000, 0).Truncate(c.Window)
			spend := func(keys int, when float64) time.Time {
				random := rand.New(rand.NewPCG(5, 6))
				now := start.Add(time.Duration(when * float64(c.Window)))
				for i := range keys {
					_, err := s.TakeAt(t.Context(), now, fmt.Sprint("key", i), 1+random.IntN(c.Limit))
					require.NoError(t, err)
				}
				return now
			}
			cells := int(s.shards * s.blocks * s.cells())
			spend(2*cells, 0.9)
			now := spend(2*cells, 1.2)

			stats, err := s.statsAt(t.Context(), now)
			require.NoError(t, err)
			const peeks = 1000
			denied := 0
			for i := range peeks {
				if !peekAt(t, s, now, fmt.Sprint("new", i), 1).Allowed {
					denied++
				}
			}
			t.Log(stats.FalseDenialRate, denied, stats.SketchFill)
			p := stats.FalseDenialRate
			require.Greater(t, p, 0.01)
			require.InDelta(t, p*peeks, denied, 6*math.Sqrt(peeks*p*(1-p)))
		})
	}
}

// TestStats counts units by how they were decided, and cells; after two windows these are free.
func TestStats(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		c := hour
		c.Algorithm = a
		s := strict(t, client, c)
		now := time.Unix(1_700_000_000, 0)
		for _, n := range []int{3, 2, 4} {
			_, err := s.TakeAt(t.Context(), now, "k", n)
			require.NoError(t, err)
			peekAt(t, s, now, "k", n)
		}
		stats, err := s.statsAt(t.Context(), now)
		require.NoError(t, err)
		cells := float64(s.shards * s.blocks * s.cells())
		require.EqualValues(t, 5, stats.Admitted)
		require.EqualValues(t, 4, stats.Denied)
		require.InEpsilon(t, rows/cells, stats.SketchFill, 1e-9)
		for range 3 {
			_, err := s.TakeAt(t.Context(), now, "k", math.MaxInt)
			require.NoError(t, err)
		}
		require.EqualValues(t, 4+3*c.Limit, s.denied.Load(), "at most the limit each")
		require.InEpsilon(t, 1/cells, stats.FalseDenialRate*math.Pow(float64(s.columns), rows)*rows/float64(s.cells())/float64(s.columns), 1)
		stats, err = s.statsAt(t.Context(), now.Add(3*c.Window))
		require.NoError(t, err)
		require.Zero(t, stats.SketchFill)
		require.Zero(t, stats.FalseDenialRate)
	}
	s := strict(t, connect(t, "127.0.0.1:1"), hour)
	goAway(t, s.scripts)
	stats, err := s.Stats(t.Context())
	require.ErrorContains(t, err, "redislimit: ")
	require.Error(t, stats.Err)
}
