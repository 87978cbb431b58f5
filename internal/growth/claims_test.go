//go:build invariants

package growth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// The lock of a Growth comes before those of shards, see package engine.
func TestOrderOfLocks(t *testing.T) {
	now := int64(0)
	e := engineOf(t, spec.NewWindow(1, time.Second, 1), spec.Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 1, CellBits: 4})
	g := growing(e, &now, e.Bytes())
	require.Equal(t, invariants.Rank{Level: invariants.Growth}, invariants.RankOf(&g.mu))
}
