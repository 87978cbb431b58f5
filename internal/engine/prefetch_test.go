package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// What Prefetch fetches is where decisions look, once the shard has turned, and fetching it
// changes nothing.
func TestPrefetchLooksWhereDecisionsDo(t *testing.T) {
	testkit.OneGoroutine(t)
	counts := spec.Dimensions{Shards: 1, BloomBytes: 1536, BloomProbes: 3, Depth: 4, Width: 768, HeavyEntries: 384, PromoteAt: 6, CellBits: 8}
	flat := counts
	flat.HeavyEntries = 0
	for name, c := range map[string]struct {
		rule spec.Rule
		d    spec.Dimensions
	}{
		"sliding":     {sliding(20, 4*time.Second), counts},
		"fixed":       {fixed(20, 4*time.Second), counts},
		"sub-windows": {spec.NewWindow(20, time.Second, 5), flat},
		"limit 1":     {sliding(1, 4*time.Second), spec.Dimensions{Shards: 1, BloomBytes: 2560, BloomProbes: 8}},
		"bucket":      {spec.NewBucket(20, 20, 4*time.Second), spec.Dimensions{Shards: 1, Depth: 9, Width: 1024, CellBits: 32}},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			l, other := faceOf(t, c.rule, c.d), faceOf(t, c.rule, c.d)
			l.now = time.Unix(-20, 0)
			for range 1000 {
				l.now = l.now.Add(time.Duration(random.ExpFloat64() * float64(time.Second)))
				other.now = l.now
				key := string([]byte{byte(random.Uint32())})
				h, generation := l.hasher.String(key), l.position().Generation
				l.Prefetch(h, generation, false)
				v := l.take(key, 1)
				require.Equal(t, other.take(key, 1), v)
				require.Equal(t, other.memory, l.memory)
				r := l.at(h)
				for age := range l.Ring.Buffers() {
					first, h := window{r}.at(generation - int64(age))
					require.Equal(t, window{r}.buffer(age), first)
					if v.Allowed && age == 0 && l.filter.Words() > 0 {
						require.True(t, l.filter.Test(l.memory, first, h))
					}
				}
			}
		})
	}
}
