package main

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// The count decides as package exact does.
func TestUnitsAreExact(t *testing.T) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		oracle, err := exact.Of(sketchlimit.Config{Limit: limit, Window: window, Algorithm: algorithm})
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(1, 2))
		counts := make([]units, 5)
		admitted := 0
		for passed := time.Duration(0); passed < 200*window; {
			passed += time.Duration(random.Int64N(int64(window / 100)))
			if random.IntN(1000) == 0 {
				passed += 3 * window / 2 // a pause, over a whole generation now and then
			}
			key, n, at := random.IntN(len(counts)), 1+random.IntN(10), momentAt(passed)
			used := limit - oracle.PeekAt(at.time, strconv.Itoa(key), 1).Remaining // rounded up
			require.Equal(t, used < limit/2 || used == limit/2 && counts[key].used(algorithm, at)%int64(window) > 0,
				counts[key].innocent(algorithm, at))
			got := counts[key].take(algorithm, at, n)
			require.Equal(t, oracle.TakeAt(at.time, strconv.Itoa(key), n).Allowed, got)
			if got {
				admitted++
			}
		}
		require.Greater(t, admitted, 1000)
	}
}
