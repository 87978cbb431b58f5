package exactmath

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A ring of zeros from long ago is a new key's, in memory that the caller has.
func TestSlotsCountInGivenMemory(t *testing.T) {
	const m, slot = 6, int64(10 * time.Second)
	l := NewSlots(10, slot, m)
	for _, start := range []int64{-MaxTime, 0, MaxTime - 100*slot} {
		counts := make([]int64, m+1)
		given, made := Ring{Latest: -MaxTime, Counts: counts}, Ring{}
		for r, now := rand.New(rand.NewPCG(1, 1)), start; now < start+100*slot; now += r.Int64N(2 * slot) {
			require.Equal(t, l.Wait(made, now, 3), l.Wait(given, now, 3))
			free, reset := l.Left(made, now)
			units, whole := l.Left(given, now)
			require.Equal(t, free, units)
			require.Equal(t, reset, whole)
			made, given = l.Spend(made, now, 1), l.Spend(given, now, 1)
			require.Equal(t, made, given)
			require.Same(t, &counts[0], &given.Counts[0])
		}
	}
	counts := make([]int64, m+1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		clear(counts)
		s := Ring{Latest: -MaxTime, Counts: counts}
		for now := range int64(2 * m) {
			s = l.Spend(s, now*slot, 1)
		}
	}))
}

// From one end of time to the other there are more generations than an int64 counts,
// if a slot is a nanosecond.
func TestSlotsAreAsFarApartAsTimes(t *testing.T) {
	l := NewSlots(3, 1, 2)
	s := l.Spend(l.Spend(Ring{}, -MaxTime, 3), MaxTime, 1)
	units, reset := l.Left(s, MaxTime)
	require.EqualValues(t, 2, units)
	require.EqualValues(t, 3, reset)
}
