package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/stretchr/testify/require"
)

// A full table leaves keys in the sketch, and nobody over the limit.
func TestFullHeavyTable(t *testing.T) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) },
		Plan: &sketchlimit.Plan{Shards: 1, BloomBytes: 4096, BloomProbes: 3, Depth: 4, Width: 4096, CellBits: 8, HeavyEntries: 16, PromoteAt: 16}})
	require.NoError(t, err)
	for key := range 50 {
		admitted := 0
		for range 120 {
			if l.AllowN(string(rune(key)), 1) {
				admitted++
			}
		}
		require.InDelta(t, 100, admitted, 2)
		require.LessOrEqual(t, admitted, 100)
	}
}

// Whoever has used all of the limit and then waits as long as told gets all of it back,
// also where others have left their units in the key's cells meanwhile: its entry knows
// that none of them are the key's.
func TestHeavyKeyPassesWhenToldTo(t *testing.T) {
	const keys, heavy = 10_000, 100
	now := time.Unix(0, 0)
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: keys, Seed: 1, Clock: func() time.Time { return now }})
	require.NoError(t, err)
	name := func(i int) string { return fmt.Sprint("heavy", i) }
	for i := range heavy {
		require.True(t, l.AllowN(name(i), 100))
	}
	now = now.Add(time.Minute)
	for i := range 5 * keys {
		l.Allow(fmt.Sprint(i % keys))
	}
	now = now.Add(30 * time.Second)
	for i := range heavy {
		d := l.Take(name(i), 100)
		require.Equal(t, sketchlimit.Decision{Limit: 100, Remaining: 50, RetryAfter: 30 * time.Second, ResetAfter: 30 * time.Second}, d)
	}
	now = now.Add(30 * time.Second)
	passed := 0
	for i := range heavy {
		require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 100, Remaining: 100}, l.Peek(name(i)))
		if l.Take(name(i), 100).Allowed {
			passed++
		}
	}
	require.Equal(t, heavy, passed)
}
