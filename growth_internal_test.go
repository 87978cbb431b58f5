package sketchlimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A decision is held up between looking at the clock and its shard while the limiter grows
// and forgets its predecessor. What the key had used back then is not forgotten.
func TestGrowHeldUpDecision(t *testing.T) {
	now := time.Unix(0, 0)
	l, err := New(Config{
		Limit: 20, Window: time.Second, MemoryBytes: 16 << 10, Overload: Grow, MaxMemoryBytes: 1 << 20,
		Seed: 1, Clock: func() time.Time { return now },
	})
	require.NoError(t, err)
	require.NoError(t, l.Close()) // adapt is called here alone
	h := hashString("key", l.seed)
	held := l.windows.At(now)
	require.True(t, l.take(held, h, 20, l.limit, true).allowed)
	first := l.inner.Load()
	for i := range 100_000 { // far more than it was made for
		l.TakeAt(now, string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}), 1)
	}
	now = now.Add(time.Second)
	l.windows.At(now)
	l.adapt()
	require.NotSame(t, first, l.inner.Load())
	require.Same(t, first, l.inner.Load().before.Load())
	require.False(t, l.take(held, h, 2, l.limit, true).allowed, "read in the predecessor")

	for range 2 {
		now = now.Add(time.Second)
		l.windows.At(now)
		l.adapt()
	}
	require.Nil(t, l.inner.Load().before.Load())
	i := l.inner.Load()
	s := &i.shards[i.shard(h)]
	require.Equal(t, l.windows.Latest(), s.wheel.Generation(), "the shard is not behind")
	require.True(t, l.take(held, h, 2, l.limit, true).allowed, "taken as of now")
	require.EqualValues(t, 2, i.counted(l.windows.Latest(), h))
}
