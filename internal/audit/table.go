package audit

import (
	"sync"
	"unsafe"
)

// kind is an exact algorithm over states S of a key, at times in unix ns and under limits of
// the requests' own.
type kind[S any] interface {
	// fresh returns the state of a new key, in memory of its own.
	fresh() S
	// reset makes a state that of a new key, in the same memory.
	reset(s *S)
	// gone reports whether a state is as good as a new one.
	gone(s *S, at int64) bool
	// used returns what is in use.
	used(s *S, at int64) int64
	// fits reports whether n units are free beside that.
	fits(used, n, limit int64) bool
	// light reports whether that is less than half of the limit.
	light(used, limit int64) bool
	// spend counts n units, as far as the limiter does.
	spend(s *S, at, n, limit int64)
	// bytes are what a state takes beside its size.
	bytes() int
}

// setKeys are the keys of a set.
const setKeys = 12

// set is places of keys whose hashes choose it.
type set[S any] struct {
	mu     sync.Mutex
	counts Counts
	hashes [setKeys]uint64 // 0 of none
	keys   [setKeys]key[S]
	_      [64]byte // a KiB in all, where states are three words
}

// key is what is known of a key.
type key[S any] struct {
	own   S // by what the limiter has admitted
	alone S // by the exact algorithm alone

	epoch            uint32 // the latest of the key, and how many requests it then made as a light key
	requests, denied uint32
}

// table is sets of keys.
type table[S any] struct {
	kind kind[S]
	sets []set[S]
}

func (t *table[S]) setBytes() int { return int(unsafe.Sizeof(set[S]{})) + 2*setKeys*t.kind.bytes() }
func (t *table[S]) places() int   { return len(t.sets) * setKeys }

// make takes the memory of so many sets.
func (t *table[S]) make(sets int) {
	t.sets = make([]set[S], sets)
	for i := range t.sets {
		for j := range t.sets[i].keys {
			t.sets[i].keys[j].own, t.sets[i].keys[j].alone = t.kind.fresh(), t.kind.fresh()
		}
	}
}

func (t *table[S]) sum() (all Counts) {
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		all = all.Plus(&s.counts)
		s.mu.Unlock()
	}
	return all
}

// count implements keys.
func (t *table[S]) count(a *Audit, q Event, epoch int64) bool {
	s, other := t.setsOf(q.Hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if other != s {
		other.mu.Lock()
		defer other.mu.Unlock()
	}
	k := t.find(s, other, a.slice.Load(), &q)
	if k == nil {
		return false
	}
	known, weight := place(q.Hash) < a.known.Load(), a.weight()
	if k.epoch != uint32(epoch) {
		k.epoch, k.requests, k.denied = uint32(epoch), 0, 0
		a.seen.Add(1)
		if known {
			s.counts.Keys += weight
		}
	}
	used := t.kind.used(&k.alone, q.At)
	fits := t.kind.fits(used, q.N+q.Held, q.Limit)
	if known && !q.Charge {
		t.judge(a, s, k, &q, used, fits, weight)
	}
	if q.Charge || q.Counts && q.Admitted {
		t.kind.spend(&k.own, q.At, q.N, q.Limit)
	}
	if q.Charge || q.Counts && fits {
		t.kind.spend(&k.alone, q.At, q.N, q.Limit)
	}
	return true
}

// judge counts a decision, by what is in use by the exact algorithm alone, and whether that admits it.
func (t *table[S]) judge(a *Audit, s *set[S], k *key[S], q *Event, used int64, fits bool, weight uint64) {
	c := &s.counts
	if q.Admitted && q.Counts {
		c.Admitted += weight * uint64(q.N)
	}
	if fits && q.Counts {
		c.Exact += weight * uint64(q.N)
	}
	if q.Admitted && !q.Spared && !t.kind.fits(t.kind.used(&k.own, q.At), q.N+q.Held, q.Limit) {
		c.Over += uint64(q.N)
		a.alarm(q)
	}
	if !fits || !t.kind.light(used, q.Limit) {
		return
	}
	c.Requests += weight
	c.Units += weight * uint64(q.N)
	squared := float64(weight) * float64(weight)
	c.Squares[weightsSquared] += squared
	c.Squares[requestsSquared] += squared * float64(2*uint64(k.requests)+1)
	c.Squares[requestsDenied] += squared * float64(k.denied)
	k.requests++
	if !q.Admitted {
		c.Denied += weight
		c.Squares[deniedSquared] += squared * float64(2*uint64(k.denied)+1)
		c.Squares[requestsDenied] += squared * float64(k.requests)
		k.denied++
	}
}

// setsOf returns the two sets in which a key may be, which may be one, in the order of their locks.
func (t *table[S]) setsOf(h uint64) (s, other *set[S]) {
	n := uint64(len(t.sets))
	i, j := h*0xff51afd7ed558ccd>>32*n>>32, h*0xc4ceb9fe1a85ec53>>32*n>>32
	return &t.sets[min(i, j)], &t.sets[max(i, j)]
}

// find returns the place of a key in its sets, a new one in that which has more room, or nil if others have all.
func (t *table[S]) find(s, other *set[S], slice uint64, q *Event) *key[S] {
	for _, in := range [...]*set[S]{s, other} {
		for i, h := range in.hashes {
			if h == q.Hash {
				return &in.keys[i]
			}
		}
	}
	at, room := t.free(s, slice, q.At)
	if there, more := t.free(other, slice, q.At); more > room {
		s, at, room = other, there, more
	}
	if room == 0 {
		return nil
	}
	k := &s.keys[at]
	s.hashes[at], k.epoch = q.Hash, 0
	t.kind.reset(&k.own)
	t.kind.reset(&k.alone)
	return k
}

// free returns a free place of a set, and how many there are.
func (t *table[S]) free(s *set[S], slice uint64, at int64) (free, room int) {
	for i, h := range s.hashes {
		if h == 0 || place(h) >= slice || t.gone(&s.keys[i], at) {
			free, room = i, room+1
		}
	}
	return free, room
}

// gone reports whether a key has nothing in use.
func (t *table[S]) gone(k *key[S], at int64) bool {
	return t.kind.gone(&k.own, at) && t.kind.gone(&k.alone, at)
}
