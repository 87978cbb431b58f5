package overcapacity

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each entry that gives way asks for a larger table, unless there is none to be had:
// then nobody is to be woken for it.
func TestEvictionsAskForMoreWhileThereIsMore(t *testing.T) {
	asked := 0
	s := &Episodes{Grow: func() { asked++ }}
	s.Evict(1, 10, 2)
	require.Equal(t, 1, asked)
	s.SetFull(true)
	s.Evict(2, 10, 3)
	require.Equal(t, 1, asked)
	require.Equal(t, Episode{Active: true, Times: 1, Since: 1, Units: 5, Exact: 22}, s.LastEvicted(12, 10))
	require.False(t, s.LastEvicted(13, 10).Active)
	s.Evict(13, 10, 1) // later than a bucket takes to fill
	require.EqualValues(t, 2, s.LastEvicted(13, 10).Times)
}
