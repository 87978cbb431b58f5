package sketchlimit_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// Every limit gets a size, a lower rate never takes less memory, and more keys take more.
func TestEveryLimitHasASize(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("it sizes limiters that 32 bits cannot address")
	}
	for _, a := range []sketchlimit.Config{{}, {Algorithm: sketchlimit.FixedWindow}, {SubWindows: 4}, {Algorithm: sketchlimit.TokenBucket}} {
		for bits := range 32 {
			for _, limit := range []int{1 << bits, 1<<bits + 1, math.MaxInt32} {
				before := 0
				for _, rate := range []float64{0.5, 1e-2, 1e-3, 3e-5, 1e-6, 1e-7, 9e-8, 1e-9, 1e-12} {
					c := a
					c.Limit, c.Window, c.Keys, c.FalseDenialRate = min(limit, math.MaxInt32), time.Minute, 10_000, rate
					_, bytes, err := c.Size()
					require.NoError(t, err)
					require.GreaterOrEqual(t, bytes, before, "%+v", c)
					before = bytes
					c.Keys *= 10
					_, more, err := c.Size()
					require.NoError(t, err)
					require.Greater(t, more, bytes)
				}
			}
		}
	}
}

// Every lowest limit gets a size as well, of which New makes a limiter.
func TestEveryLowestLimitHasASize(t *testing.T) {
	for _, c := range []sketchlimit.Config{{}, {Algorithm: sketchlimit.FixedWindow}, {SubWindows: 4}, {Algorithm: sketchlimit.TokenBucket}, {Algorithm: sketchlimit.TokenBucket, Burst: 3}} {
		for _, c.Limit = range []int{2, 16, 17, 100, 257, 1000, 65_537, 1 << 22} {
			for _, c.LowestLimit = range []int{1, 2, 3, 7, 11, 12, 16, 17, 100, 1000} {
				for _, c.Keys = range []int{1, 1000, 20_000} {
					if c.Window = time.Minute; c.LowestLimit > c.Limit {
						continue
					}
					_, bytes, err := c.Size()
					require.NoError(t, err)
					require.LessOrEqual(t, build(t, c).MemoryBytes(), bytes, "%+v", c)
				}
			}
		}
	}
	// What holds a limit of 5 among limits up to 1000 takes not much more than what holds a limit of 5 alone.
	_, alone, err := sketchlimit.Config{Limit: 5, Window: time.Minute, Keys: 1e6}.Size()
	require.NoError(t, err)
	_, among, err := sketchlimit.Config{Limit: 1000, LowestLimit: 5, Window: time.Minute, Keys: 1e6}.Size()
	require.NoError(t, err)
	require.Less(t, among, 3*alone/2)
}
