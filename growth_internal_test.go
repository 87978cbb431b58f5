package sketchlimit

import (
	"bytes"
	"regexp"
	"runtime"
	"strconv"
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
	h := l.hashString("key")
	held, _ := l.windows.at(now)
	require.True(t, l.take(held, h, 20, l.limit, brief).allowed)
	first := l.inner.Load()
	for i := range 100_000 { // far more than it was made for
		l.TakeAt(now, string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}), 1)
	}
	now = now.Add(time.Second)
	l.windows.At(now)
	l.adapt()
	require.NotSame(t, first, l.inner.Load())
	require.Same(t, first, l.inner.Load().before.Load())
	require.False(t, l.take(held, h, 2, l.limit, brief).allowed, "read in the predecessor")

	for range 2 {
		now = now.Add(time.Second)
		l.windows.At(now)
		l.adapt()
	}
	require.Nil(t, l.inner.Load().before.Load())
	i := l.inner.Load()
	s := &i.shards[i.shard(h)]
	require.Equal(t, l.windows.Latest(), s.number, "the shard is not behind")
	require.True(t, l.take(held, h, 2, l.limit, brief).allowed, "taken as of now")
	require.EqualValues(t, 2, i.counted(l.windows.Latest(), h))
}

// A decision waits for its shard while the limiter is replaced. It counts in the successor,
// which may have read the shard already.
func TestGrowDecisionThatWaits(t *testing.T) {
	l, err := New(Config{
		Limit: 20, Window: time.Second, MemoryBytes: 16 << 10, Overload: Grow, MaxMemoryBytes: 1 << 20,
		Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) },
	})
	require.NoError(t, err)
	defer l.Close()
	h, first := l.hashString("key"), l.inner.Load()
	s := &first.shards[first.shard(h)]
	s.mu.Lock()
	admitted := make(chan bool)
	go func() { admitted <- l.take(0, h, 20, l.limit, brief).allowed }()
	stacks := make([]byte, 1<<20)
	for waits := false; !waits; runtime.Gosched() {
		waits = regexp.MustCompile(`\[sync\.Mutex\.Lock.*\n(.+\n)*.*\.consume\(`).Match(stacks[:runtime.Stack(stacks, true)])
	}
	l.growth.mu.Lock()
	l.replace(64 << 10)
	l.growth.mu.Unlock()
	s.mu.Unlock()
	require.True(t, <-admitted)
	require.Zero(t, first.counted(0, h))
	require.EqualValues(t, 20, l.inner.Load().counted(0, h))
}

// A limiter that is in the midst of growing is restored with what it has replaced.
func TestGrowSnapshot(t *testing.T) {
	now := time.Unix(0, 0)
	grows := func() *Limiter {
		l, err := New(Config{
			Limit: 20, Window: time.Second, MemoryBytes: 16 << 10, Overload: Grow, MaxMemoryBytes: 1 << 20,
			Clock: func() time.Time { return now },
		})
		require.NoError(t, err)
		require.NoError(t, l.Close()) // adapt is called here alone
		return l
	}
	later := func(limiters ...*Limiter) {
		now = now.Add(time.Second)
		for _, l := range limiters {
			l.windows.At(now)
			l.adapt()
		}
	}
	l := grows()
	for i := range 100_000 {
		l.Take(strconv.Itoa(i), 1+i%10)
	}
	later(l)
	now = now.Add(900 * time.Millisecond) // when a tenth is left of what was counted by mistake
	for i := range 1000 {
		l.Take(strconv.Itoa(i), 3)
	}
	var saved, again bytes.Buffer
	_, err := l.WriteTo(&saved)
	require.NoError(t, err)

	restored := grows()
	_, err = restored.ReadFrom(bytes.NewReader(saved.Bytes()))
	require.NoError(t, err)
	_, err = restored.WriteTo(&again)
	require.NoError(t, err)
	require.Equal(t, saved.Bytes(), again.Bytes())
	require.Equal(t, l.Plan(), restored.Plan())
	require.Equal(t, l.MemoryBytes(), restored.MemoryBytes())
	for step := range 4 {
		fresh := 0
		for i := range 2000 {
			d := l.Peek(strconv.Itoa(i))
			require.Equal(t, d, restored.Peek(strconv.Itoa(i)), "key %d, step %d", i, step)
			if d.Remaining == 20 {
				fresh++
			}
		}
		require.Equal(t, step >= 2, fresh == 2000)
		require.Equal(t, step < 2, restored.inner.Load().before.Load() != nil)
		later(l, restored)
	}

	full := grows()
	full.Take("k", 1)
	full.adapt()
	_, err = full.ReadFrom(bytes.NewReader(saved.Bytes()))
	require.ErrorIs(t, err, ErrSnapshotLate)
	fixed, err := New(Config{Limit: 20, Window: time.Second, MemoryBytes: 16 << 10, Clock: func() time.Time { return now }})
	require.NoError(t, err)
	_, err = fixed.ReadFrom(bytes.NewReader(saved.Bytes()))
	require.ErrorIs(t, err, ErrSnapshotConfig)
}
