package budget

import "sync"

// room is the places of holds that are free, in parts with a lock of their own each: lists that the holds' newer links.
// A hold takes one of its key's part or, where that has none, of another: one key may have all of them.
type room [16]struct {
	mu    sync.Mutex
	first uint32   // place + 1, 0 for none
	_     [52]byte // a cache line each
}

// take returns a free place, for a key's hash.
func (b *Budget) take(h uint64) (place uint32, ok bool) {
	for i := range uint64(len(b.room)) {
		part := &b.room[(h+i)%uint64(len(b.room))]
		part.mu.Lock()
		if ok = part.first > 0; ok {
			place = part.first - 1
			part.first = b.holds[place].newer
		}
		part.mu.Unlock()
		if ok {
			return place, true
		}
	}
	return 0, false
}

// give makes a place free that a key has had, by its hash.
func (b *Budget) give(h uint64, place uint32) {
	part := &b.room[h%uint64(len(b.room))]
	part.mu.Lock()
	b.holds[place].newer, part.first = part.first, place+1
	part.mu.Unlock()
}

// mostSwept is how many shards a request looks at that finds no room.
const mostSwept = 16

// sweep settles holds that have expired in some shards, other ones each time, and tells whether there were any.
func (b *Budget) sweep(now moment) (some bool) {
	for range min(mostSwept, len(b.shards)) {
		s := &b.shards[b.swept.Add(1)%uint64(len(b.shards))]
		m := now
		s.mu.Lock()
		s.follow(b, &m)
		some = b.expire(s, &m) || some
		s.mu.Unlock()
	}
	return some
}
