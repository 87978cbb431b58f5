package overcapacity

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A shard is over capacity when too many are denied on average, and not because they
// would be for a moment.
func TestRateIsAveraged(t *testing.T) {
	const look = 1. / 100
	var s Shard
	for range 100 { // one window
		s.Look(s.Average(1e-3, look), 0, 1, 0, 0, 0)
	}
	require.InEpsilon(t, 1e-3, s.rate, 0.02)
	require.InEpsilon(t, 1e-3*(1-look/Averaged), s.Average(0, look), 0.03)
	require.Zero(t, s.Average(0, Averaged))

	s = Shard{}
	require.Less(t, s.Average(1e-3, 1), 1e-4, "where a shard has not looked for long, it has denied nobody")
	for i := range 1000 { // nothing is admitted
		moment := int64(i*Moments/1000) + 1
		average := s.Average(1e-3, s.Passed(0, 1, moment))
		if average >= 1e-4 {
			require.InDelta(t, 1000/40, i, 1000/Moments)
			return
		}
		s.Look(average, 0, 1, 0, 0, moment)
	}
	require.Fail(t, "it never begins")
}

// A shard ends to be over capacity once a window bears what has come, and settles for
// as long as generations are kept.
func TestRotate(t *testing.T) {
	var s Shard
	s.Begin(100, 1000) // 100 of them in the current generation
	require.EqualValues(t, 900, s.Counted(1000))
	for _, step := range []struct {
		admitted    uint64
		passed      int64
		ends, exact bool
		mode        Mode
		settles     int64
	}{
		{1100, 1, false, false, Over, 0}, // 1100 units
		{2001, 1, false, false, Over, 0}, // 901
		{2900, 1, true, false, Settling, 1},
		{9900, 1, false, true, Exact, 0},
		{9900, 5, false, false, Exact, 0},
	} {
		ends, exact := s.Rotate(step.admitted, step.passed, 2, 10)
		require.Equal(t, []any{step.ends, step.exact, step.mode, step.settles}, []any{ends, exact, s.Mode(), s.SettlesFor()}, step)
		require.NoError(t, s.Check())
		require.Zero(t, s.Admitted(step.admitted))
	}
	s.Begin(9900, 1000)
	ends, exact := s.Rotate(99_900, 2, 2, 10) // nothing has come in the second
	require.Equal(t, []bool{true, true}, []bool{ends, exact})
	s.mode = uint64(Settling)
	require.Error(t, s.Check())
	s.mode = 3
	require.Error(t, s.Check())
}
