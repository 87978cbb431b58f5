package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// queries returns the median queries of attacks on a small limiter until a chosen
// victim is denied.
func queries(t *testing.T, a sketchlimit.Algorithm, sees view) (first, second int) {
	t.Helper()
	s := scenario{algorithm: a, keys: 2000, limit: 100, sees: sees, queries: 1_000_000}
	firsts, seconds, err := s.attacks(11)
	require.NoError(t, err)
	return median(firsts), median(seconds)
}

// Exact answers lead to a victim's cells in a fraction of what a flood takes, coarse
// ones in a third of it or more. A token bucket has none: answers do not help.
func TestAttack(t *testing.T) {
	testkit.OneGoroutine(t)
	for a, gain := range map[sketchlimit.Algorithm]int{ // of exact answers over a flood
		sketchlimit.SlidingWindow: 4, sketchlimit.FixedWindow: 5, sketchlimit.TokenBucket: 1, // no gain
	} {
		t.Run(a.String(), func(t *testing.T) {
			exact, second := queries(t, a, all)
			coarsely, _ := queries(t, a, coarse)
			flood, _ := queries(t, a, denials)
			t.Log("exact", exact, "second", second, "coarse", coarsely, "flood", flood)
			require.Greater(t, coarsely*3, flood)
			require.Greater(t, second*4, exact)
			if a == sketchlimit.TokenBucket {
				require.Equal(t, flood, exact)
				require.Greater(t, flood, 1000, "most of the places of the table")
			} else {
				require.Less(t, exact*gain, flood)
			}
		})
	}
}

// An attacker who may ask little gives up.
func TestAttackGivesUp(t *testing.T) {
	s := scenario{algorithm: sketchlimit.SlidingWindow, keys: 2000, limit: 100, queries: 500}
	first, second, err := s.attacks(1)
	require.NoError(t, err)
	require.Equal(t, []int{500}, first)
	require.Equal(t, []int{500}, second)
}
