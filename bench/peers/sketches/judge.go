package main

import "math"

// ledger counts exactly what was admitted of every key.
type ledger struct {
	kind   kind
	units  []units
	window int
}

type units struct{ now, before uint16 }

func newLedger(k kind, keys int) *ledger { return &ledger{kind: k, units: make([]units, keys)} }

// used returns the units that a key has used at a time, and its counts to add to.
func (l *ledger) used(key uint32, at moment) (uint32, *units) {
	for ; l.window < at.window; l.window++ {
		for i := range l.units {
			l.units[i] = units{before: l.units[i].now}
		}
	}
	u := &l.units[key]
	if l.kind == fixed {
		return uint32(u.now), u
	}
	return uint32(u.now) + weighted(uint32(u.before), at.elapsed), u
}

// add counts a unit. Nobody but a limiter that admits far too much gets to where it
// stops.
func (u *units) add() { u.now = min(u.now+1, math.MaxUint16-1) }

// exactly replays a stream through an exact limiter, marks the requests of keys that it
// never denies, and returns how many it admits.
func exactly(s *stream, k kind) (admitted int) {
	l, denied := newLedger(k, s.keys), make([]bool, s.keys)
	s.each(func(r *uint32, at moment) {
		*r &^= innocent
		if used, u := l.used(*r, at); used < limit {
			u.add()
			admitted++
		} else {
			denied[*r] = true
		}
	})
	for i, key := range s.requests {
		if !denied[key] {
			s.requests[i] |= innocent
		}
	}
	return admitted
}

// outcome is what a limiter did with a stream.
type outcome struct {
	exact     int // units that the exact limiter admits
	admitted  int
	over      int // of those, what the exact algorithm denies to a key with the same admitted history
	innocents int // requests of innocent keys
	denied    int // of those
	error     int // units that the limiter's readings were too high, over all admitted requests
}

// judge replays a stream, of which an exact limiter admits so much, through a limiter.
func judge(s *stream, k kind, exact int, l limiter) outcome {
	o := outcome{exact: exact}
	truth := newLedger(k, s.keys)
	s.each(func(r *uint32, at moment) {
		key := *r &^ innocent
		admitted, reading := l.take(keyHash(key, s.seed), at)
		if *r&innocent != 0 {
			o.innocents++
			if !admitted {
				o.denied++
			}
		}
		if !admitted {
			return
		}
		used, u := truth.used(key, at)
		o.admitted++
		o.error += int(reading) - int(used)
		if used >= limit {
			o.over++
		}
		u.add()
	})
	return o
}

// falseDenials is the share of the requests of innocent keys that is denied.
func (o outcome) falseDenials() float64 { return ratio(o.denied, o.innocents) }

// withheld is the share of the units that the exact limiter admits and the limiter does
// not. Over-admissions make up for what is withheld, and are to be read beside it.
func (o outcome) withheld() float64 { return ratio(max(o.exact-o.admitted, 0), o.exact) }

// overAdmissions is the share of what is admitted that is so wrongly.
func (o outcome) overAdmissions() float64 { return ratio(o.over, o.admitted) }

// meanError is by how many units a reading is too high on average.
func (o outcome) meanError() float64 { return ratio(o.error, o.admitted) }

func ratio(a, b int) float64 { return float64(a) / float64(max(b, 1)) }
