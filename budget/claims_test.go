//go:build invariants

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// What broke when a place kept the id of its settled hold, and what would break if its
// lock were not held.
func TestPlaces_BrokenProtocol(t *testing.T) {
	b, err := New(Config{
		Limits: []sketchlimit.Config{{Limit: 1000, Window: time.Hour, MemoryBytes: 1 << 16}}, InFlight: 512, HoldFor: time.Hour,
	})
	require.NoError(t, err)
	defer b.Close()
	h, _ := b.Hold("a", 1)
	own, _ := b.shard(h.h)
	other := &b.shards[0]
	if own == other {
		other = &b.shards[1]
	}
	require.PanicsWithValue(t, "invariants: lock {Level:2 Limiter:0 Age:0 Index:0} is not held", func() { b.checkOpen(own, h.place) })
	other.mu.Lock()
	require.Panics(t, func() { b.checkOpen(other, h.place) }, "the lock of another shard")
	require.Panics(t, func() { b.checkFree(other, h.place) }, "an open hold's place")
	require.PanicsWithValue(t,
		"invariants: lock {Level:2 Limiter:0 Age:0 Index:0} is to be taken while {Level:2 Limiter:0 Age:0 Index:0} is held", own.mu.Lock)
	require.True(t, own.mu.TryLock())
	own.mu.Unlock()
	other.mu.Unlock()
	own.mu.Lock()
	b.checkOpen(own, h.place)
	own.mu.Unlock()

	require.True(t, h.Settle(1))
	b.holds[h.place].id.Store(h.id) // as before
	require.Panics(t, func() { b.Hold("a", 1) })
}
