package sketchlimit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// shard is the state of the keys whose hashes begin alike, but for what lies in
// their part of the limiter's memory. It fills one cache line.
type shard struct {
	mu       sync.Mutex
	wheel    rotating.Wheel
	admitted uint64 // units
	denied   uint64 // units
	last     denial
}

// layout says where things lie in a shard's memory, which is the same in all shards:
// for each generation a doorkeeper and a sketch, then the table of heavy keys.
//
// A key's first unit in a generation is its mark in the doorkeeper, the next ones
// are in the sketch, so that keys which come once never enter it; and once they reach
// the threshold, the key moves into the table.
type layout struct {
	window
	door       bloom.Layout
	cells      cms.Layout // no cells where the limit is 1
	heavy      heavyTable
	generation int // words of one generation
	size       int // words of a shard
	seed       uint64
}

// newLayout returns the layout of a checked plan.
func newLayout(w window, p Plan, seed uint64) (layout, error) {
	l := layout{window: w, seed: seed}
	var err error
	if l.door, err = bloom.NewLayout(p.BloomBytes, p.BloomProbes); err != nil {
		return layout{}, err
	}
	if p.Width > 0 {
		if l.cells, err = cms.NewLayout(p.Depth, p.Width, p.CellBits); err != nil {
			return layout{}, err
		}
	}
	l.heavy.buckets = uint64(p.HeavyEntries / heavyBucket)
	l.heavy.threshold = int64(p.HeavyThreshold)
	l.heavy.bits, _ = heavyBits(int(w.limit))
	l.generation = l.door.Words() + l.cells.Words()
	l.size = w.generations*l.generation + p.HeavyEntries
	return l, nil
}

// request is one key in one shard, whose lock the caller holds.
type request struct {
	*layout
	s      *shard
	memory []uint64
	h      uint64
}

// take admits and counts n units, or does not.
func (r *request) take(p Position, n int64) verdict {
	r.turn(p.Generation)
	p = r.clamp(p)
	entry := r.heavy.find(r.table(), r.h)
	u := r.usage(p, entry)
	if n < 1 || n > u.free {
		v := r.denied(p, u, entry, n)
		r.s.denied += uint64(max(n, 0))
		if n == 1 {
			r.s.last.set(r.h, r.nanos(p), v)
		}
		return v
	}
	r.s.admitted += uint64(n)
	r.s.last.forget(r.h)
	r.add(entry, u.current, n)
	return verdict{allowed: true, remaining: int(u.free - n), resetAfter: r.resetAfter(p, 0)}
}

// peek tells what take would, but for what is left afterwards.
func (r *request) peek(p Position, n int64) verdict {
	p = r.clamp(p)
	entry := r.heavy.find(r.table(), r.h)
	u := r.usage(p, entry)
	if n < 1 || n > u.free {
		return r.denied(p, u, entry, n)
	}
	return verdict{allowed: true, remaining: int(u.free), resetAfter: r.resetAfter(p, u.newest)}
}

// denied is the verdict on a request for n units that are not free.
func (r *request) denied(p Position, u usage, entry *uint64, n int64) verdict {
	return verdict{
		remaining:  int(max(u.free, 0)),
		retryAfter: r.retryAfter(p, n, func(age int) int64 { return r.count(p, age, entry) }),
		resetAfter: r.resetAfter(p, u.newest),
	}
}

// turn begins the generation, if it is not behind.
func (r *request) turn(generation int64) {
	if generation <= r.s.wheel.Generation() {
		return
	}
	turns := r.s.wheel.Advance(generation)
	for age := range turns {
		clear(r.buffer(age))
	}
	r.heavy.turn(r.table(), turns, r.generations)
}

// clamp brings a position to the shard's generation, if a request that came later has
// turned the shard already.
func (r *request) clamp(p Position) Position {
	if g := r.s.wheel.Generation(); g > p.Generation {
		return Position{g, 0}
	}
	return p
}

func (r *request) table() []uint64 { return r.memory[r.generations*r.generation:] }

// buffer returns the memory of the generation of an age.
func (r *request) buffer(age int) []uint64 {
	return r.memory[r.s.wheel.Index(age)*r.generation:][:r.generation]
}

// usage is what a key has used of its quota.
type usage struct {
	free    int64 // units that can be admitted now; below 0 where readings err
	current int64 // units in the current generation
	newest  int   // age of the youngest generation that has counted the key, or their number
}

// usage reads the key in all generations.
func (r *request) usage(p Position, entry *uint64) usage {
	u := usage{free: r.limit, newest: r.generations}
	for age := r.generations - 1; age >= 0; age-- {
		c := r.count(p, age, entry)
		if c > 0 {
			u.newest = age
			u.free -= r.weighted(c, age, p.Elapsed)
		}
		u.current = c
	}
	return u
}

// count reads the key in the generation that is age before the position's, which may lie
// ahead of the shard's.
func (r *request) count(p Position, age int, entry *uint64) int64 {
	number := p.Generation - int64(age)
	age = int(min(r.s.wheel.Generation()-number, int64(r.generations)))
	if age < 0 || age >= r.generations {
		return 0 // not begun, or gone
	}
	h := mix(r.h, rotating.Seed(r.seed, number))
	words := r.buffer(age)
	c := int64(0)
	if r.door.Test(words, h) {
		c = 1 + int64(r.cells.Estimate(words[r.door.Words():], h))
	}
	if entry != nil {
		c = max(c, r.heavy.count(*entry, age))
	}
	return c
}

// add counts n units for the key, whose entry and current count were read just before.
func (r *request) add(entry *uint64, count, n int64) {
	h := mix(r.h, rotating.Seed(r.seed, r.s.wheel.Generation()))
	words := r.buffer(0)
	if count == 0 {
		r.door.TestAndAdd(words, h) // heavy keys too: distinct keys are counted there
	}
	count += n
	switch {
	case entry != nil:
		r.heavy.set(entry, count)
	case count >= r.heavy.threshold && r.heavy.insert(r.table(), r.h, count):
	case count > 1:
		r.cells.Raise(words[r.door.Words():], h, uint32(count-1))
	}
}

// denial remembers the last key of a shard that had nothing left, and until when:
// counts only grow before then, so the key is denied again by reading this alone,
// without the lock. A flood on one key takes three loads and no store.
//
// The three words are read and written one by one; check tells whether they belong
// together and to the key.
type denial struct {
	until, reset atomic.Int64 // unix time, ns: when a unit comes free, when the quota is whole
	check        atomic.Uint64
}

// set is called under the shard's lock.
func (d *denial) set(h uint64, now int64, v verdict) {
	until, reset := now+int64(v.retryAfter), now+int64(v.resetAfter)
	d.until.Store(until)
	d.reset.Store(reset)
	d.check.Store(h ^ uint64(until) ^ uint64(reset))
}

// forget is for a key that was admitted, under the shard's lock. The key has passed the
// time it was denied until, but the clock may step back before that.
func (d *denial) forget(h uint64) {
	if d.check.Load() == h^uint64(d.until.Load())^uint64(d.reset.Load()) {
		d.until.Store(math.MinInt64)
	}
}

// holds returns the verdict if the key is known to have nothing left at a unix time.
func (d *denial) holds(h uint64, now int64) (verdict, bool) {
	until, reset := d.until.Load(), d.reset.Load()
	if d.check.Load() != h^uint64(until)^uint64(reset) || now >= until {
		return verdict{}, false
	}
	return verdict{retryAfter: time.Duration(until - now), resetAfter: time.Duration(reset - now)}, true
}
