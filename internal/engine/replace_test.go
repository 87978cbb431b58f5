package engine

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// small returns an engine of one shard.
func small(t *testing.T) *face {
	l := faceOf(t, sliding(20, time.Second),
		spec.Dimensions{Shards: 1, BloomBytes: 1536, BloomProbes: 3, Depth: 4, Width: 768, HeavyEntries: 384, PromoteAt: 6, CellBits: 8})
	l.SetApart()
	return l
}

// larger replaces an engine by one of so many shards.
func (e *Engine) larger(t *testing.T, shards int) *Engine {
	d := e.dims
	d.Shards = shards
	next, err := e.Replace(d)
	require.NoError(t, err)
	return next
}

// A decision is held up between looking at the clock and its shard while the engine is replaced
// and its predecessor forgotten. What the key had used back then is not forgotten.
func TestReplaceHeldUpDecision(t *testing.T) {
	l := small(t)
	h, held, first := l.hasher.String("key"), l.word(), l.Engine
	require.True(t, first.Take(held, h, 20, l.Limit, Brief).Allowed)
	l.now = l.now.Add(time.Second)
	second := first.larger(t, 4)
	require.Same(t, first, second.Before())
	for _, e := range []*Engine{first, second} { // also by who still holds the first
		require.False(t, e.Take(held, h, 2, l.Limit, Brief).Allowed, "read in the predecessor")
	}

	l.now = l.now.Add(2 * time.Second)
	second.LetGo(l.position().Generation)
	require.Nil(t, second.Before())
	s := &second.shards[second.Shard(h)]
	require.Equal(t, l.position().Generation, s.number, "the shard is not behind")
	require.True(t, first.Take(held, h, 2, l.Limit, Brief).Allowed, "taken as of now")
	require.EqualValues(t, 2, (&predecessor{e: second}).Count(l.position().Generation, h))
}

// Goroutines ask two engines for a key or two while one of the engines is replaced, again and again. Some of them still
// hold the first one. Each key gets its limit in each generation and no more, and as many units of both engines.
func TestGroupWhileAnEngineGrows(t *testing.T) {
	const keys, limit, beside = 50, 20, 40
	l := small(t)
	other, first := faceOf(t, fixed(beside, time.Second), l.dims), l.Engine
	var current atomic.Pointer[Engine]
	current.Store(first)
	first.Rank(1)
	other.Rank(2)
	for round := range int64(20) {
		l.now = time.Unix(3*round, 0) // what was counted before has expired
		at := l.position()
		if e := current.Load(); e.Before() != nil {
			e.LetGo(at.Generation)
		}
		var admitted [keys]atomic.Int64
		var some atomic.Int64
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
				for range 2 * keys * limit {
					e, drawn := current.Load(), random.Perm(keys)[:1+i%2]
					if i == 0 {
						e = first
					}
					var asked []Question
					for _, key := range drawn {
						h := l.hasher.String(strconv.Itoa(key))
						asked = append(asked, Question{Engine: other.Engine, Number: 2, At: at, Hash: h, Limit: beside, N: 1},
							Question{Engine: e, Number: 1, At: at, Hash: h, Limit: limit, N: 1})
					}
					if by := TakeAll(asked); asked[by].Allowed {
						some.Add(1)
						for _, key := range drawn {
							admitted[key].Add(1)
						}
					}
				}
			})
		}
		all.Go(func() {
			for some.Load() < keys*limit/2 { // in the midst
				runtime.Gosched()
			}
			current.Store(current.Load().larger(t, int(1+round%3)))
		})
		all.Wait()
		for key := range admitted {
			h := l.hasher.String(strconv.Itoa(key))
			require.EqualValues(t, limit, admitted[key].Load())
			require.Equal(t, beside-limit, other.Peek(at, h, 1, beside).Remaining)
		}
	}
}

// Decisions that wait for their shard while the engine is replaced count in the successor, which
// may have read the shard already: whichever call they came by.
func TestGrowDecisionThatWaits(t *testing.T) {
	l := small(t)
	h, first := l.hasher.String("key"), l.Engine
	second := first.larger(t, 2) // while decisions that have the first in hand wait for the lock
	require.True(t, first.Consume(first.Shard(h), 0, h, 15, l.Limit, Whole).Allowed)
	_, v := first.Reserve(rotating.Position{}, h, 5, l.Limit)
	require.True(t, v.Allowed)
	require.Zero(t, first.Peek(rotating.Position{}, h, 1, l.Limit).Remaining)
	require.Zero(t, (&predecessor{e: first}).Count(0, h))
	require.EqualValues(t, 20, (&predecessor{e: second}).Count(0, h))
	require.False(t, first.Take(0, h, 1, l.Limit, Brief).Allowed)
}

// Whoever asks whether units fit, to hold them, is told what a decision would be, where its shard is over capacity as well.
func TestFitsWhereAShardSpares(t *testing.T) {
	f := sparingFace(t, sliding(100, time.Second), oneShard(100))
	f.take("first", 1)
	r := f.at(0)
	begun(r)
	for range 60 {
		require.True(t, f.allow("key", 1))
	}
	h := f.hasher.String("key")
	fits := func(held, n int64) bool { return f.Fits(f.word(), h, held, n, 100).Allowed }
	free := int64(f.peek("key", 1).Remaining)
	require.InDelta(t, 40, free, 1)
	require.True(t, fits(0, free))
	require.False(t, fits(0, free+1))
	require.True(t, fits(30, free-30))
	require.False(t, fits(31, free-30))
	require.True(t, f.at(0).isOverCapacity())
}
