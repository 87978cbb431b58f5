package sketchlimit

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Most requests are decided without takeAny. What they are told, and what they leave in memory, is
// what it would have been.
func TestTakeDecidesAsTakeAnyDoes(t *testing.T) {
	small := Plan{Shards: 2, BloomBytes: 128, BloomProbes: 3, Depth: 4, Width: 64, CellBits: 8, HeavyEntries: 16, HeavyThreshold: 8}
	flat := small
	flat.Depth = 2
	other := Plan{Shards: 1, BloomBytes: 64, BloomProbes: 8, Depth: 3, Width: 32, CellBits: 16}
	for name, c := range map[string]Config{
		"sliding":             {Limit: 20, Plan: &small},
		"sliding, other plan": {Limit: 300, Plan: &other},
		"sliding, two rows":   {Limit: 20, Plan: &flat},
		"fixed":               {Limit: 20, Plan: &small, Algorithm: FixedWindow},
		"sub-windows":         {Limit: 20, Plan: &other, SubWindows: 4},
		"limit 1":             {Limit: 1, MemoryBytes: 8192},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			now := time.Unix(1e9, 0)
			c.Window, c.LowestLimit, c.Seed, c.Clock = time.Second, 1, 3, func() time.Time { return now }
			light, err := New(c)
			require.NoError(t, err)
			whole, err := New(c)
			require.NoError(t, err)
			whole.beside.Store(true) // says that keys have counts elsewhere, which they have not

			key, admitted := make([]byte, 2), 0
			for i := range 200_000 {
				if i%1000 == 0 {
					requirePeaks(t, light)
					requirePeaks(t, whole)
				}
				now = now.Add(time.Duration(random.IntN(int(time.Second) / 2000)))
				binary.LittleEndian.PutUint16(key, uint16(random.ExpFloat64()*20))
				n, limit := 1+random.IntN(1+random.IntN(3)), c.Limit
				if random.IntN(4) == 0 {
					limit = random.IntN(c.Limit + 1)
				}
				if random.IntN(2) == 0 {
					allowed := light.AllowN(string(key), n)
					require.Equal(t, whole.AllowN(string(key), n), allowed)
					continue
				}
				d := light.TakeLimitBytes(key, n, limit)
				require.Equal(t, whole.TakeLimitBytes(key, n, limit), d)
				if d.Allowed {
					admitted++
				}
			}
			require.Greater(t, admitted, 1000)
			require.Equal(t, whole.memory, light.memory)
		})
	}
}

// requirePeaks checks that no key reads more in a generation's doorkeeper and sketch than the peak says, and that
// it tells of shards whose table has entries.
func requirePeaks(t *testing.T, l *Limiter) {
	for i := range l.shards {
		r := request{l, &l.shards[i], i * l.size, 0}
		if slices.Max(append(l.memory[r.table():r.first+l.size:r.first+l.size], 0)) > 0 {
			require.True(t, r.marked())
		}
	}
	key := make([]byte, 2)
	for id := range uint16(300) {
		binary.LittleEndian.PutUint16(key, id)
		r := l.request(l.hashBytes(key))
		for age := range min(l.generations, 2) {
			count, _ := r.read(age, r.s.number-int64(age))
			require.LessOrEqual(t, count, []int64{int64(r.s.peaks.current), r.peakBefore()}[age], "age %d", age)
		}
	}
}

// The peak of the generation before is kept in 16 bits: coarser where limits are higher, and never too low.
func TestPeaksOfHighLimits(t *testing.T) {
	for _, limit := range []int{65_535, 65_536, 1_000_000, 1<<31 - 1} {
		l, err := New(Config{Limit: limit, Window: time.Second, MemoryBytes: 1 << 16, Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) }})
		require.NoError(t, err)
		for _, peak := range []int{0, 1, limit / 3, limit - 1, limit} {
			s := &l.shards[0]
			s.peaks.current = uint32(peak)
			s.begin(s.number+1, 1, l.peakStep)
			before := request{l, s, 0, 0}.peakBefore()
			require.GreaterOrEqual(t, before, int64(peak), "limit %d", limit)
			require.Less(t, before, int64(peak)+l.peakStep, "limit %d", limit)
		}
		l.shards[0].peaks = unknown
		l.shards[0].begin(9, 1, l.peakStep)
		require.Equal(t, l.limit, request{l, &l.shards[0], 0, 0}.peakBefore(), "limit %d", limit)
	}
}

// A request that was held up while others turned its shard is taken as of then. What it is told counts from its own
// time.
func TestRequestBehindItsShard(t *testing.T) {
	for _, a := range []Algorithm{SlidingWindow, FixedWindow, TokenBucket} {
		l, err := New(Config{Limit: 10, Window: time.Minute, Algorithm: a, MemoryBytes: 8 << 10, Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) }})
		require.NoError(t, err)
		early := Position{Elapsed: 45 * time.Second}
		late := Position{Generation: 1}
		r := l.request(1)
		require.True(t, r.consume(late, 10, l.limit, whole).allowed)
		v, ahead := r.consume(early, 1, l.limit, whole), r.span(early, late)
		require.False(t, v.allowed)
		require.Equal(t, v, l.peek(early, 1, 1, l.limit))
		require.Equal(t, l.peek(late, 1, 1, l.limit).after(ahead), v)
		require.True(t, l.peek(l.after(early, v.retryAfter), 1, 1, l.limit).allowed)
	}
}

// An entry that has rested for two generations goes when its shard turns, and then others' units in its key's cells
// are read. A look ahead knows that.
func TestPeekAheadReadsWhatTheTurnLeaves(t *testing.T) {
	l, err := New(Config{Limit: 100, Window: time.Minute, Seed: 1, Clock: func() time.Time { return time.Unix(0, 0) },
		Plan: &Plan{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 1, Width: 8, CellBits: 8, HeavyEntries: 8, HeavyThreshold: 16}})
	require.NoError(t, err)
	key := l.request(l.hashString("heavy"))
	at := func(generation int64) Position { return Position{Generation: generation} }
	require.True(t, key.consume(at(0), 50, l.limit, whole).allowed)
	require.True(t, l.request(1).consume(at(1), 1, l.limit, whole).allowed)
	for h := range uint64(5000) { // light keys fill all cells of the generation in which the entry is spent
		r := l.request(mix(h, 9))
		r.consume(at(2), 15, l.limit, whole)
	}
	require.NotNil(t, key.heavy.find(key.line(), key.h))
	ahead := l.peek(at(3), key.h, 1, l.limit)
	require.Less(t, ahead.remaining, 100)
	require.True(t, key.consume(at(3), ahead.remaining, l.limit, whole).allowed)
	require.False(t, key.consume(at(3), 1, l.limit, whole).allowed)
}
