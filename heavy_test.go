package sketchlimit

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestAShardIsOneCacheLine(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(shard{}))
	require.EqualValues(t, 64*stripes, unsafe.Sizeof(counter{}))
}

func TestHeavyTable(t *testing.T) {
	bits, ok := heavyBits(100)
	require.True(t, ok)
	table := heavyTable{buckets: 2, threshold: 16, bits: bits, shift: 2*bits + 2, above: 64 - 2*bits}
	words := make([]uint64, 2*heavyBucket)
	at := func(h uint64) *line { return table.line(words, 0, h) }
	require.Nil(t, table.find(at(7), 7))
	require.True(t, table.room(at(7)))
	for i := range uint64(2 * heavyBucket) {
		h := i * 0x123456789abcdef1
		table.insert(at(h), h, 20+int64(i)) // some buckets are full before the table is
	}
	held, full := 0, 0
	for i := range uint64(2 * heavyBucket) {
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
	require.Greater(t, held, heavyBucket)
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
	require.Equal(t, make([]uint64, 2*heavyBucket), words)

	// Entries go to the front of their bucket: the first word tells whether it is empty, the last whether it is full.
	for h := range uint64(heavyBucket) {
		table.insert(at(h), h, 1+int64(h%3)) // all in one bucket
	}
	for h := range uint64(heavyBucket) {
		table.set(table.find(at(h), h), int64(h%3)) // with nothing in the current generation, a third goes
	}
	table.turn(words, 1, 2)
	for h := range uint64(heavyBucket) {
		if e := table.find(at(h), h); h%3 == 0 {
			require.Nil(t, e)
		} else {
			require.EqualValues(t, h%3, table.count(*e, 1))
		}
	}
	require.Zero(t, words[heavyBucket-1])
	require.NotZero(t, words[0])
	clear(words)

	// A full bucket of entries that are spent has room, one that is in use at its end has none.
	for h := range uint64(heavyBucket) {
		require.True(t, table.insert(at(h), h, 20))
	}
	require.False(t, table.room(at(0)))
	require.False(t, table.insert(at(heavyBucket), heavyBucket, 20))
	table.turn(words, 1, 2)
	require.False(t, table.room(at(0)))
	table.turn(words, 1, 2)
	require.True(t, table.room(at(0)))
	require.True(t, table.insert(at(heavyBucket), heavyBucket, 20))
	require.EqualValues(t, 20, table.count(*table.find(at(heavyBucket), heavyBucket), 0))
	clear(words)

	table.insert(at(9), 9, 30)
	table.turn(words, 2, 2)
	e = table.find(at(9), 9)
	require.Nil(t, e, "and so does a jump")
}

func TestHeavyBitsLeaveAFingerprint(t *testing.T) {
	for limit, fits := range map[int]bool{1: true, 255: true, 65_535: true, 1<<21 - 1: true, 1 << 21: false, 1<<31 - 1: false} {
		_, ok := heavyBits(limit)
		require.Equal(t, fits, ok, "limit %d", limit)
	}
}

// Two keys that share bucket and fingerprint share an entry. The second may have units
// in the sketch that the entry does not know; it is never admitted beyond the limit
// for that.
func TestKeysThatShareAnEntry(t *testing.T) {
	l, err := New(Config{Limit: 100, Window: time.Minute, Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) },
		Plan: &Plan{Shards: 1, BloomBytes: 1024, BloomProbes: 3, Depth: 4, Width: 512, CellBits: 8, HeavyEntries: 8, HeavyThreshold: 16}})
	require.NoError(t, err)
	take := func(h uint64, n int) bool { return l.take(0, h, n, l.limit, whole).allowed }
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

// A full table leaves keys in the sketch, and nobody over the limit.
func TestFullHeavyTable(t *testing.T) {
	l, err := New(Config{Limit: 100, Window: time.Minute, Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) },
		Plan: &Plan{Shards: 1, BloomBytes: 4096, BloomProbes: 3, Depth: 4, Width: 4096, CellBits: 8, HeavyEntries: 8, HeavyThreshold: 16}})
	require.NoError(t, err)
	for key := range 50 {
		admitted := 0
		for range 120 {
			if l.AllowN(string(rune(key)), 1) {
				admitted++
			}
		}
		require.InDelta(t, 100, admitted, 2)
		require.LessOrEqual(t, admitted, 100)
	}
}

// Whoever has used all of the limit and then waits as long as told gets all of it back, also where others
// have left their units in the key's cells meanwhile: its entry knows that none of them are the key's.
func TestHeavyKeyPassesWhenToldTo(t *testing.T) {
	const keys, heavy = 10_000, 100
	now := time.Unix(0, 0)
	l, err := New(Config{Limit: 100, Window: time.Minute, Keys: keys, Seed: 1, Clock: func() time.Time { return now }})
	require.NoError(t, err)
	name := func(i int) string { return fmt.Sprint("heavy", i) }
	for i := range heavy {
		require.True(t, l.AllowN(name(i), 100))
	}
	now = now.Add(time.Minute)
	for i := range 5 * keys {
		l.Allow(fmt.Sprint(i % keys))
	}
	now = now.Add(30 * time.Second)
	for i := range heavy {
		d := l.Take(name(i), 100)
		require.Equal(t, Decision{Limit: 100, Remaining: 50, RetryAfter: 30 * time.Second, ResetAfter: 30 * time.Second}, d)
	}
	now = now.Add(30 * time.Second)
	passed := 0
	for i := range heavy {
		require.Equal(t, Decision{Allowed: true, Limit: 100, Remaining: 100}, l.PeekAt(now, name(i), 1))
		if l.Take(name(i), 100).Allowed {
			passed++
		}
	}
	require.Equal(t, heavy, passed)
}

// Innocent keys must not take up the table of heavy keys: what others have left in their cells is no use of
// theirs. Heavy keys that come later find room.
func TestHeavyTableKeepsOutLightKeys(t *testing.T) {
	for _, limit := range []int{100, 1000} {
		now := time.Unix(0, 0)
		const keys = 20_000
		l, err := New(Config{Limit: limit, Window: time.Minute, Keys: keys, Seed: 1, Clock: func() time.Time { return now }})
		require.NoError(t, err)
		entries := func() (n int) {
			for i := range l.shards {
				table := request{l, &l.shards[i], i * l.size, 0}.table()
				for _, e := range l.memory[table:][:l.plan.HeavyEntries] {
					if e != 0 {
						n++
					}
				}
			}
			return n
		}
		for range 5 {
			for key := range rune(keys) {
				require.True(t, l.AllowN(string(key), 1))
			}
		}
		require.Less(t, entries(), l.plan.Shards*l.plan.HeavyEntries/100, "limit %d", limit)
		for key := range rune(keys / 100) {
			require.True(t, l.AllowN(string(keys+key), limit/2))
		}
		require.Greater(t, entries(), keys/100*98/100, "limit %d", limit)
		now = now.Add(time.Minute)
		for i := range l.shards {
			r := request{l, &l.shards[i], i * l.size, 0}
			require.Greater(t, r.threshold(), l.heavy.threshold)
			r.turn(Position{r.s.number + 1, 0})
			require.Equal(t, l.heavy.threshold, r.threshold(), "a new generation has nothing to stand above")
		}
	}
}
