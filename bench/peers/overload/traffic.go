package main

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
	"unsafe"
)

const (
	slots = 1000 // of a window
	slot  = window / slots

	plannedWindows  = 1
	overloadWindows = 5
	afterWindows    = 3
)

// crowd is keys that ask for the same.
type crowd struct {
	first, keys int
	units       float64 // that a key asks for in a window, on average
	cost        int     // of a request
	late        int     // slots of the overload that pass before it comes
}

// requests returns how many the crowd sends in a window.
func (c *crowd) requests() float64 { return float64(c.keys) * c.units / float64(c.cost) }

// traffic is what comes in a run.
type traffic struct {
	planned, overload []crowd
	start             int // slots of the second window that pass before the overload
	keys              int // of all crowds: they are numbered from 0
	abusers           int // the first key that asks for more than its limit; all others come before
	burst             bursts
}

// bursts are the requests that a key sends in a row; 0: one.
type bursts struct{ innocent, abuser int }

// request is one, of a key.
type request struct {
	key, cost int
	at        moment
}

// slot numbers, since the beginning of a run.
func (t *traffic) begins() int { return plannedWindows*slots + t.start }
func (t *traffic) ends() int   { return t.begins() + overloadWindows*slots }
func (t *traffic) last() int   { return t.ends() + afterWindows*slots }

// crowds returns those that come in a slot.
func (t *traffic) crowds(s int) []crowd {
	if s >= t.begins() && s < t.ends() {
		return t.overload
	}
	return t.planned
}

// each calls take for every request in the order of time, and done after every slot.
// The traffic is never held: every slot has the crowds' numbers of requests, which come
// evenly, of a crowd at random and a key at random.
func (t *traffic) each(seed uint64, take func(request), done func(slot int)) {
	random := rand.New(rand.NewPCG(seed, 0))
	owed := make([]float64, max(len(t.planned), len(t.overload))) // parts of requests
	left, keys := make([]int, len(owed)), make([]inRow, len(owed))
	for s := range t.last() {
		crowds, all := t.crowds(s), 0
		for i := range crowds {
			if left[i] = 0; crowds[i].late > max(0, s-t.begins()) {
				continue
			}
			owed[i] += crowds[i].requests() / slots
			left[i] = int(owed[i])
			owed[i] -= float64(left[i])
			all += left[i]
		}
		for i := range all {
			passed := time.Duration(s)*slot + time.Duration(i)*slot/time.Duration(all)
			crowd := pick(random, left, all-i)
			c := &crowds[crowd]
			take(request{keys[crowd].next(random, c, t), c.cost, momentAt(passed)})
		}
		done(s)
	}
}

// inRow is the key of a crowd that has requests left in a row.
type inRow struct{ key, left int }

// next returns the key of the crowd's next request.
func (k *inRow) next(random *rand.Rand, c *crowd, t *traffic) int {
	if k.left == 0 || k.key < c.first || k.key >= c.first+c.keys {
		if k.key = c.first + random.IntN(c.keys); k.key < t.abusers {
			k.left = max(1, t.burst.innocent)
		} else {
			k.left = max(1, t.burst.abuser)
		}
	}
	k.left--
	return k.key
}

// pick takes one of so many that are left, and returns of which crowd.
func pick(random *rand.Rand, left []int, all int) int {
	n := random.IntN(all)
	for i := range left {
		if n -= left[i]; n < 0 {
			left[i]--
			return i
		}
	}
	panic("fewer are left than was said")
}

const nameBytes = 8

// name is the text of a key, no two alike, in a buffer: it holds until the next one.
func name(text *[nameBytes]byte, key int) string {
	binary.LittleEndian.PutUint64(text[:], uint64(key+1)*0x9e3779b97f4a7c15)
	return unsafe.String(&text[0], nameBytes)
}
