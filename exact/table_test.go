package exact

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// checked fails unless a table holds exactly what a map does.
func checked(t *testing.T, table *table[int64], want map[string]int64) {
	t.Helper()
	text, seen := 0, map[string]int64{}
	table.each(func(e *entry[int64]) {
		_, again := seen[e.key]
		require.False(t, again, "%q twice", e.key)
		seen[e.key] = e.state
		text += len(e.key)
	})
	require.Equal(t, want, seen)
	require.Equal(t, len(want), table.keys)
	require.Equal(t, text, table.text)
	chained := 0
	for i, b := range table.buckets {
		for more := b.more; more != nil; more = more.more {
			chained++
		}
		for ; b != nil; b = b.more {
			for j, tag := range b.tags {
				if tag != 0 {
					h := maphash.String(table.seed, b.entries[j].key)
					require.Equal(t, tagOf(h), tag)
					require.Equal(t, i, table.at(h))
				} else {
					require.Zero(t, b.used>>j&1, "a free slot is not in use")
				}
			}
		}
	}
	require.Equal(t, chained, table.chained)
}

// A table is held to a map, while it grows, shrinks and grows again.
func TestTableIsAMap(t *testing.T) {
	table, want, r := &table[int64]{seed: maphash.MakeSeed()}, map[string]int64{}, rand.New(rand.NewPCG(1, 1))
	step := 0
	for phase, most := range []int{100, 3000, 3, 700} {
		for range 6 * most {
			step++
			key := strconv.Itoa(r.IntN(2 * most))
			h := maphash.String(table.seed, key)
			b, i := table.find(h, key)
			_, held := want[key]
			require.Equal(t, held, b != nil)
			switch {
			case b == nil && len(want) < most:
				b, i = table.add(h, key)
				b.entries[i].state, want[key] = int64(step), int64(step)
				b.used |= 1 << i
			case b != nil && r.IntN(3) == 0:
				table.remove(b, i)
				delete(want, key)
			case b != nil:
				require.Equal(t, want[key], b.entries[i].state)
				b.entries[i].state, want[key] = int64(step), int64(step)
			case r.IntN(4) == 0:
				table.next(func(s int64) bool { return s%7 == 0 && drop(want, s) })
			}
		}
		checked(t, table, want)
		if phase == 2 {
			for len(want) > 3 {
				table.next(func(s int64) bool { return drop(want, s) })
			}
			checked(t, table, want)
			for range 2 * len(table.buckets) {
				table.next(func(int64) bool { return false })
			}
			require.LessOrEqual(t, len(table.buckets), 2, "the memory is given back")
			checked(t, table, want)
		}
	}
}

// drop deletes the key with a state, which must be there.
func drop(m map[string]int64, s int64) bool {
	for key, state := range m {
		if state == s {
			delete(m, key)
			return true
		}
	}
	panic("no such state")
}

// One request that adds a key moves the keys of one bucket, however many there are.
func TestTableGrowsByOneBucket(t *testing.T) {
	table := &table[int64]{seed: maphash.MakeSeed()}
	for i := range 50_000 {
		before := len(table.buckets)
		key := strconv.Itoa(i)
		table.add(maphash.String(table.seed, key), key)
		require.LessOrEqual(t, len(table.buckets)-before, 1)
	}
	longest := 0
	for _, b := range table.buckets {
		n := 0
		for ; b != nil; b = b.more {
			n++
		}
		longest = max(longest, n)
	}
	require.LessOrEqual(t, longest, 6, "buckets in a chain")
	require.Less(t, float64(len(table.buckets)+table.chained)*slots/50_000, 1.9, "slots a key")
}
