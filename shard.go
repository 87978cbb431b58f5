package sketchlimit

import (
	"sync"
	"unsafe"

	"github.com/bits-and-blooms/bitset"
	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// shard counts the keys whose hashes begin alike, under a lock of its own. Inside,
// everything is single-threaded.
type shard struct {
	mu       sync.Mutex
	window   window
	ring     rotating.Ring[*generation]
	words    []uint64 // the memory of the ring's buffers, in their order
	admitted uint64   // units
	denied   uint64   // units
}

// generation counts the units that keys are admitted in one span of time. A key's
// first unit is its mark in the doorkeeper; the sketch counts from the second on,
// so that keys which come once never enter it.
type generation struct {
	door  bloom.Filter
	cells cms.Sketch // no cells where the limit is 1
}

// Clear forgets all keys.
func (g *generation) Clear() {
	g.door.Clear()
	g.cells.Clear()
}

// count returns at least what was counted for the key, and 0 if that is certain.
func (g *generation) count(h uint64) int64 {
	if !g.door.Test(h) {
		return 0
	}
	return 1 + int64(g.cells.Estimate(h))
}

// add counts n units for the key, whose count was read just before.
func (g *generation) add(h uint64, count, n int64) {
	if count == 0 {
		// The doorkeeper forgets nobody: nothing in the cells is this key's.
		g.door.Add(h)
		count = 1
		n--
	}
	if n > 0 {
		g.cells.Raise(h, uint32(count-1+n))
	}
}

// init builds the shard on the first words and returns the rest.
func (s *shard) init(p Plan, w window, generations int, seed uint64, number int64, words []uint64) ([]uint64, error) {
	size := p.shardWords(generations)
	s.window = w
	s.words = words[:size:size]
	buffers := make([]*generation, generations)
	all := make([]generation, generations)
	for i := range buffers {
		g := &all[i]
		door, cells := p.split(s.words, i)
		f, err := bloom.Over(door, p.BloomProbes)
		if err != nil {
			return nil, err
		}
		g.door = *f
		if p.Width > 0 {
			k, err := cms.Over(cells, p.Depth, p.Width, p.CellBits)
			if err != nil {
				return nil, err
			}
			g.cells = *k
		}
		buffers[i] = g
	}
	ring, err := rotating.New(seed, number, buffers...)
	if err != nil {
		return nil, err
	}
	s.ring = *ring
	return words[size:], nil
}

// shardOverhead returns the bytes of a shard besides the words of its buffers.
func shardOverhead(generations int) int {
	perGeneration := unsafe.Sizeof(generation{}) + unsafe.Sizeof(bitset.BitSet{}) +
		unsafe.Sizeof(&generation{}) + 8 // its place and its seed in the ring
	return int(unsafe.Sizeof(shard{}) + uintptr(generations)*perGeneration)
}

// take admits and counts n units, or does not. The caller holds the lock.
func (s *shard) take(p Position, h uint64, n int64) Decision {
	s.ring.Advance(p.Generation)
	p = s.clamp(p)
	u := s.usage(p, h)
	d := s.judge(p, h, u, n)
	if !d.Allowed {
		s.denied += uint64(max(n, 0))
		return d
	}
	s.admitted += uint64(n)
	current, seed := s.ring.At(0)
	current.add(mix(h, seed), u.current, n)
	d.Remaining -= int(n)
	d.ResetAfter = s.window.resetAfter(p, 0, s.ring.Len())
	return d
}

// peek tells what take would, but for what is left afterwards. The caller holds the
// lock.
func (s *shard) peek(p Position, h uint64, n int64) Decision {
	p = s.clamp(p)
	return s.judge(p, h, s.usage(p, h), n)
}

// clamp brings a position to the shard's generation, if a request that came later
// has turned the shard already.
func (s *shard) clamp(p Position) Position {
	if g := s.ring.Generation(); g > p.Generation {
		return Position{g, 0}
	}
	return p
}

// judge answers a request for n units before any of them is counted.
func (s *shard) judge(p Position, h uint64, u usage, n int64) Decision {
	d := Decision{
		Allowed:    n >= 1 && n <= u.free,
		Limit:      int(s.window.limit),
		Remaining:  int(max(u.free, 0)),
		ResetAfter: s.window.resetAfter(p, u.newest, s.ring.Len()),
	}
	if !d.Allowed {
		d.RetryAfter = s.window.retryAfter(p, n, s.ring.Len(), func(age int) int64 { return s.count(p, age, h) })
	}
	return d
}

// usage is what a key has used of its quota.
type usage struct {
	free    int64 // units that can be admitted now; below 0 where readings err
	current int64 // units in the current generation
	newest  int   // age of the youngest generation that has counted the key, or the ring's length
}

// usage reads the key in all generations.
func (s *shard) usage(p Position, h uint64) usage {
	u := usage{free: s.window.limit, newest: s.ring.Len()}
	for age := s.ring.Len() - 1; age >= 0; age-- {
		c := s.count(p, age, h)
		if c > 0 {
			u.newest = age
			u.free -= s.window.weighted(c, age, s.ring.Len(), p.Elapsed)
		}
		u.current = c
	}
	return u
}

// count reads the key in the generation that is age before the position's, which
// may lie ahead of the shard's.
func (s *shard) count(p Position, age int, h uint64) int64 {
	if ahead := uint64(p.Generation) - uint64(s.ring.Generation()); ahead <= uint64(age) {
		g, seed := s.ring.At(age - int(ahead))
		return g.count(mix(h, seed))
	}
	return 0 // not begun
}
