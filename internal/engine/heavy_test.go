package engine

import (
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/rotating"
	"github.com/stretchr/testify/require"
)

func TestAShardIsOneCacheLine(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(shard{}))
	require.EqualValues(t, 64*stripes, unsafe.Sizeof(Counter{}))
}

// heavyWords is a table of so many buckets, for a limit of 100, and its words.
type heavyWords struct {
	heavyTable
	words []uint64
}

func newHeavyWords(buckets int) *heavyWords {
	d := Dimensions{HeavyEntries: buckets * HeavyBucket, HeavyThreshold: 16}
	return &heavyWords{newHeavyTable(100, d, askedPrint), make([]uint64, d.HeavyEntries)}
}

func (w *heavyWords) at(h uint64) *entries { return w.entries(w.words, 0, h) }

func (w *heavyWords) entry(h uint64) *uint64 { return w.find(w.at(h), h) }

func (w *heavyWords) insert(h uint64, count int64) bool {
	if !slices.ContainsFunc(w.at(h)[:], w.spent) {
		return false
	}
	w.heavyTable.insert(w.at(h), h, count)
	return true
}

func (w *heavyWords) rotate(turns int) bool { return w.heavyTable.rotate(w.words, turns, 2) }

func TestHeavyTableFindsWhatWasInserted(t *testing.T) {
	w := newHeavyWords(2)
	require.Nil(t, w.entry(7))
	require.True(t, w.room(w.at(7)))
	hash := func(i int) uint64 { return uint64(i) * 0x123456789abcdef1 }
	held := 0
	for i := range 2 * HeavyBucket { // some buckets are full before the table is
		room := w.room(w.at(hash(i)))
		require.Equal(t, room, w.insert(hash(i), 20+int64(i)))
		if room {
			held++
		}
	}
	require.Greater(t, held, HeavyBucket)
	require.Less(t, held, 2*HeavyBucket)
	for i := range 2 * HeavyBucket {
		if e := w.entry(hash(i)); e != nil {
			held--
			require.EqualValues(t, 20+i, w.count(*e, 0))
			require.Zero(t, w.count(*e, 1))
		}
	}
	require.Zero(t, held, "all that had room are found")
}

// What a turn makes of an entry: its count is that of the generation before, and the entry counts the whole of the one
// that begins.
func TestHeavyEntryTurns(t *testing.T) {
	w := newHeavyWords(1)
	w.insert(7, 100)
	require.False(t, w.whole(*w.entry(7), 0), "the generation had begun before the entry was made")
	for _, counts := range []struct{ current, previous int64 }{{3, 100}, {5, 3}} {
		require.True(t, w.rotate(1))
		e := w.entry(7)
		require.Zero(t, w.count(*e, 0))
		require.Equal(t, counts.previous, w.count(*e, 1))
		require.True(t, w.whole(*e, 0))
		require.Equal(t, counts.previous != 100, w.whole(*e, 1))
		w.set(e, counts.current)
		require.Equal(t, counts.current, w.count(*e, 0))
		require.Equal(t, counts.previous, w.count(*e, 1))
	}
}

// After a generation without a unit the entry is still its key's, which is told by it when units come free. After two
// it is gone.
func TestHeavyEntryOutlivesOneEmptyGeneration(t *testing.T) {
	w := newHeavyWords(1)
	w.insert(7, 100)
	require.True(t, w.rotate(1))
	require.False(t, w.spent(*w.entry(7)))
	require.True(t, w.rotate(1))
	require.True(t, w.spent(*w.entry(7)))
	require.False(t, w.rotate(1), "nothing is left")
	require.Nil(t, w.entry(7))
	require.Equal(t, make([]uint64, HeavyBucket), w.words)
}

func TestHeavyTableIsClearedByAJump(t *testing.T) {
	w := newHeavyWords(1)
	w.insert(7, 100)
	require.False(t, w.rotate(2))
	require.Equal(t, make([]uint64, HeavyBucket), w.words)
}

// Entries go to the front of their bucket when a generation begins: the first word tells whether it is empty, the last
// whether it is full.
func TestHeavyEntriesGoToTheFront(t *testing.T) {
	w := newHeavyWords(1)
	for h := range uint64(HeavyBucket) {
		w.insert(h, 1)
		w.set(w.entry(h), int64(h%3)) // a third has nothing in either generation
	}
	w.rotate(1)
	kept := 0
	for h := range uint64(HeavyBucket) {
		if e := w.entry(h); h%3 == 0 {
			require.Nil(t, e)
		} else {
			require.EqualValues(t, h%3, w.count(*e, 1))
			kept++
		}
	}
	for i, word := range w.words {
		require.Equal(t, i < kept, word != 0, "word %d", i)
	}
}

