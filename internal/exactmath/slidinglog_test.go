package exactmath

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The log holds the admitted requests of one window, whatever came before.
func TestSlidingLogForgets(t *testing.T) {
	l, s, admitted := NewSlidingLog(10, int64(time.Second)), TimeLog{}, 0
	for i := range int64(10_000) {
		if now := i * int64(time.Millisecond); l.Wait(s, now, 1) == 0 {
			s = l.Spend(s, now, 1)
			admitted++
		}
		require.LessOrEqual(t, len(s.entries), 10)
		require.LessOrEqual(t, cap(s.entries), 32)
	}
	require.Equal(t, 100, admitted)
}

// The memory that the docs of exact state for every distinct time.
func TestLogEntrySize(t *testing.T) {
	require.EqualValues(t, 16, reflect.TypeFor[logEntry]().Size())
}
