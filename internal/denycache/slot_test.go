package denycache

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlot(t *testing.T) {
	var s Slot
	lookup := func(h uint64, now int64) bool {
		_, _, ok := s.Lookup(h, now)
		return ok
	}
	require.False(t, lookup(7, 0), "no key is remembered")
	s.Mark(7)
	require.True(t, s.Marked(7))
	require.False(t, s.Marked(8))
	require.False(t, lookup(7, -1), "it is marked alone")

	s.Set(7, 100, 2000)
	require.False(t, s.Marked(7))
	require.EqualValues(t, 100, s.Until())
	until, reset, ok := s.Lookup(7, 99)
	require.True(t, ok)
	require.EqualValues(t, 100, until)
	require.EqualValues(t, 2000, reset)
	require.False(t, lookup(7, 100), "a unit has come free")
	require.False(t, lookup(8, 99), "another key")

	s.Mark(8)
	require.False(t, lookup(7, 99), "its place is another key's")
	require.False(t, lookup(8, 99))

	s.Set(8, 100, 2000)
	s.Clear()
	require.False(t, lookup(8, 99), "counts have changed")
	require.Equal(t, int64(math.MinInt64), s.Until())
}
