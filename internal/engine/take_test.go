package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rotating"
	"github.com/stretchr/testify/require"
)

// Most requests are decided without takeAny. What they are told, and what they leave in memory, is
// what it would have been.
func TestTakeDecidesAsTakeAnyDoes(t *testing.T) {
	testkit.OneGoroutine(t)
	const requests = 200_000 / testkit.Divisor
	small := spec.Dimensions{Shards: 2, BloomBytes: 128, BloomProbes: 3, Depth: 4, Width: 64, CellBits: 8, HeavyEntries: 16, PromoteAt: 8}
	flat := small
	flat.Depth = 2
	usual := spec.Dimensions{Shards: 2, BloomBytes: 64, BloomProbes: 1, Depth: 3, Width: 64, CellBits: 4, HeavyEntries: 16, PromoteAt: 16}
	wide := usual
	wide.Width, wide.CellBits = 32, 8
	other := spec.Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 8, Depth: 3, Width: 32, CellBits: 16}
	for name, c := range map[string]struct {
		rule spec.Rule
		d    spec.Dimensions
	}{
		"sliding":             {sliding(20, time.Second), small},
		"sliding, usual":      {sliding(100, time.Second), usual},
		"sliding, wide cells": {sliding(1000, time.Second), wide},
		"sliding, other plan": {sliding(300, time.Second), other},
		"sliding, two rows":   {sliding(20, time.Second), flat},
		"fixed":               {fixed(20, time.Second), small},
		"sub-windows":         {spec.NewWindow(20, time.Second/4, 5), other},
		"limit 1":             {sliding(1, time.Second), spec.Dimensions{Shards: 1, BloomBytes: 2560, BloomProbes: 8}},
		"limit 1, one probe":  {sliding(1, time.Second), spec.Dimensions{Shards: 1, BloomBytes: 2560, BloomProbes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			light, whole := faceOf(t, c.rule, c.d), faceOf(t, c.rule, c.d)
			elsewhere := External(nowhere{}) // says that keys have counts elsewhere, which they have not
			whole.external.Store(&elsewhere)
			now := time.Unix(1e9, 0)

			key, admitted := make([]byte, 2), 0
			for i := range requests {
				if i%1000 == 0 {
					requirePeaks(t, light)
					requirePeaks(t, whole)
				}
				now = now.Add(time.Duration(random.IntN(int(time.Second) / 2000)))
				light.now = now
				binary.LittleEndian.PutUint16(key, uint16(random.ExpFloat64()*20))
				n, limit := 1+random.IntN(1+random.IntN(3)), light.Limit
				if random.IntN(4) == 0 {
					limit = random.Int64N(light.Limit + 1)
				}
				effort := Whole
				if random.IntN(2) == 0 {
					effort, limit = Brief, light.Limit
				}
				h := light.hasher.Bytes(key)
				v := light.Take(light.word(), h, n, limit, effort)
				want := whole.Take(light.word(), h, n, limit, effort)
				if effort == Brief {
					require.Equal(t, want.Allowed, v.Allowed)
					continue
				}
				require.Equal(t, want, v)
				if v.Allowed {
					admitted++
				}
			}
			require.Greater(t, admitted, requests/200)
			require.Equal(t, whole.memory, light.memory)
		})
	}
}

// requirePeaks checks that no key reads more in a generation's Bloom filter and sketch than the peak says, and that
// it stands for shards whose table has entries.
func requirePeaks(t *testing.T, l *face) {
	for i := range l.shards {
		r := l.request(i, 0)
		if slices.Max(append(l.memory[r.table():r.first+l.size:r.first+l.size], 0)) > 0 {
			require.True(t, r.mayHaveEntries())
		}
	}
	key := make([]byte, 2)
	for id := range uint16(300) {
		binary.LittleEndian.PutUint16(key, id)
		r := l.at(l.hasher.Bytes(key))
		for age := range min(l.Ring.Buffers(), 2) {
			count, _ := window{r}.estimateAt(age, r.s.number-int64(age))
			require.LessOrEqual(t, count, []int64{int64(r.s.peaks.current), window{r}.peakBefore()}[age], "age %d", age)
		}
	}
}

// The peak of the generation before is kept in 16 bits: coarser where limits are higher, and never too low.
func TestPeaksOfHighLimits(t *testing.T) {
	for limit, bits := range map[int]int{65_535: 16, 65_536: 16, 1_000_000: 32, 1<<31 - 1: 32} {
		l := faceOf(t, sliding(limit, time.Second), spec.Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 3, Depth: 4, Width: 8, CellBits: bits})
		for _, peak := range []int{0, 1, limit / 3, limit - 1, limit} {
			s := &l.shards[0]
			s.peaks.current = uint32(peak)
			s.begin(s.number+1, 1, l.peakStep)
			before := window{request{l.Engine, s, 0, 0}}.peakBefore()
			require.GreaterOrEqual(t, before, int64(peak), "limit %d", limit)
			require.Less(t, before, int64(peak)+l.peakStep, "limit %d", limit)
		}
		l.shards[0].peaks = unknown
		l.shards[0].begin(9, 1, l.peakStep)
		require.Equal(t, l.Limit, window{l.request(0, 0)}.peakBefore(), "limit %d", limit)
	}
}

