package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// between returns the middle one of three shards, with so many buckets in its table and so many more when it is wide. Its
// neighbours, its cells and its doorkeepers hold anything.
func between(t *testing.T, rule Rule, buckets, more int, random *rand.Rand) request {
	d := Dimensions{
		Shards: 3, BloomBytes: 64, BloomProbes: 1, Depth: 4, Width: 32 / rule.Ring.Buffers() * more, CellBits: 8,
		HeavyEntries: heavyhitter.BucketEntries * buckets, HeavyThreshold: 16,
	}
	e, err := New(rule.Sparing(&Spare{Rate: 1e-4, Lowest: rule.limit}), d, 1, new(striped.Counter))
	require.NoError(t, err)
	for i := range e.memory {
		e.memory[i] = random.Uint64()
	}
	r := e.request(1, 0)
	clear(r.e.memory[r.table():][:r.e.heavy.Words()+spareWords])
	r.s.number = 7
	return r
}

// fill makes entries of keys in whatever table the shard has, of those whose buckets have room, and returns them.
func (r request) fill(keys int, random *rand.Rand) map[uint64]uint64 {
	made := map[uint64]uint64{}
	for range keys {
		r.h = random.Uint64()
		b := r.bucketOf()
		if r.e.heavy.Find(b, r.h) != nil || !r.e.heavy.HasRoom(b) {
			continue
		}
		units := 1 + random.Int64N(r.e.limit)
		entry := r.e.heavy.Insert(b, r.h, units)
		r.e.heavy.Offer(entry, 0, 1+random.Int64N(units), 0)
		if random.IntN(2) == 0 {
			*entry = r.e.heavy.Aged(*entry)
		}
		made[r.h] = *entry
	}
	return made
}

// rest returns a copy of what a shard that becomes wide is to leave alone: other shards, and its own doorkeepers by their
// number.
func (r request) rest() (words []uint64) {
	words = append(words, r.e.memory[:r.first]...)
	words = append(words, r.e.memory[r.first+r.e.size:]...)
	for number := range int64(r.e.Ring.Buffers()) {
		door := r.first + r.e.layout.buffer(number)
		if r.wide() {
			door = r.wideDoor(number)
		}
		words = append(words, r.e.memory[door:][:r.e.cellsFirst]...)
	}
	return words
}

// requireEntries fails unless the shard has the entries of these keys. Those without one are made up for: their buckets
// are full of entries with at least as many units.
func (r request) requireEntries(t *testing.T, made map[uint64]uint64, as func(uint64) uint64) {
	t.Helper()
	for r.h = range made {
		b, want := r.bucketOf(), as(made[r.h])
		if entry := r.e.heavy.Find(b, r.h); entry != nil {
			require.Equal(t, want, *entry)
			continue
		}
		for _, other := range b {
			require.NotZero(t, other)
			require.GreaterOrEqual(t, overCapacity{r}.units(other), overCapacity{r}.units(want))
		}
	}
}

func same(entry uint64) uint64 { return entry }

// A shard becomes wide and narrow again in place: no entry is lost while its bucket has room, in tables of all sizes beside cells of all sizes.
func TestWideAndNarrowInPlace(t *testing.T) {
	testkit.Computes(t)
	random := rand.New(rand.NewPCG(1, 2))
	all, lost := 0, 0
	for _, rule := range []Rule{sliding(100, time.Second), fixed(100, time.Second)} {
		for buckets := 1; buckets <= 50; buckets++ {
			for more := 1; more <= 50; more++ {
				r := between(t, rule, buckets, more, random)
				require.Equal(t, buckets+more, r.e.wideBuckets())
				made, rest := r.fill(heavyhitter.BucketEntries*buckets*3/2, random), r.rest()

				overCapacity{r}.widen()
				require.True(t, r.wide())
				require.EqualValues(t, 7, r.number())
				require.Equal(t, rest, r.rest())
				r.requireEntries(t, made, same)

				left := map[uint64]uint64{}
				for h, entry := range made {
					if r.h = h; r.e.heavy.Find(r.bucketOf(), h) != nil {
						left[h] = entry
					}
				}
				all, lost = all+len(made), lost+len(made)-len(left)
				overCapacity{r}.narrow()
				require.EqualValues(t, 7, r.s.number)
				require.Equal(t, rest, r.rest())
				r.requireEntries(t, left, r.e.heavy.LowerBounds)
				for age := range r.e.Ring.Buffers() {
					first := window{r}.buffer(age)
					require.Zero(t, slices.Max(r.e.memory[first+r.e.cellsFirst:first+r.e.generation]), "cells are not empty")
				}
			}
		}
	}
	t.Logf("%d of %d entries found no room in the wide table", lost, all)
	require.Less(t, lost, all/200)
}

// A wide table has more entries than a usual one has room for: those with the most units stay.
func TestNarrowKeepsTheHeaviest(t *testing.T) {
	testkit.Computes(t)
	random := rand.New(rand.NewPCG(3, 4))
	for _, rule := range []Rule{sliding(100, time.Second), fixed(5000, time.Second)} {
		for buckets := 1; buckets <= 20; buckets++ {
			for more := 1; more <= 100; more += 9 {
				r := between(t, rule, buckets, more, random)
				overCapacity{r}.widen()
				made := r.fill(4*heavyhitter.BucketEntries*r.e.wideBuckets(), random)
				require.Greater(t, len(made), heavyhitter.BucketEntries*r.e.wideBuckets()/2)
				for h, entry := range made {
					made[h] = r.e.heavy.LowerBounds(entry)
				}
				overCapacity{r}.narrow()
				if rule.limit < 1024 { // units of their own are counted to one
					r.requireEntries(t, made, same)
				}
				for at := range buckets {
					held := slices.Index(append(r.e.memory[r.table()+at*heavyhitter.BucketEntries:][:heavyhitter.BucketEntries:heavyhitter.BucketEntries], 0), 0)
					for _, entry := range r.e.memory[r.table()+at*heavyhitter.BucketEntries+held:][:heavyhitter.BucketEntries-held] {
						require.Zero(t, entry, "those in use are not first")
					}
				}
			}
		}
	}
}

// No shard looks like a wide one, nor does a wide one like a generation that there is.
func TestApartIsNoGeneration(t *testing.T) {
	require.Less(t, int64(apart), int64(never))
	for _, length := range []time.Duration{time.Millisecond, time.Hour, MaxWindow} {
		timeline := rotating.NewTimeline(length)
		require.False(t, timeline.InRange(apart))
	}
}
