package sketchlimit

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A limiter that is in the midst of growing is restored with what it has replaced.
func TestGrowSnapshot(t *testing.T) {
	now := time.Unix(0, 0)
	grows := func() *Limiter {
		l, err := New(Config{
			Limit: 20, Window: time.Second, MemoryBytes: 16 << 10, MaxMemoryBytes: 1 << 20,
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
		require.Equal(t, step < 2, restored.growth.Stages().Before != nil)
		later(l, restored)
	}

	full := grows()
	full.Take("k", 1)
	full.adapt()
	_, err = full.ReadFrom(bytes.NewReader(saved.Bytes()))
	require.ErrorIs(t, err, ErrSnapshot)
	fixed, err := New(Config{Limit: 20, Window: time.Second, MemoryBytes: 16 << 10, Clock: func() time.Time { return now }})
	require.NoError(t, err)
	_, err = fixed.ReadFrom(bytes.NewReader(saved.Bytes()))
	require.ErrorIs(t, err, ErrSnapshotMismatch)
}
