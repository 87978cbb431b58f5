package heavyhitter

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// tableWords is a table of so many buckets, for a limit of 100, and its words.
type tableWords struct {
	Table
	words []uint64
}

func newTableWords(buckets int) *tableWords {
	return &tableWords{New(100, buckets*BucketEntries, PlainFingerprint), make([]uint64, buckets*BucketEntries)}
}

func (w *tableWords) at(h uint64) *Bucket { return w.Bucket(w.words, 0, h) }

func (w *tableWords) entry(h uint64) *uint64 { return w.Find(w.at(h), h) }

func (w *tableWords) insert(h uint64, count int64) bool {
	if !slices.ContainsFunc(w.at(h)[:], w.Expired) {
		return false
	}
	w.Insert(w.at(h), h, count)
	return true
}

func (w *tableWords) rotate(turns int) bool { return w.Rotate(w.words, turns, 2) }

func TestTableFindsWhatWasInserted(t *testing.T) {
	w := newTableWords(2)
	require.Nil(t, w.entry(7))
	require.True(t, w.HasRoom(w.at(7)))
	hash := func(i int) uint64 { return uint64(i) * 0x123456789abcdef1 }
	held := 0
	for i := range 2 * BucketEntries { // some buckets are full before the table is
		room := w.HasRoom(w.at(hash(i)))
		require.Equal(t, room, w.insert(hash(i), 20+int64(i)))
		if room {
			held++
		}
	}
	require.Greater(t, held, BucketEntries)
	require.Less(t, held, 2*BucketEntries)
	for i := range 2 * BucketEntries {
		if e := w.entry(hash(i)); e != nil {
			held--
			require.EqualValues(t, 20+i, w.Count(*e, 0))
			require.Zero(t, w.Count(*e, 1))
		}
	}
	require.Zero(t, held, "all that had room are found")
}

// An entry that rotates has its count as that of the previous generation, and is
// complete in the one that begins.
func TestEntryRotates(t *testing.T) {
	w := newTableWords(1)
	w.insert(7, 100)
	require.False(t, w.Complete(*w.entry(7), 0), "the generation had begun before the entry was made")
	for _, counts := range []struct{ current, previous int64 }{{3, 100}, {5, 3}} {
		require.True(t, w.rotate(1))
		e := w.entry(7)
		require.Zero(t, w.Count(*e, 0))
		require.Equal(t, counts.previous, w.Count(*e, 1))
		require.True(t, w.Complete(*e, 0))
		require.Equal(t, counts.previous != 100, w.Complete(*e, 1))
		w.Set(e, counts.current)
		require.Equal(t, counts.current, w.Count(*e, 0))
		require.Equal(t, counts.previous, w.Count(*e, 1))
	}
}

// After a generation without a unit the entry is still its key's, which is told by it
// when units come free. After two it is gone.
func TestEntryOutlivesOneEmptyGeneration(t *testing.T) {
	w := newTableWords(1)
	w.insert(7, 100)
	require.True(t, w.rotate(1))
	require.False(t, w.Expired(*w.entry(7)))
	require.True(t, w.rotate(1))
	require.True(t, w.Expired(*w.entry(7)))
	require.False(t, w.rotate(1), "nothing is left")
	require.Nil(t, w.entry(7))
	require.Equal(t, make([]uint64, BucketEntries), w.words)
}

func TestTableIsClearedByAJump(t *testing.T) {
	w := newTableWords(1)
	w.insert(7, 100)
	require.False(t, w.rotate(2))
	require.Equal(t, make([]uint64, BucketEntries), w.words)
}

// Entries go to the front of their bucket when a generation begins: the first word
// tells whether it is empty, the last whether it is full.
func TestEntriesGoToTheFront(t *testing.T) {
	w := newTableWords(1)
	for h := range uint64(BucketEntries) {
		w.insert(h, 1)
		w.Set(w.entry(h), int64(h%3)) // a third has nothing in either generation
	}
	w.rotate(1)
	kept := 0
	for h := range uint64(BucketEntries) {
		if e := w.entry(h); h%3 == 0 {
			require.Nil(t, e)
		} else {
			require.EqualValues(t, h%3, w.Count(*e, 1))
			kept++
		}
	}
	for i, word := range w.words {
		require.Equal(t, i < kept, word != 0, "word %d", i)
	}
}

// A full bucket has room once its last entry has expired, and the new key takes the
// place of an expired one.
func TestExpiredEntriesGiveTheirPlaceAway(t *testing.T) {
	w := newTableWords(1)
	for h := range uint64(BucketEntries) {
		require.True(t, w.insert(h, 20))
	}
	for range 2 {
		require.False(t, w.HasRoom(w.at(0)))
		require.False(t, w.insert(BucketEntries, 20))
		w.rotate(1)
	}
	require.True(t, w.HasRoom(w.at(0)))
	require.True(t, w.insert(BucketEntries, 20))
	require.EqualValues(t, 20, w.Count(*w.entry(BucketEntries), 0))
}

func TestCountsLeaveAFingerprint(t *testing.T) {
	for limit, fits := range map[int]bool{1: true, 255: true, 65_535: true, 1<<21 - 1: true, 1 << 21: false, 1<<31 - 1: false} {
		require.Equal(t, fits, Fits(limit), "limit %d", limit)
	}
}

// What a key has offered is counted exactly where the word has room for that, in steps
// that are right on average where it has less, and not at all where it has none.
func TestEntriesCountWhatWasOffered(t *testing.T) {
	for _, c := range []struct {
		limit, step int64
		counts      bool
	}{{100, 1, true}, {1000, 16, true}, {8191, 1024, true}, {100_000, 0, false}} {
		table := New(c.limit, BucketEntries, PlainFingerprint)
		require.Equal(t, c.counts, table.offeredBits > 0, c.limit)
		if !c.counts {
			continue
		}
		const keys = 2000
		sum := int64(0)
		for key := range uint64(keys) {
			entry := table.Fingerprint(key) << table.shift
			table.Set(&entry, c.limit)
			for i := range uint64(c.limit / 4) {
				table.Offer(&entry, 0, 1, key*977+i)
			}
			offered := table.Offered(entry, 0)
			require.Zero(t, offered%c.step)
			require.Equal(t, c.limit, table.Count(entry, 0))
			require.Equal(t, table.Fingerprint(key), entry>>table.shift)
			sum += offered
			table.Offer(&entry, 0, c.limit, 0)
			table.Offer(&entry, 0, c.limit, 0)
			require.LessOrEqual(t, table.Offered(entry, 0), int64(1)<<table.bits, "it stays what it can count at most")
			require.Zero(t, table.Offered(entry, 1))
			aged := table.Aged(entry)
			require.Equal(t, table.Offered(entry, 0), table.Offered(aged, 1))
			require.Zero(t, table.Offered(aged, 0))
			require.True(t, table.Complete(aged, 0))
			require.False(t, table.Complete(aged, 1))
		}
		require.InEpsilon(t, c.limit/4, float64(sum)/keys, 0.02, "limit %d", c.limit)
	}
}
