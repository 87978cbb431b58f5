package tests

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// A bucket's limiter becomes larger as keys come and smaller when they have gone. What
// a key had used counts in the new table: it passes what the exact bucket passes.
func TestBucketGrowsAndShrinks(t *testing.T) {
	testkit.Computes(t)
	const burst, most = 5, 8 << 20
	now := time.Unix(1_700_000_000, 0)
	c := sketchlimit.Config{Limit: burst, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Keys: 500, MaxMemoryBytes: most,
		Seed: 1, Clock: func() time.Time { return now }}
	l := build(t, c)
	oracle, err := exact.NewGCRA(burst, time.Minute, burst)
	require.NoError(t, err)
	small, denied, sent, reached := l.MemoryBytes(), 0, 0, 0
	send := func(keys, requests int) {
		step := time.Minute / time.Duration(requests)
		for i := range requests {
			now = now.Add(step)
			key := strconv.Itoa(i * 7919 % keys)
			free := oracle.PeekAt(now, key, 1)
			d := l.Take(key, 1)
			if d.Allowed {
				require.True(t, oracle.TakeAt(now, key, 1).Allowed)
			} else if free.Allowed {
				denied++
			}
			sent++
			require.LessOrEqual(t, l.MemoryBytes(), most)
			reached = max(reached, l.MemoryBytes())
			if i%(requests/64) == 0 {
				time.Sleep(time.Millisecond) // what grows has a goroutine
			}
		}
	}
	for keys := 500; keys <= 16_000; keys *= 2 {
		send(keys, 2*keys)
		send(keys, 2*keys)
	}
	require.Greater(t, reached, 10*small)
	require.Less(t, denied, sent/200, "of %d", sent)
	require.Less(t, l.Stats().FalseDenialRate, 1e-3)
	require.InEpsilon(t, 8000, l.Stats().DistinctKeys, 0.2) // each for 12 s of each half minute
	for range 80 {
		send(100, 640)
	}
	require.Less(t, l.MemoryBytes(), reached/8)
	require.Less(t, l.Stats().FalseDenialRate, 1e-5)
}