// A full bucket has room once its last entry is spent, and the new key takes the place of a spent one.
func TestSpentEntriesGiveTheirPlaceAway(t *testing.T) {
	w := newHeavyWords(1)
	for h := range uint64(HeavyBucket) {
		require.True(t, w.insert(h, 20))
	}
	for range 2 {
		require.False(t, w.room(w.at(0)))
		require.False(t, w.insert(HeavyBucket, 20))
		w.rotate(1)
	}
	require.True(t, w.room(w.at(0)))
	require.True(t, w.insert(HeavyBucket, 20))
	require.EqualValues(t, 20, w.count(*w.entry(HeavyBucket), 0))
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
		Dimensions{Shards: 1, BloomBytes: 1024, BloomProbes: 3, Depth: 4, Width: 512, CellBits: 8, HeavyEntries: 16, HeavyThreshold: 16})
	take := func(h uint64, n int) bool { return l.Take(0, h, n, l.limit, Whole).Allowed }
	// Nothing but the low bits of the product tell these two apart, and those are
	// not in the fingerprint.
	a := uint64(0x1234_5678_9abc_def0)
	b := a + 0xf1de83e19937733d // the inverse of the fingerprint's multiplier: the product grows by 1
	require.Equal(t, l.heavy.at(0, a), l.heavy.at(0, b))
	require.Equal(t, l.heavy.print(a), l.heavy.print(b))
	for i := range uint64(HeavyBucket) { // fill the bucket, so that b stays in the sketch
		require.True(t, take(i<<40, 50))
	}
	for range 60 {
		require.True(t, take(b, 1))
	}
	clear(l.memory[l.size-HeavyBucket:]) // as if the others had gone
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

// What a key reads in the window before is its own less what strangers read there. If it reads nearly the whole limit, and
// they do not, it has asked for more than it got. If they do as well, nothing is known of it.
func TestOwnUnitsOfTheWindowBefore(t *testing.T) {
	const limit = 100
	l := faceOf(t, sliding(limit, time.Minute), Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 2, Width: 64, CellBits: 8,
		HeavyEntries: HeavyBucket, HeavyThreshold: limit / 2})
	for i := range uint64(HeavyBucket) { // no room for others
		require.True(t, l.Take(0, i<<40, limit/2, limit, Whole).Allowed)
	}
	for key := range rune(600) {
		require.True(t, l.allow(string(key), 1))
	}
	usual, abuser := l.request(0, l.hasher.Bytes([]byte("usual"))), l.request(0, l.hasher.Bytes([]byte("abuser")))
	require.True(t, l.allow("usual", limit/2))
	for range 3 * limit {
		l.allow("abuser", 1)
	}
	l.request(0, 0).rotate(rotating.Position{Generation: usual.s.number + 1})
	require.InDelta(t, limit/2, usual.ownBefore(), limit/10)
	require.EqualValues(t, limit, abuser.ownBefore())
	for key := range rune(20_000) {
		l.allow(string(key), 1)
	}
	usual.rotate(rotating.Position{Generation: usual.s.number + 1})
	require.Less(t, usual.ownBefore(), int64(limit/10))
}

// A request that no limit could admit is no use of the key: with it the entry would prove any number of units.
func TestHugeCostsAreNotAsked(t *testing.T) {
	const limit = 100
	l := faceOf(t, sliding(limit, time.Minute), Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 2, Width: 64, CellBits: 8,
		HeavyEntries: HeavyBucket, HeavyThreshold: 16})
	require.True(t, l.take("key", 20).Allowed)
	r := l.at(l.hasher.String("key"))
	before := r.asked(l.position(), *r.heavy.find(r.entries(), r.h))
	require.EqualValues(t, 20, before)
	for _, n := range []int{limit + 1, math.MaxInt} {
		require.False(t, l.take("key", n).Allowed)
		require.Equal(t, before, r.asked(l.position(), *r.heavy.find(r.entries(), r.h)), n)
	}
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
		r.rotate(rotating.Position{Generation: r.s.number + 1})
		require.Equal(t, l.heavy.threshold, r.threshold(), "a new generation has nothing to stand above")
	}
}

// What a key has asked for is counted exactly where the word has room for that, in steps that are right on average where
// it has less, and not at all where it has none.
func TestHeavyEntriesCountWhatWasAsked(t *testing.T) {
	for _, c := range []struct {
		limit, step int64
		asks        bool
	}{{100, 1, true}, {1000, 16, true}, {8191, 1024, true}, {100_000, 0, false}} {
		table := newHeavyTable(c.limit, Dimensions{HeavyEntries: HeavyBucket, HeavyThreshold: 16}, askedPrint)
		require.Equal(t, c.asks, table.asks(), c.limit)
		if !c.asks {
			continue
		}
		const keys = 2000
		sum := int64(0)
		for key := range uint64(keys) {
			entry := table.print(key) << table.shift
			table.set(&entry, c.limit)
			for i := range uint64(c.limit / 4) {
				table.ask(&entry, 0, 1, key*977+i)
			}
			asked := table.asked(entry, 0)
			require.Zero(t, asked%c.step)
			require.Equal(t, c.limit, table.count(entry, 0))
			require.Equal(t, table.print(key), entry>>table.shift)
			sum += asked
			table.ask(&entry, 0, c.limit, 0)
			table.ask(&entry, 0, c.limit, 0)
			require.LessOrEqual(t, table.asked(entry, 0), int64(1)<<table.bits, "it stays what it can count at most")
			require.Zero(t, table.asked(entry, 1))
			turned := table.aged(entry)
			require.Equal(t, table.asked(entry, 0), table.asked(turned, 1))
			require.Zero(t, table.asked(turned, 0))
			require.True(t, table.whole(turned, 0))
			require.False(t, table.whole(turned, 1))
		}
		require.InEpsilon(t, c.limit/4, float64(sum)/keys, 0.02, "limit %d", c.limit)
	}
}
