package audit

import (
	"sync"
	"unsafe"
)

// kind is an exact algorithm over states S of a key, at times in unix ns and under
// limits of the requests' own.
type kind[S any] interface {
	// initial returns the state of a new key, in some words of memory.
	initial(words []int64) S
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
	// alike reports whether a key meets the same others in all windows, so that its
	// denials in them are not independent.
	alike() bool
	// full returns the most units that a request at a limit may cost.
	full(limit int64) int64
	// exhaust makes a state that of a key which has as much in use as it may.
	exhaust(s *S, at int64)
	// words are what a state takes beside its size.
	words() int
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
	// unsure is that the key may have used more than is known, or got more than its
	// limit: until it has nothing in use.
	unsure bool
}

// table is sets of keys.
type table[S any] struct {
	kind kind[S]
	sets []set[S]
}

func (t *table[S]) setBytes() int { return int(unsafe.Sizeof(set[S]{})) + 2*8*setKeys*t.kind.words() }
func (t *table[S]) places() int   { return len(t.sets) * setKeys }

// make takes the memory of so many sets.
func (t *table[S]) make(sets int) {
	t.sets = make([]set[S], sets)
	words := t.kind.words()
	memory := make([]int64, 2*sets*setKeys*words)
	for i := range t.sets {
		for j := range t.sets[i].keys {
			k := &t.sets[i].keys[j]
			k.own, k.alone = t.kind.initial(memory[:words]), t.kind.initial(memory[words:2*words])
			memory = memory[2*words:]
		}
	}
}

// forget lets all keys go.
func (t *table[S]) forget() {
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		clear(s.hashes[:])
		s.mu.Unlock()
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
	slice, all := a.slice.Load(), a.known.Load()
	known, weight := place(q.Hash) < all, weightOf(all)
	k, was := t.find(s, other, slice, &q)
	if k == nil {
		return false
	}
	if !was {
		t.begin(k, &q, epoch, known)
	}
	if k.unsure && t.gone(k, q.At) {
		k.unsure = false
		t.kind.reset(&k.own) // what it may have used is not to come back if the clock steps back
		t.kind.reset(&k.alone)
	}
	if t.kind.alike() {
		known, weight = !k.unsure, weightOf(slice)
	}
	if k.epoch != uint32(epoch) {
		if k.epoch = uint32(epoch); !t.kind.alike() {
			k.requests, k.denied = 0, 0
		}
		a.seen.Add(1)
		if known {
			s.counts.Keys += weight
		}
	}
	used := t.kind.used(&k.alone, q.At)
	fits := t.kind.fits(used, q.N+q.Held, q.Limit)
	switch {
	case !known:
	case q.Charge:
		units := weight * uint64(min(q.N, t.kind.full(q.Limit)))
		s.counts.Admitted += units
		s.counts.Exact += units
	default:
		t.judge(a, s, k, &q, used, fits, weight)
	}
	if q.Charge || q.Use == Now && q.Admitted {
		t.kind.spend(&k.own, q.At, q.N, q.Limit)
	}
	if q.Charge || fits && q.alone() {
		t.kind.spend(&k.alone, q.At, q.N, q.Limit)
	}
	return true
}

// alone reports whether what the exact algorithm alone admits counts now.
func (q *Event) alone() bool { return q.Use == Now || q.Use == Later && !q.Admitted }

// judge counts a decision, by what is in use by the exact algorithm alone, and whether
// that admits it.
func (t *table[S]) judge(a *Audit, s *set[S], k *key[S], q *Event, used int64, fits bool, weight uint64) {
	c := &s.counts
	if q.Admitted && q.Use == Now {
		c.Admitted += weight * uint64(q.N)
	}
	if fits && q.alone() {
		c.Exact += weight * uint64(q.N)
	}
	if q.Admitted && q.Use != Never && !t.kind.fits(t.kind.used(&k.own, q.At), q.N+q.Held, q.Limit) {
		if q.OverCapacity {
			k.unsure = t.kind.alike()
		} else {
			c.Over += uint64(q.N)
			a.alarm(q)
		}
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

// setsOf returns the two sets in which a key may be, which may be one, in the order of
// their locks.
func (t *table[S]) setsOf(h uint64) (s, other *set[S]) {
	n := uint64(len(t.sets))
	i, j := h*0xff51afd7ed558ccd>>32*n>>32, h*0xc4ceb9fe1a85ec53>>32*n>>32
	return &t.sets[min(i, j)], &t.sets[max(i, j)]
}

// find returns the place of a key in its sets, a new one in that which has more room,
// or nil if others have all. was is false of a new one.
func (t *table[S]) find(s, other *set[S], slice uint64, q *Event) (k *key[S], was bool) {
	for _, in := range [...]*set[S]{s, other} {
		for i, h := range in.hashes {
			if h == q.Hash {
				return &in.keys[i], true
			}
		}
	}
	at, room := t.free(s, slice, q.At)
	if there, more := t.free(other, slice, q.At); more > room {
		s, at, room = other, there, more
	}
	if room == 0 {
		return nil, false
	}
	s.hashes[at] = q.Hash
	return &s.keys[at], false
}

// begin makes a place that of a new key. Where windows are alike, one of a slice that
// is not known yet is taken to have used as much as it may.
func (t *table[S]) begin(k *key[S], q *Event, epoch int64, known bool) {
	k.epoch, k.requests, k.denied, k.unsure = uint32(epoch)-1, 0, 0, t.kind.alike() && !known
	t.kind.reset(&k.own)
	t.kind.reset(&k.alone)
	if k.unsure {
		t.kind.exhaust(&k.own, q.At)
		t.kind.exhaust(&k.alone, q.At)
	}
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
