package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// sparingFace returns an engine that spares keys, of one shard.
func sparingFace(t testing.TB, rule Rule, d Dimensions) *face {
	return faceOf(t, rule.Sparing(&Spare{Rate: 1e-4, Lowest: rule.limit}), d)
}

// oneShard are dimensions of a shard with a few hundred cells.
func oneShard(limit int64) Dimensions {
	return Dimensions{
		Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 3, Width: 128, CellBits: CellBits(int(limit)),
		HeavyEntries: 64, HeavyThreshold: max(1, int(limit)/6),
	}
}

// crowd sends a request for n units of so many keys that nobody else sends, until one begins to be spared, and tells
// whether it was.
func (f *face) crowd(keys, n int, random *rand.Rand) bool {
	for range keys {
		f.take(fmt.Sprint("crowd ", random.Uint64()), n)
		if f.at(0).state().on != 0 {
			return true
		}
	}
	return false
}

// A look tells what a request would be told that makes its shard begin to spare keys, and does not begin itself: others
// whose denials are remembered would not be told.
func TestPeekDoesNotBeginToSpare(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, rule := range []Rule{sliding(100, time.Second), fixed(100, time.Second)} {
		f := sparingFace(t, rule, oneShard(rule.limit))
		foretold := false
		for i := 0; !foretold; i++ {
			require.Less(t, i, 100_000)
			key := fmt.Sprint(random.Uint64())
			told := f.peek(key, 10)
			require.Zero(t, f.at(0).state().on)
			took := f.take(key, 10)
			require.Equal(t, told.Allowed, took.Allowed)
			if f.at(0).state().on != 0 {
				foretold = true
				require.True(t, told.Allowed)
			}
		}
	}
}

// Keys are certified at each limit: one that asks for one unit after the other gets its limit, beside the request that
// makes its entry, where entries count exactly what it asks for; and otherwise about that.
func TestSparedKeysAreCertified(t *testing.T) {
	for _, limit := range []int{2, 3, 4, 5, 7, 8, 15, 16, 100, 127, 128, 1000, 1023, 1024, 2046, 2047, 4095, 8190, 10_000, 16_128, 16_129, 16_383} {
		require.True(t, SpareFits(limit))
		for _, rule := range []Rule{sliding(limit, time.Hour), fixed(limit, time.Hour)} {
			f := sparingFace(t, rule, oneShard(rule.limit))
			f.take("key of the generation before", 1)
			f.now = f.now.Add(time.Hour)
			f.take("another", 1)
			r := f.at(0)
			r.widen()
			r.state().on = 1
			admitted := 0
			for admitted < 3*limit && f.allow("key", 1) {
				admitted++
			}
			if limit < 1024 {
				require.Equal(t, limit+1, admitted)
			} else {
				require.InDelta(t, limit, admitted, 0.6*float64(limit))
				require.GreaterOrEqual(t, admitted, limit)
			}
			v := f.take("key", 1)
			require.False(t, v.Allowed)
			if rule.generations == 1 {
				require.Equal(t, time.Duration(rule.length)-f.position().Elapsed, v.RetryAfter)
			}
			require.GreaterOrEqual(t, r.s.admitted-r.state().from, uint64(admitted))
		}
	}
	require.False(t, SpareFits(1))
	require.False(t, SpareFits(16_384))
}

// Innocent keys are denied neither in a shard that spares nor in a wide one; a heavy one is denied in the end, however
// many others come once.
func TestSparedKeysAmongMany(t *testing.T) {
	testkit.Unraced(t)
	const limit, innocents, crowd = 100, 200, 20_000
	for name, rule := range map[string]Rule{"sliding": sliding(limit, time.Second), "fixed": fixed(limit, time.Second)} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, 6))
			f := sparingFace(t, rule, oneShard(limit))
			require.True(t, f.crowd(100_000, 10, random))
			wide, most := 0, 0
			for range 6 { // windows
				f.now = f.now.Truncate(time.Second).Add(time.Second)
				abuser := 0
				for i := range crowd {
					f.take(fmt.Sprint("crowd ", random.Uint64()), 1)
					if i%(crowd/innocents/10) == 0 {
						require.True(t, f.allow(fmt.Sprint("innocent ", random.IntN(innocents)), 1))
					}
					if i%25 == 0 && f.allow("abuser", 1) {
						abuser++
					}
					f.now = f.now.Add(time.Second / (crowd + 1))
				}
				require.NotZero(t, f.at(0).state().on)
				if f.at(0).wide() {
					wide++
				}
				most = max(most, abuser)
			}
			require.NotZero(t, wide)
			t.Logf("the abuser had at most %d of %d units in a window", most, crowd/25)
			require.Less(t, most, 2*limit)
		})
	}
}

// A takeover is drawn: a flood of keys that come once takes no entry from a key with many units of its own.
func TestFloodsTakeNoEntries(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	f := sparingFace(t, sliding(100, time.Second), oneShard(100))
	f.take("first", 1)
	r := f.at(0)
	r.widen()
	r.state().on = 1
	heavy := make([]string, 0, 30)
	for i := range cap(heavy) {
		heavy = append(heavy, fmt.Sprint("heavy ", i))
		for range 90 {
			f.allow(heavy[i], 1)
		}
	}
	key := make([]byte, 8)
	for i := range 50_000 {
		binary.BigEndian.PutUint64(key, random.Uint64())
		f.allow(string(key), 1)
		if i%100 == 0 {
			f.now = f.now.Add(time.Second / 1000)
		}
	}
	held := 0
	for _, k := range heavy {
		if f.HasEntry(f.hasher.String(k)) {
			held++
		}
	}
	t.Logf("%d of %d heavy keys have their entries", held, len(heavy))
	require.GreaterOrEqual(t, held, len(heavy)*9/10)
}
