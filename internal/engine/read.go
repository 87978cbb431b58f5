package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// usage is what a key has used of its quota.
type usage struct {
	free   int64 // units that can be admitted now; below 0 where readings err
	newest int   // age of the youngest generation that has counted the key, or their number
}

// all asks usage for all there is to tell.
const all int64 = math.MaxInt64

// usage reads the key in the generations before the current one, whose count is known,
// until it is clear whether enough units are free, and then tells no more than that.
// The oldest generation can be left out if there are enough whatever that holds, which
// is so for most keys most of the time; so can all if the current one leaves too few. What
// the key has used elsewhere is read as well, or else is in current already.
//
// With enough units asked for it returns at most as many as free, and never more than it would with all: so whatever it
// leaves out, a request that it admits would be admitted by all readings. Consume relies on that.
func (r request) usage(p rotating.Position, current int64, entry *uint64, enough int64, elsewhere bool) usage {
	u := usage{free: r.limit - current, newest: r.Ring.Buffers()}
	if current > 0 {
		u.newest = 0
	}
	oldest := r.Ring.Buffers() - 1
	for age := 1; age <= oldest; age++ {
		if enough != all && (u.free < enough || age == oldest && r.WeighsAtMost(r.reach, p.Elapsed, u.free-enough)) {
			u.free = min(u.free, enough)
			return u
		}
		number := p.Generation - int64(age)
		c, _ := r.count(number, entry)
		if elsewhere {
			c += r.former(number)
		}
		if c > 0 {
			u.newest = min(u.newest, age)
			u.free -= r.Weighted(c, age, p.Elapsed)
		}
	}
	return u
}

// used is all there is to tell of what the key has used.
func (r request) used(p rotating.Position, entry *uint64) usage {
	current, _ := r.count(p.Generation, entry)
	return r.usage(p, current+r.former(p.Generation), entry, all, true)
}

// count reads the key in a generation, by its number, which may lie ahead of the
// shard's, and returns its hash there unless the key's entry has counted it all.
func (r request) count(number int64, entry *uint64) (count int64, h uint64) {
	age := r.s.number - number
	if uint64(age) >= uint64(r.Ring.Buffers()) {
		return 0, 0 // not begun, or gone
	}
	if entry != nil {
		count = r.heavy.Count(*entry, int(age))
		if r.heavy.Complete(*entry, int(age)) {
			return count, 0
		}
	}
	c, h := r.read(int(age), number)
	return max(count, c), h
}

// read reads the key in the sketch of a generation, by age and number.
func (r request) read(age int, number int64) (count int64, h uint64) {
	first, h := r.buffer(age), r.hashAt(number)
	return r.reading(first, h), h
}

// reading reads the generation whose words begin at first, by a key's hash there.
func (r request) reading(first int, h uint64) int64 {
	switch {
	case r.guarded && !r.door.Test(r.memory, first, h):
		return 0
	case r.cells.Depth() == 0:
		return 1
	}
	return int64(r.cells.Estimate(r.memory, first+r.cellsFirst, h))
}

// hashAt returns the key's hash in a generation, by its number.
func (r request) hashAt(number int64) uint64 {
	return keyhash.Mix(r.h, rotating.Seed(r.turnSeed, number))
}

// former reads the key in a generation as a predecessor has counted it, if there is one
// whose counts still matter, or as those have that share the limit.
func (r request) former(number int64) int64 {
	if !r.beside.Load() {
		return 0
	}
	if share := r.share.Load(); share != nil {
		return share.count(r, number)
	}
	before := r.before.Load()
	if before == nil {
		return 0
	}
	return before.counted(number, r.h)
}

// counted reads a key in a generation, by its number.
func (e *Engine) counted(number int64, h uint64) int64 {
	i := e.Shard(h)
	r := e.request(i, h)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	entry := r.heavy.Find(r.bucketOf(), h)
	if r.wide() {
		return r.own(number, entry)
	}
	c, _ := r.count(number, entry)
	return c
}

// HasEntry tells whether a key has an entry in the heavy table.
func (e *Engine) HasEntry(h uint64) bool {
	r := e.request(e.Shard(h), h)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.heavy.Find(r.bucketOf(), h) != nil
}
