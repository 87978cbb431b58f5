package savestate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/striped"
)

// A snapshot says when shards were over capacity last, also when one has gone on since
// its header was written.
func TestEpisodeOfShardsOverCapacity(t *testing.T) {
	rule := spec.NewWindow(100, time.Second, 2)
	rule.OverCapacity = &overcapacity.Episodes{Rate: 1e-4, Lowest: 100}
	e, err := engine.New(rule, spec.Dimensions{
		Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 3, Width: 128, CellBits: 8, HeavyEntries: 64, PromoteAt: 16,
	}, 1, new(striped.Counter))
	require.NoError(t, err)
	now := time.Unix(8, 0).UnixNano()
	p := e.Timeline.Position(now)
	s, held := Stages{Engine: e}, overcapacity.Saved{Since: 1, Last: p.Generation - 1, Times: 3, Units: 7}
	require.Equal(t, held, s.withShards(held), "no shard is over capacity")
	for key := uint64(1); !e.Episode(p).Active; key++ {
		e.Take(e.Timeline.Pack(p), key*0x9e3779b97f4a7c15, 10, 100, engine.Brief)
		require.Less(t, key, uint64(10_000))
	}
	require.Equal(t, overcapacity.Saved{Since: 1, Last: p.Generation, Times: 3, Units: 7}, s.withShards(held))
	require.Equal(t, overcapacity.Saved{Since: now, Last: p.Generation, Times: 1, Units: 7}, s.withShards(overcapacity.Saved{Units: 7}))
}
