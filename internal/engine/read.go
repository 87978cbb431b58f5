package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// usage is what a key has used of its quota.
type usage struct {
	free   int64 // units that can be admitted now; below 0 where readings err
	newest int   // age of the youngest generation that has counted the key, or their number
}

// unbounded asks usage for all there is to tell.
const unbounded int64 = math.MaxInt64

// usageOf returns usage with the key's units elsewhere added. If n units fit beside an upper
// bound of those, it uses the bound; otherwise it reads each generation. It also returns what a
// predecessor has counted of the key in the current generation.
func (r window) usageOf(p rotating.Position, n, limit, current int64, entry *uint64, enough int64) (u usage, external int64) {
	x := r.e.external.Load()
	if x == nil {
		return r.usage(p, current, entry, enough, false), 0
	}
	others, ok := (*x).Bound(r.h, r.e.Timeline.Pack(p))
	if !ok {
		external = (*x).Count(p.Generation, r.h)
		return r.usage(p, current+external, entry, enough, true), external
	}
	u = r.usage(p, current+others, entry, enough, false)
	if n < 1 || n > u.free-(r.e.Limit-limit) {
		u = r.used(p, entry)
	}
	return u, 0
}

// usage reads the key in the generations before the current one, whose count is known,
// until it is clear whether enough units are free, and then tells no more than that.
// The oldest generation can be left out if there are enough whatever that holds, which
// is so for most keys most of the time; so can all if the current one leaves too few.
//
// With elsewhere it adds what the key has used elsewhere in each generation, and then leaves out
// no generation for what it may hold: units elsewhere may come on top of a whole limit here.
//
// With enough units asked for it returns at most as many as free, and never more than it would with all: so whatever it
// leaves out, a request that it admits would be admitted by all readings. Consume relies on that.
func (r window) usage(p rotating.Position, current int64, entry *uint64, enough int64, elsewhere bool) usage {
	u := usage{free: r.e.Limit - current, newest: r.e.Ring.Buffers()}
	if current > 0 {
		u.newest = 0
	}
	oldest := r.e.Ring.Buffers() - 1
	for age := 1; age <= oldest; age++ {
		if enough != unbounded && (u.free < enough || age == oldest && !elsewhere && r.e.WeighsAtMost(r.e.Reach, p.Elapsed, u.free-enough)) {
			u.free = min(u.free, enough)
			return u
		}
		number := p.Generation - int64(age)
		c, _ := r.count(number, entry)
		if elsewhere {
			c += r.countExternal(number)
		}
		if c > 0 {
			u.newest = min(u.newest, age)
			u.free -= r.e.Weighted(c, age, p.Elapsed)
		}
	}
	return u
}

// used is all there is to tell of what the key has used.
func (r window) used(p rotating.Position, entry *uint64) usage {
	current, _ := r.count(p.Generation, entry)
	return r.usage(p, current+r.countExternal(p.Generation), entry, unbounded, true)
}

// denied is the Verdict on a request for n units that are not free.
func (r window) denied(p rotating.Position, u usage, entry *uint64, n, limit int64) spec.Verdict {
	return spec.Verdict{
		Remaining: int(max(u.free, 0)),
		RetryAfter: r.e.RetryAfter(p, n, limit, func(age int) int64 {
			number := p.Generation - int64(age)
			c, _ := r.count(number, entry)
			return c + r.countExternal(number)
		}),
		ResetAfter: r.e.ResetAfter(p, u.newest),
	}
}

// count reads the key in a generation, by its number, which may lie ahead of the
// shard's, and returns its hash there unless the key's entry has counted it all, or as much as any key reads.
func (r window) count(number int64, entry *uint64) (count int64, h uint64) {
	age := r.s.number - number
	if uint64(age) >= uint64(r.e.Ring.Buffers()) {
		return 0, 0 // not begun, or gone
	}
	if entry != nil {
		count = r.e.heavy.Count(*entry, int(age))
		if r.e.heavy.Complete(*entry, int(age)) || age == 0 && count >= int64(r.s.peaks.current) {
			return count, 0
		}
	}
	c, h := r.estimateAt(int(age), number)
	return max(count, c), h
}

// estimateAt reads the key in the sketch of a generation, by age and number.
func (r window) estimateAt(age int, number int64) (count int64, h uint64) {
	first, h := r.buffer(age), r.hashAt(number)
	return r.estimate(first, h), h
}

// estimate reads the generation whose words begin at first, by a key's hash there.
func (r window) estimate(first int, h uint64) int64 {
	switch {
	case r.e.filterFirst && !r.e.filter.Test(r.e.memory, first, h):
		return 0
	case r.e.cells.Depth() == 0:
		return 1
	}
	return int64(r.e.cells.Estimate(r.e.memory, first+r.e.cellsFirst, h))
}

// peakBefore returns what the key has at most in the previous generation, by the shard's peak.
func (r window) peakBefore() int64 { return min(r.e.Reach, int64(r.s.peaks.before)*r.e.peakStep) }

// buffer returns the first word of the generation of an age.
func (r window) buffer(age int) int { return r.first + r.e.layout.buffer(r.s.number-int64(age)) }

// hashAt returns the key's hash in a generation, by its number.
func (r window) hashAt(number int64) uint64 {
	return keyhash.Mix(r.h, rotating.Seed(r.e.turnSeed, number))
}

// at returns the first word of a generation, by its number, and the key's hash there. Other
// than buffer it does not look into the shard, which may not be there yet, and which is where
// this says only once it has rotated.
func (r window) at(number int64) (first int, h uint64) {
	return r.first + r.e.layout.buffer(number), r.hashAt(number)
}

// countExternal returns the units of the key in a generation that are counted elsewhere.
func (r window) countExternal(number int64) int64 {
	if x := r.e.external.Load(); x != nil {
		return (*x).Count(number, r.h)
	}
	return 0
}

// offered returns the units that the key of an entry has asked for since it has that, as far as an exact limiter would have
// admitted them.
func (r window) offered(p rotating.Position, entry uint64) int64 {
	return r.e.heavy.Offered(entry, 0) + r.e.Weighted(r.e.heavy.Offered(entry, 1), 1, p.Elapsed)
}
