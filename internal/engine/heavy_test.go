package engine

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestAShardIsOneCacheLine(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(shard{}))
	require.EqualValues(t, 64*stripes, unsafe.Sizeof(Counter{}))
}

func TestHeavyTable(t *testing.T) {
	table := newHeavyTable(100, Dimensions{HeavyEntries: 2 * HeavyBucket, HeavyThreshold: 16})
	words := make([]uint64, 2*HeavyBucket)
	at := func(h uint64) *line { return table.line(words, 0, h) }
	require.Nil(t, table.find(at(7), 7))
	require.True(t, table.room(at(7)))
	for i := range uint64(2 * HeavyBucket) {
		h := i * 0x123456789abcdef1
		table.insert(at(h), h, 20+int64(i)) // some buckets are full before the table is
	}
	held, full := 0, 0
	for i := range uint64(2 * HeavyBucket) {
		h := i * 0x123456789abcdef1
		e := table.find(at(h), h)
		if e == nil {
			require.False(t, table.room(at(h)), "or it would have an entry")
			full++
		} else {
			held++
			require.EqualValues(t, 20+i, table.count(*e, 0))
			require.Zero(t, table.count(*e, 1))
		}
	}
	require.Greater(t, held, HeavyBucket)
	require.Positive(t, full)

	const key = 0x123456789abcdef1
	e := table.find(at(key), key)
	table.set(e, 100)
	require.False(t, table.whole(*e, 0), "the generation had begun before the entry was made")
	table.turn(words, 1, 2)
	require.EqualValues(t, 0, table.count(*e, 0))
	require.EqualValues(t, 100, table.count(*e, 1))
	require.True(t, table.whole(*e, 0))
	require.False(t, table.whole(*e, 1))
	table.set(e, 3)
	table.turn(words, 1, 2)
	e = table.find(at(key), key)
	require.EqualValues(t, 3, table.count(*e, 1))
	require.True(t, table.whole(*e, 0))
	require.True(t, table.whole(*e, 1))
	table.turn(words, 1, 2)
	e = table.find(at(key), key)
	require.NotNil(t, e, "its key is still the only one to be read for the generation without a unit")
	require.True(t, table.spent(*e))
	require.True(t, table.room(at(key)), "but another key may have its place")
	table.turn(words, 1, 2)
	require.Nil(t, table.find(at(key), key), "two generations without a unit free an entry")
	require.Equal(t, make([]uint64, 2*HeavyBucket), words)

	// Entries go to the front of their bucket: the first word tells whether it is empty, the last whether it is full.
	for h := range uint64(HeavyBucket) {
		table.insert(at(h), h, 1+int64(h%3)) // all in one bucket
	}
	for h := range uint64(HeavyBucket) {
		table.set(table.find(at(h), h), int64(h%3)) // with nothing in the current generation, a third goes
	}
	table.turn(words, 1, 2)
	for h := range uint64(HeavyBucket) {
		if e := table.find(at(h), h); h%3 == 0 {
			require.Nil(t, e)
		} else {
			require.EqualValues(t, h%3, table.count(*e, 1))
		}
	}
	require.Zero(t, words[HeavyBucket-1])
	require.NotZero(t, words[0])
	clear(words)

	// A full bucket of entries that are spent has room, one that is in use at its end has none.
	for h := range uint64(HeavyBucket) {
		require.True(t, table.insert(at(h), h, 20))
	}
	require.False(t, table.room(at(0)))
	require.False(t, table.insert(at(HeavyBucket), HeavyBucket, 20))
	table.turn(words, 1, 2)
	require.False(t, table.room(at(0)))
	table.turn(words, 1, 2)
	require.True(t, table.room(at(0)))
	require.True(t, table.insert(at(HeavyBucket), HeavyBucket, 20))
	require.EqualValues(t, 20, table.count(*table.find(at(HeavyBucket), HeavyBucket), 0))
	clear(words)

	table.insert(at(9), 9, 30)
	table.turn(words, 2, 2)
	e = table.find(at(9), 9)
	require.Nil(t, e, "and so does a jump")
}

func TestHeavyBitsLeaveAFingerprint(t *testing.T) {
	for limit, fits := range map[int]bool{1: true, 255: true, 65_535: true, 1<<21 - 1: true, 1 << 21: false, 1<<31 - 1: false} {
		_, ok := heavyBits(int64(limit))
		require.Equal(t, fits, ok, "limit %d", limit)
	}
}

// Two keys that share bucket and fingerprint share an entry. The second may have units
// in the sketch that the entry does not know; it is never admitted beyond the limit
// for that.
func TestKeysThatShareAnEntry(t *testing.T) {
	l := faceOf(t, sliding(100, time.Minute),
		Dimensions{Shards: 1, BloomBytes: 1024, BloomProbes: 3, Depth: 4, Width: 512, CellBits: 8, HeavyEntries: 8, HeavyThreshold: 16})
	take := func(h uint64, n int) bool { return l.Take(0, h, n, l.limit, Whole).Allowed }
	// Nothing but the low bits of the product tell these two apart, and those are
	// not in the fingerprint.
	a := uint64(0x1234_5678_9abc_def0)
	b := a + 0xf1de83e19937733d // the inverse of the fingerprint's multiplier: the product grows by 1
	require.Equal(t, l.heavy.bucket(0, a), l.heavy.bucket(0, b))
	require.Equal(t, l.heavy.print(a), l.heavy.print(b))
	for i := range uint64(8) { // fill the bucket, so that b stays in the sketch
		require.True(t, take(i<<40, 50))
	}
	for range 60 {
		require.True(t, take(b, 1))
	}
	clear(l.memory[l.size-8:]) // as if the others had gone
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

// Innocent keys must not take up the table of heavy keys: what others have left in their cells is no use of
// theirs. Heavy keys that come later find room.
func TestHeavyTableKeepsOutLightKeys(t *testing.T) {
	const keys = 20_000
	for limit, d := range map[int]Dimensions{ // what package sizing gives so many keys
		100:  {Shards: 1, BloomBytes: 1152, BloomProbes: 1, Depth: 2, Width: 2880, HeavyEntries: 576, HeavyThreshold: 16, CellBits: 8},
		1000: {Shards: 1, BloomBytes: 1216, BloomProbes: 1, Depth: 2, Width: 624, HeavyEntries: 608, HeavyThreshold: 16, CellBits: 16},
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
		require.Greater(t, r.threshold(), l.heavy.threshold)
		r.turn(Position{r.s.number + 1, 0})
		require.Equal(t, l.heavy.threshold, r.threshold(), "a new generation has nothing to stand above")
	}
}
