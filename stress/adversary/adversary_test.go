package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// logger writes to a test's log.
type logger struct{ testing.TB }

func (l logger) Write(b []byte) (int, error) {
	l.Helper()
	l.Log(string(b))
	return len(b), nil
}

// judge fails a test for whatever was found.
func judge(t *testing.T, b *bench) {
	t.Helper()
	for _, kind := range b.kinds {
		for rule := range b.tally[kind].rules {
			t.Errorf("%s: %s, from seed %d", kind, rule, b.seed)
		}
	}
}

// TestAdversary is the bench for three episodes of each kind.
func TestAdversary(t *testing.T) {
	b := bench{make: real, kinds: slices.Concat(sequential, concurrent, []string{forged}, single, rare), seed: 1, workers: 16, out: logger{t}}
	b.episodes, b.time = 3*len(b.kinds), 5*time.Minute // not by time: each kind has its turns on a slow machine
	if testing.Short() {
		b.episodes = len(b.kinds)
	}
	b.run(t.Context())
	for _, kind := range b.kinds {
		require.NotZero(t, b.tally[kind].steps, kind)
	}
	judge(t, &b)
}

// TestRates holds the rate that limiters tell against new keys, in twenty states of
// each kind. The seed is fixed: of 160 rates that are right one is 4 standard
// deviations off with a chance of 1 %.
func TestRates(t *testing.T) {
	b := bench{make: real, kinds: probed, seed: 1, episodes: 7 * len(probed), deviation: 4, out: logger{t}}
	if testing.Short() || raceEnabled { // one goroutine asks for the rates
		b.episodes, b.probeKeys = len(probed), 10_000
	}
	b.run(t.Context())
	judge(t, &b)
}
