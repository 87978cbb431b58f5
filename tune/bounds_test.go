package tune

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// TestMemoryBelowKeys: less than a byte for 16 keys of a generation is refused, in a
// goal and in a plan.
func TestMemoryBelowKeys(t *testing.T) {
	traffic := Traffic{Keys: 1_000_000}
	_, _, err := Plan(traffic, Goal{Limit: 5, MemoryBytes: 8 << 10})
	require.EqualError(t, err, "tune: Goal.MemoryBytes 8192, must be at least 125000 for 1000000 keys in a window")
	_, _, err = Plan(traffic, Goal{Limit: 5, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 8 << 10})
	require.EqualError(t, err, "tune: Goal.MemoryBytes 8192, must be at least 62500 for 1000000 keys in a window")
	_, _, err = Plan(Traffic{Keys: 1000, OneHit: 0.999999}, Goal{Limit: 5, MemoryBytes: 8 << 10})
	require.ErrorContains(t, err, "keys in a window", "those that come once count")

	plan, _, err := sketchlimit.Config{Limit: 5, Window: time.Minute, MemoryBytes: 8 << 10}.Size()
	require.NoError(t, err)
	_, err = Predict(traffic, Goal{Limit: 5}, plan)
	require.ErrorContains(t, err, "must be at least 125000 for 1000000 keys in a window")
}

// TestSilentKeysAreEvents: a simulation has no more keys than events, however rarely
// they come.
func TestSilentKeysAreEvents(t *testing.T) {
	s, err := newEvaluator(Traffic{Keys: 1_000_000, Requests: 5}, Goal{Limit: 100, FalseDenialRate: 1e-5})
	require.NoError(t, err)
	assert.InDelta(t, 1, s.events(coarseDetail), 1e-9)
	memory := 8 << 20
	d, err := s.need.Spend(memory, s.need.Shape(memory))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(s.simulate(d, maxLoad, breakingEvents, coarseDetail, nil, tuneSeed).keys), 2*breakingEvents)
}

// TestOneHitKeysAreEvents: those beside a few heavy keys, whose own requests are sent
// together, are counted as well.
func TestOneHitKeysAreEvents(t *testing.T) {
	s, err := newEvaluator(Traffic{Keys: 2, Requests: 5_000_000, OneHit: 0.9}, Goal{Limit: 100, FalseDenialRate: 1e-5})
	require.NoError(t, err)
	assert.InDelta(t, 2_250_000+float64(coarseDetail), s.events(coarseDetail), 1)
}
