package engine

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
	"github.com/stretchr/testify/require"
)

// growing returns an engine that may be replaced by a larger one, and what replaces it.
func growing(t *testing.T) (*face, *Growth) {
	l := faceOf(t, sliding(20, time.Second),
		spec.Dimensions{Shards: 1, BloomBytes: 1536, BloomProbes: 3, Depth: 4, Width: 768, HeavyEntries: 384, HeavyThreshold: 6, CellBits: 8})
	var current atomic.Pointer[Engine]
	current.Store(l.Engine)
	g := &Growth{
		Current: &current, Latest: func() int64 { return l.position().Generation },
		Goal: 1e-5, Lowest: 20, Least: l.Bytes(), Most: 1 << 20,
		Plan: func(bytes int) (spec.Dimensions, error) {
			d := l.dims
			d.Shards = bytes / l.Bytes()
			if d.Shards < 1 {
				return spec.Dimensions{}, errors.New("too small")
			}
			return d, nil
		},
		Need: func(keys int) (int, error) { return keys, nil },
	}
	g.Start(nil)
	return l, g
}

// A decision is held up between looking at the clock and its shard while the engine is replaced
// and its predecessor forgotten. What the key had used back then is not forgotten.
func TestGrowHeldUpDecision(t *testing.T) {
	l, g := growing(t)
	h, held, first := l.hasher.String("key"), l.word(), l.Engine
	require.True(t, first.Take(held, h, 20, l.Limit, Brief).Allowed)
	for i := range 100_000 { // far more than it was made for
		l.take(string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}), 1)
	}
	l.now = l.now.Add(time.Second)
	g.Adapt(l.position())
	second := g.Current.Load()
	require.NotSame(t, first, second)
	require.Same(t, first, second.before())
	require.Greater(t, second.Bytes(), first.Bytes())
	for _, e := range []*Engine{first, second} { // also by who still holds the first
		require.False(t, e.Take(held, h, 2, l.Limit, Brief).Allowed, "read in the predecessor")
	}

	for range 2 {
		l.now = l.now.Add(time.Second)
		g.Adapt(l.position())
	}
	require.Same(t, second, g.Current.Load())
	require.Nil(t, second.before())
	s := &second.shards[second.Shard(h)]
	require.Equal(t, l.position().Generation, s.number, "the shard is not behind")
	require.True(t, first.Take(held, h, 2, l.Limit, Brief).Allowed, "taken as of now")
	require.EqualValues(t, 2, (&predecessor{e: second}).count(l.position().Generation, h))
}

// Goroutines ask two engines for a key or two while one of the engines is replaced, again and again. Some of them still
// hold the first one. Each key gets its limit in each generation and no more, and as many units of both engines.
func TestGroupWhileAnEngineGrows(t *testing.T) {
	const keys, limit, beside = 50, 20, 40
	l, g := growing(t)
	other, first := faceOf(t, fixed(beside, time.Second), l.dims), l.Engine
	first.Rank(1)
	other.Rank(2)
	for round := range int64(20) {
		l.now = time.Unix(3*round, 0) // what was counted before has expired
		at := l.position()
		var admitted [keys]atomic.Int64
		var some atomic.Int64
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
				for range 2 * keys * limit {
					e, drawn := g.Current.Load(), random.Perm(keys)[:1+i%2]
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
		var resized bool
		all.Go(func() {
			for some.Load() < keys*limit/2 { // in the midst
				runtime.Gosched()
			}
			resized = g.Resize(first.Bytes() * int(1+round%3))
		})
		all.Wait()
		require.True(t, resized)
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
	l, g := growing(t)
	h, first := l.hasher.String("key"), l.Engine
	require.True(t, g.Resize(2*first.Bytes())) // while decisions that have the first in hand wait for the lock
	require.True(t, first.Consume(first.Shard(h), 0, h, 15, l.Limit, Whole).Allowed)
	_, v := first.Reserve(rotating.Position{}, h, 5, l.Limit)
	require.True(t, v.Allowed)
	require.Zero(t, first.Peek(rotating.Position{}, h, 1, l.Limit).Remaining)
	require.Zero(t, (&predecessor{e: first}).count(0, h))
	require.EqualValues(t, 20, (&predecessor{e: g.Current.Load()}).count(0, h))
	require.False(t, first.Take(0, h, 1, l.Limit, Brief).Allowed)
}

// A limiter whose cells and doorkeepers are full does not know how many keys there are, and says so: they may be more
// than it tells.
func TestKeysThatAreTooManyToTell(t *testing.T) {
	l := faceOf(t, fixed(1000, time.Minute), spec.Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 3, Width: 96, CellBits: 8})
	next := uint64(0)
	send := func(keys int) {
		for range keys {
			next++
			l.Take(l.word(), l.hasher.String(strconv.FormatUint(next, 10)), 1, l.Limit, Brief)
		}
	}
	send(100)
	keys, full := distinctKeys(l.Engine, 0)
	require.InDelta(t, 100, keys, 20)
	require.False(t, full)
	send(1900) // the cells are full, and an eighth of the keys is in the doorkeeper
	keys, full = distinctKeys(l.Engine, 0)
	require.InDelta(t, 2000, keys, 500)
	require.False(t, full)
	send(50_000)
	_, full = distinctKeys(l.Engine, 0)
	require.True(t, full)
}

// A limiter that spares keys because there was nothing larger grows once there is: the cells of its shards hold nothing that
// would tell that it is too small.
func TestGrowOutOfSparing(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	f := sparingFace(t, sliding(100, time.Second), oneShard(100))
	var current atomic.Pointer[Engine]
	current.Store(f.Engine)
	g := &Growth{
		Current: &current, Latest: func() int64 { return f.position().Generation },
		Goal: 1e-5, Lowest: 100, Least: f.Bytes(), Most: f.Bytes(),
		Plan: func(int) (spec.Dimensions, error) { d := f.dims; d.Shards = 4; return d, nil },
		Need: func(keys int) (int, error) { return keys, nil },
	}
	g.Start(func() {})
	f.OverCapacity.SetFull(true)
	require.True(t, f.crowd(10_000, 10, random))
	for !f.at(0).sparing() {
		f.crowd(1000, 10, random)
		for range 1000 {
			f.take(strconv.FormatUint(random.Uint64(), 36), 10)
		}
		f.now = f.now.Add(time.Second)
		g.Adapt(f.position())
	}
	require.Same(t, f.Engine, current.Load(), "there is nothing larger")
	g.Most = 100 * f.Bytes()
	for range 1000 {
		f.take(strconv.FormatUint(random.Uint64(), 36), 10)
	}
	require.True(t, f.at(0).sparing())
	f.now = f.now.Add(time.Second)
	g.Adapt(f.position())
	require.NotSame(t, f.Engine, current.Load())
}

// Whoever asks whether units fit, to hold them, is told what a decision would be, where its shard spares as well.
func TestFitsWhereAShardSpares(t *testing.T) {
	f := sparingFace(t, sliding(100, time.Second), oneShard(100))
	f.take("first", 1)
	r := f.at(0)
	r.state().mode = sparing
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
	require.True(t, f.at(0).sparing())
}
