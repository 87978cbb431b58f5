package budget

import "github.com/sketchlimit/sketchlimit/internal/invariants"

// Each shard has a list of free places, linked by hold.newer. A shard without one takes
// one of another shard, because one key may have all open holds.

// take returns a free place for a hold of s, the shard of the hash h, whose lock is
// held. The place then belongs to s. take tries other shards without waiting for their
// locks, so that two which try each other do not deadlock.
func (b *Budget) take(s *shard, h uint64) (place uint32, ok bool) {
	if place, ok = s.takePlace(b.holds); ok {
		return place, true
	}
	for n := range uint64(len(b.shards)) {
		if ok {
			break
		}
		other := &b.shards[(h+n)%uint64(len(b.shards))]
		if other.mu.TryLock() {
			place, ok = other.takePlace(b.holds)
			other.mu.Unlock()
		}
	}
	return place, ok
}

func (s *shard) takePlace(holds []hold) (place uint32, ok bool) {
	if s.free == 0 {
		return 0, false
	}
	place = s.free - 1
	s.free = holds[place].newer
	return place, true
}

// give adds a place to the shard's free ones.
func (s *shard) give(holds []hold, place uint32) {
	holds[place].newer, s.free = s.free, place+1
}

// mostSwept is the number of shards that a request without room sweeps.
const mostSwept = 16

// sweep settles expired holds in the next mostSwept shards, and reports whether there
// were any.
func (b *Budget) sweep(now moment) (some bool) {
	for range min(mostSwept, len(b.shards)) {
		m, s := now, &b.shards[b.swept.Add(1)%uint64(len(b.shards))]
		s.mu.Lock()
		s.follow(b, &m)
		some = b.expire(s, &m) || some
		s.mu.Unlock()
	}
	return some
}

// checkFree panics unless a place that take has returned belongs to no hold, and the
// lock of the shard is held.
func (b *Budget) checkFree(s *shard, place uint32) {
	invariants.AssertHeld(&s.mu)
	id := b.holds[place].id.Load()
	invariants.Assert(id == 0, "place %d was free, and has the id %d", place, id)
}

// checkOpen panics unless a place belongs to an open hold of the shard, and the lock of
// the shard is held.
func (b *Budget) checkOpen(s *shard, place uint32) {
	invariants.AssertHeld(&s.mu)
	o := &b.holds[place]
	id := o.id.Load()
	own, _ := b.shard(o.h)
	invariants.Assert(id > 0 && own == s && (id-1)%uint64(len(b.shards)) == (s.id-1)%uint64(len(b.shards)),
		"place %d has the id %d in the shard of ids like %d", place, id, s.id)
	invariants.Assert(o.units > 0, "hold %d is open and holds nothing", id)
}