// A request that was held up while others turned its shard is taken as of then. What it is told counts from its own
// time.
func TestRequestBehindItsShard(t *testing.T) {
	counts := spec.Dimensions{Shards: 1, BloomBytes: 1024, BloomProbes: 3, Depth: 4, Width: 512, CellBits: 4}
	times := spec.Dimensions{Shards: 1, Depth: 9, Width: 64, CellBits: 32}
	for _, l := range []*face{
		faceOf(t, sliding(10, time.Minute), counts), faceOf(t, fixed(10, time.Minute), counts), faceOf(t, spec.NewBucket(10, 10, time.Minute), times),
	} {
		early := rotating.Position{Elapsed: time.Duration(l.Timeline.Length() / 4 * 3)}
		late := rotating.Position{Generation: 1}
		r := l.at(1)
		require.True(t, l.consume(l.Timeline.Pack(late), 1, 10, l.Limit, Whole).Allowed)
		v, ahead := l.consume(l.Timeline.Pack(early), 1, 1, l.Limit, Whole), r.span(early, late)
		require.False(t, v.Allowed)
		require.Equal(t, v, l.Peek(early, 1, 1, l.Limit))
		require.Equal(t, l.Peek(late, 1, 1, l.Limit).After(ahead), v)
		require.True(t, l.Peek(l.Timeline.Add(early, v.RetryAfter), 1, 1, l.Limit).Allowed)
	}
}

// An entry that has rested for two generations goes when its shard turns, and then others' units in its key's cells
// are read. A look ahead knows that.
func TestPeekAheadReadsWhatTheTurnLeaves(t *testing.T) {
	l := faceOf(t, sliding(100, time.Minute),
		spec.Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 1, Width: 8, CellBits: 8, HeavyEntries: 16, PromoteAt: 16})
	key := l.at(l.hasher.String("heavy"))
	at := func(generation int64) rotating.Position { return rotating.Position{Generation: generation} }
	require.True(t, l.consume(l.Timeline.Pack(at(0)), key.h, 50, l.Limit, Whole).Allowed)
	require.True(t, l.consume(l.Timeline.Pack(at(1)), 1, 1, l.Limit, Whole).Allowed)
	for h := range uint64(5000) { // light keys fill all cells of the generation in which the entry is spent
		l.consume(l.Timeline.Pack(at(2)), keyhash.Mix(h, 9), 15, l.Limit, Whole)
	}
	require.NotNil(t, key.e.heavy.Find(key.entries(), key.h))
	ahead := l.Peek(at(3), key.h, 1, l.Limit)
	require.Less(t, ahead.Remaining, 100)
	require.True(t, l.consume(l.Timeline.Pack(at(3)), key.h, ahead.Remaining, l.Limit, Whole).Allowed)
	require.False(t, l.consume(l.Timeline.Pack(at(3)), key.h, 1, l.Limit, Whole).Allowed)
}

// nowhere has no counts, and bounds none: each decision asks it.
type nowhere struct{ *predecessor }

func (nowhere) Count(int64, uint64) int64 { return 0 }

// A bucket's successor of a lower limit has a timeline of its own, in which the same moment is a higher word. What it
// remembers of a denied key denies nobody who still asks the engine of before.
func TestSuccessorsDenialsAreItsOwn(t *testing.T) {
	l := faceOf(t, spec.NewBucket(100, 100, time.Second), spec.Dimensions{Shards: 1, Depth: 9, Width: 64, CellBits: spec.BucketBits})
	l.now = time.Unix(1e9, 0)
	next, err := l.Succeed(spec.NewBucket(70, 70, time.Second), l.now.UnixNano())
	require.NoError(t, err)
	require.NotEqual(t, l.Timeline.Length(), next.Timeline.Length())
	h := l.hasher.String("key")
	at := func(e *Engine) int64 { return e.Timeline.Pack(e.Timeline.Position(l.now.UnixNano())) }
	for range 71 { // the last one is denied, and remembered
		next.Take(at(next), h, 1, 70, Whole)
	}
	require.True(t, next.Remembers(0, at(next), h))
	l.now = l.now.Add(time.Hour)
	require.False(t, l.Remembers(0, at(l.Engine), h))
	require.True(t, l.Take(at(l.Engine), h, 1, 70, Whole).Allowed)
}
