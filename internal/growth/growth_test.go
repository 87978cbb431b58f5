package growth

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// engineOf returns an engine of the dimensions.
func engineOf(t *testing.T, rule spec.Rule, d spec.Dimensions) *engine.Engine {
	require.NoError(t, d.Check(&rule))
	e, err := engine.New(rule, d, 1, new(striped.Counter))
	require.NoError(t, err)
	return e
}

// growing returns what replaces an engine by others of more or fewer shards, in time
// that the test sets.
func growing(e *engine.Engine, now *int64, most int) *Growth {
	var current atomic.Pointer[engine.Engine]
	current.Store(e)
	g := &Growth{
		Current: &current, Latest: func() int64 { return *now },
		Goal: 1e-5, Lowest: e.Limit, Least: e.Bytes(), Most: most,
		Plan: func(bytes int) (spec.Dimensions, error) {
			d := e.Dimensions()
			if d.Shards = bytes / e.Bytes(); d.Shards < 1 {
				return spec.Dimensions{}, errors.New("too small")
			}
			return d, nil
		},
		Need: func(keys int) (int, error) { return keys, nil },
	}
	g.Start(func() {})
	return g
}

// An engine that many more keys ask than it is made for is replaced by a larger one,
// and let go of once its counts have left the window.
func TestAdapt(t *testing.T) {
	first := engineOf(t, spec.NewWindow(20, time.Second, 2),
		spec.Dimensions{Shards: 1, BloomBytes: 1536, BloomProbes: 3, Depth: 4, Width: 768, HeavyEntries: 384, PromoteAt: 6, CellBits: 8})
	now := int64(0)
	g := growing(first, &now, 1<<20)
	for key := range uint64(100_000) {
		first.Take(0, keyhash.Mix(key, 1), 1, first.Limit, engine.Brief)
	}
	now++
	g.Adapt(rotating.Position{Generation: now})
	second := g.Current.Load()
	require.NotSame(t, first, second)
	require.Same(t, first, second.Before())
	require.Greater(t, second.Bytes(), first.Bytes())
	require.False(t, g.Resize(2*second.Bytes()), "the first one matters still")
	for range 2 {
		now++
		g.Adapt(rotating.Position{Generation: now})
	}
	require.Same(t, second, g.Current.Load())
	require.Nil(t, second.Before())
	admitted, denied, _ := g.Gone(0)
	require.EqualValues(t, 100_000, admitted+denied)
}

// A limiter whose cells and Bloom filters are full does not know how many keys there
// are, and says so: they may be more than it tells.
func TestKeysThatAreTooManyToTell(t *testing.T) {
	e := engineOf(t, spec.NewWindow(1000, time.Minute, 1), spec.Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 3, Width: 96, CellBits: 8})
	next := uint64(0)
	send := func(keys int) {
		for range keys {
			next++
			e.Take(0, keyhash.Mix(next, 1), 1, e.Limit, engine.Brief)
		}
	}
	send(100)
	keys, full := distinctKeys(e, 0)
	require.InDelta(t, 100, keys, 20)
	require.False(t, full)
	send(1900) // the cells are full, and an eighth of the keys is in the Bloom filter
	keys, full = distinctKeys(e, 0)
	require.InDelta(t, 2000, keys, 500)
	require.False(t, full)
	send(50_000)
	_, full = distinctKeys(e, 0)
	require.True(t, full)
}

// A limiter that was over capacity because there was nothing larger grows once there
// is: the counters of its shards hold nothing that would tell that it is too small.
func TestGrowOutOfOverCapacity(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	rule := spec.NewWindow(100, time.Second, 2)
	rule.OverCapacity = &overcapacity.Episodes{Rate: 1e-4, Lowest: 100}
	e := engineOf(t, rule, spec.Dimensions{
		Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 3, Width: 128, CellBits: spec.CellBits(100), HeavyEntries: 64, PromoteAt: 16,
	})
	now := int64(0)
	g := growing(e, &now, e.Bytes())
	rule.OverCapacity.SetFull(true)
	crowd := func(keys int) {
		for range keys {
			e.Take(e.Timeline.Pack(rotating.Position{Generation: now}), random.Uint64(), 10, 100, engine.Brief)
		}
	}
	active := func() bool { return e.Episode(rotating.Position{Generation: now}).Active }
	for crowd(10_000); !active(); crowd(2000) {
		now++
		g.Adapt(rotating.Position{Generation: now})
		require.Less(t, now, int64(100))
	}
	require.Same(t, e, g.Current.Load(), "there is nothing larger")
	g.Most = 100 * e.Bytes()
	crowd(1000)
	require.True(t, active())
	now++
	g.Adapt(rotating.Position{Generation: now})
	require.NotSame(t, e, g.Current.Load())
}
