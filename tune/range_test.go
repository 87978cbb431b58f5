package tune

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Of Poisson counts the range is where they are; each event may stand for several.
func TestRangeOf(t *testing.T) {
	require.Equal(t, Range{}, rangeOf([]float64{0, 0, 0}))
	counts := slices.Repeat([]float64{2, 3, 4, 4, 5, 6}, 10) // mean 4, variance 5/3
	one := rangeOf(counts)
	require.Less(t, one.Low, 2.5)
	require.Greater(t, one.High, 5.5)
	require.Less(t, one.High, 7.0)
}

// Bursts from ever other keys are the careful side; a range is where the rate is.
func TestWhatIsAssumedAboutTime(t *testing.T) {
	testkit.Computes(t)
	traffic, goal := Traffic{Keys: 4000, Exponent: 1.1}, Goal{Limit: 20, MemoryBytes: 8 << 10}
	s, err := newEvaluator(traffic, goal)
	require.NoError(t, err)
	d, err := s.need.Spend(goal.MemoryBytes, s.need.Shape(goal.MemoryBytes))
	require.NoError(t, err)
	expected := func(even, steady bool) Expected {
		traffic.Even, traffic.Steady = even, steady
		s, err := newEvaluator(traffic, goal)
		require.NoError(t, err)
		s.counting = true
		return s.at(d, 1)
	}
	calm, changing, both := expected(true, true), expected(true, false), expected(false, false)
	require.Greater(t, changing.LostShare, 2*calm.LostShare)
	require.Greater(t, both.LostShare, 2*changing.LostShare)
	require.Less(t, both.LostRange.Low, both.LostShare)
	require.Greater(t, both.LostRange.High, both.LostShare)
}

// A Bloom filter that only counts keys does not keep shards large.
func TestShrinkLeavesACounterAlone(t *testing.T) {
	d := spec.Dimensions{Shards: 1, BloomBytes: 256, BloomProbes: 1, Depth: 3, Width: 5248, CellBits: 4}
	require.InDelta(t, 0.02, shrinkShard(&d, 0.02), 0.002)
	require.Equal(t, 256, d.BloomBytes)
	require.Equal(t, 112, d.Width)
	guarded := spec.Dimensions{Shards: 1, BloomBytes: 256, BloomProbes: 2, Depth: 3, Width: 5248, CellBits: 4}
	require.Equal(t, 0.5, shrinkShard(&guarded, 0.02))
}

// A sample has all requests of some keys, and a limiter that is as much smaller.
func TestSampleOfATrace(t *testing.T) {
	trace := NewTrace(time.Second)
	for i := range 3 * sampledRequests {
		trace.Add(time.Unix(0, int64(i)), strconv.Itoa(i%1000), 1)
	}
	judged, err := trace.judge(&Goal{Limit: 5})
	require.NoError(t, err)
	all := newReplays(trace, judged, 0.1, 0.1, 1)
	some := all.sample()
	byKey := map[uint32]int{}
	for _, r := range some.trace.requests {
		byKey[r.Key]++
	}
	for _, n := range byKey {
		require.Equal(t, 3*sampledRequests/1000, n)
	}
	require.InDelta(t, 333, len(byKey), 70)
	require.InDelta(t, 1000/float64(len(byKey)), some.load, 1e-9)
	require.Equal(t, float64(3*len(byKey)), some.lightRequests, "half of the limit is used by three")
}
