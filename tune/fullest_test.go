package tune

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of the windows of a minute the second has the most keys; costs count.
func TestFullest(t *testing.T) {
	trace := NewTrace(time.Minute)
	for _, r := range []struct {
		at  int64
		key string
		n   int
	}{{0, "a", 1}, {1, "a", 1}, {60, "b", 1}, {61, "c", 4}, {62, "b", 1}, {120, "b", 1}} {
		trace.Add(time.Unix(r.at, 0), r.key, r.n)
	}
	require.Equal(t, []int{2, 4}, trace.fullest())
}
