package engine

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
	"github.com/stretchr/testify/require"
)

func TestAShardIsOneCacheLine(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(shard{}))
}

// Two keys that share bucket and fingerprint share an entry. The second may have units
// in the sketch that the entry does not know; it is never admitted beyond the limit
// for that.
func TestKeysThatShareAnEntry(t *testing.T) {
	l := faceOf(t, sliding(100, time.Minute),
		spec.Dimensions{Shards: 1, BloomBytes: 1024, BloomProbes: 3, Depth: 4, Width: 512, CellBits: 8, HeavyEntries: 16, PromoteAt: 16})
	take := func(h uint64, n int) bool { return l.Take(0, h, n, l.Limit, Whole).Allowed }
	// Nothing but the low bits of the product tell these two apart, and those are
	// not in the fingerprint.
	a := uint64(0x1234_5678_9abc_def0)
	b := a + 0xf1de83e19937733d // the inverse of the fingerprint's multiplier: the product grows by 1
	require.Equal(t, l.heavy.Index(0, a), l.heavy.Index(0, b))
	require.Equal(t, l.heavy.Fingerprint(a), l.heavy.Fingerprint(b))
	for i := range uint64(heavyhitter.BucketEntries) { // fill the bucket, so that b stays in the sketch
		require.True(t, take(i<<40, 50))
	}
	for range 60 {
		require.True(t, take(b, 1))
	}
	clear(l.memory[l.size-heavyhitter.BucketEntries:]) // as if the others had gone
	require.True(t, take(a, 20), "a makes an entry of 20, and b now finds it")
	admitted := 60
	for range 100 {
		if take(b, 1) {
			admitted++
		}
	}
	require.LessOrEqual(t, admitted, 100)
	require.Greater(t, admitted, 90, "and it is not denied for nothing either")
}

// A request that no limit could admit is no use of the key: with it the entry would prove any number of units.
func TestHugeCostsAreNotAsked(t *testing.T) {
	const limit = 100
	l := sparingFace(t, sliding(limit, time.Minute), spec.Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 2, Width: 64, CellBits: 8,
		HeavyEntries: heavyhitter.BucketEntries, PromoteAt: 16})
	require.True(t, l.take("key", 20).Allowed)
	r := l.at(l.hasher.String("key"))
	before := window{r}.offered(l.position(), *r.e.heavy.Find(r.entries(), r.h))
	require.EqualValues(t, 20, before)
	for _, n := range []int{limit + 1, math.MaxInt} {
		require.False(t, l.take("key", n).Allowed)
		require.Equal(t, before, window{r}.offered(l.position(), *r.e.heavy.Find(r.entries(), r.h)), n)
	}
}

// Light keys must not take up the table of heavy keys: what others have left in their cells is no use of
// theirs. Heavy keys that come later find room.
func TestHeavyTableKeepsOutLightKeys(t *testing.T) {
	const keys = 20_000
	for limit, d := range map[int]spec.Dimensions{ // what package sizing gives so many keys
		100:  {Shards: 1, BloomBytes: 1152, BloomProbes: 1, Depth: 2, Width: 2880, HeavyEntries: 576, PromoteAt: 16, CellBits: 8},
		1000: {Shards: 1, BloomBytes: 1216, BloomProbes: 1, Depth: 2, Width: 624, HeavyEntries: 608, PromoteAt: 16, CellBits: 16},
	} {
		l := faceOf(t, sliding(limit, time.Minute), d)
		r := l.request(0, 0)
		entries := func() (n int) {
			for _, e := range l.memory[r.table():] {
				if e != 0 {
					n++
				}
			}
			return n
		}
		for range 5 {
			for key := range rune(keys) {
				require.True(t, l.allow(string(key), 1))
			}
		}
		require.Less(t, entries(), d.HeavyEntries/100, "limit %d", limit)
		for key := range rune(keys / 100) {
			require.True(t, l.allow(string(keys+key), limit/2))
		}
		require.Greater(t, entries(), keys/100*98/100, "limit %d", limit)
		require.Greater(t, window{r}.promoteAt(), l.promoteAt)
		r.rotate(rotating.Position{Generation: r.s.number + 1})
		require.Equal(t, l.promoteAt, window{r}.promoteAt(), "a new generation has nothing to stand above")
	}
}
