package main

import (
	"io"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// phase is a part of a run.
type phase int

const (
	planned phase = iota // before the overload
	early                // the first tenth of a window of it
	late                 // the rest of it
	after                // planned load again
	phases
)

// phaseOf returns the phase of a slot.
func (t *traffic) phaseOf(slot int) phase {
	switch begins := t.begins(); {
	case slot < begins:
		return planned
	case slot < begins+slots/10:
		return early
	case slot < t.ends():
		return late
	}
	return after
}

// judge holds limiters against exact counts while requests come.
type judge struct {
	algorithm sketchlimit.Algorithm
	traffic   traffic
	counts    []units // by key: those of the exact algorithm, which sees all requests, and of what each watched limiter admitted
	watched   int
	text      [nameBytes]byte
	slot      int
	phase     phase
	innocents [phases]uint64 // requests of innocent keys
	clients   [phases]uint64 // of those, the ones of keys that never ask for more than their limit
	requests  []int          // since the overload began, until the end of each of its slots
	exact     gains          // of abusers, by the exact algorithm
	accused   []*accused
	batch     []request // that have come and are not judged yet
	touched   int16
}

// gains are what abusers were admitted in the overload.
type gains struct {
	units  []int32                // by abuser
	window [overloadWindows]int64 // of all of them
}

// accused is a limiter, and what it has done wrong.
type accused struct {
	limiter
	denied  [phases]uint64 // requests of innocent keys
	refused [phases]uint64 // of those, the ones of clients
	abusers gains
	memory  int // the most
	sparing     // only of this library
}

// sparing is what concerns over-admissions. A limiter over capacity may admit too
// much while it does so by its own account, and until one window after; but it counts
// what it cannot answer for.
type sparing struct {
	history int // where among the key's counts is that of what was admitted; 0: nobody asks
	pending []overAdmission
	over    uint64 // units admitted beyond the limit by a limiter that spared nobody
	spared  uint64 // units admitted beyond the limit by one that did
	state   sketchlimit.OverCapacity
	first   time.Time // when it was over capacity, the first time; the zero Time if it never did
	entries int       // of the table of heavy keys, the most
}

type overAdmission struct {
	at    time.Time
	units int
}

// watched is a limiter with DenyProven, and must otherwise never admit too much.
type watched interface {
	spared() sketchlimit.OverCapacity
	entries() int
}

func newJudge(a sketchlimit.Algorithm, t traffic, limiters []limiter) *judge {
	j := &judge{algorithm: a, traffic: t}
	j.exact.units = make([]int32, t.keys-t.abusers)
	for _, l := range limiters {
		accused := &accused{limiter: l}
		accused.abusers.units = make([]int32, t.keys-t.abusers)
		if _, ok := l.(watched); ok {
			j.watched++
			accused.history = j.watched
		}
		j.accused = append(j.accused, accused)
	}
	j.counts = make([]units, t.keys*(1+j.watched))
	j.batch = make([]request, 0, batch)
	return j
}

// run plays the traffic to all limiters.
func (j *judge) run(seed uint64) error {
	j.phase = j.traffic.phaseOf(0)
	j.traffic.each(seed, j.take, j.turn)
	for _, a := range j.accused {
		if c, ok := a.limiter.(io.Closer); ok {
			if err := c.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// batch is requests whose counts are read at once: one after the other, each would wait
// for memory.
const batch = 32

// take is a request that comes.
func (j *judge) take(r request) {
	if j.batch = append(j.batch, r); len(j.batch) == batch {
		j.flush()
	}
}

// flush judges all that have come.
func (j *judge) flush() {
	for _, r := range j.batch {
		j.touched += j.counts[r.key*(1+j.watched)].generation
	}
	for _, r := range j.batch {
		j.judge(r)
	}
	j.batch = j.batch[:0]
}

// judge judges one request.
func (j *judge) judge(r request) {
	key := name(&j.text, r.key)
	counts := j.counts[r.key*(1+j.watched):]
	exact := &counts[0]
	innocent := exact.innocent(j.algorithm, r.at)
	client := innocent && r.key < j.traffic.abusers
	if innocent {
		j.innocents[j.phase]++
	}
	if client {
		j.clients[j.phase]++
	}
	overload := j.phase == early || j.phase == late
	if overload {
		j.requests[len(j.requests)-1]++
	}
	abuser := overload && r.key >= j.traffic.abusers
	if exact.take(j.algorithm, r.at, r.cost) && abuser {
		j.admit(&j.exact, r)
	}
	for _, a := range j.accused {
		admitted := a.take(r.at, key, r.cost)
		if innocent && !admitted {
			a.denied[j.phase]++
		}
		if client && !admitted {
			a.refused[j.phase]++
		}
		if admitted && abuser {
			j.admit(&a.abusers, r)
		}
		if admitted && a.history > 0 {
			a.count(&counts[a.history], j.algorithm, r)
		}
	}
}

// admit counts what an abuser got.
func (j *judge) admit(s *gains, r request) {
	s.units[r.key-j.traffic.abusers] += int32(r.cost)
	s.window[(j.slot-j.traffic.begins())/slots] += int64(r.cost)
}

// count adds an admitted request to what its key was admitted.
func (s *sparing) count(u *units, a sketchlimit.Algorithm, r request) {
	if !u.fits(a, r.at, r.cost) {
		s.pending = append(s.pending, overAdmission{r.at.time, r.cost})
	}
	u.current += int16(r.cost)
}

// turn ends a slot. What was admitted beyond the limit in the last ones is held against
// what the limiter says of itself, not after every slot: Stats reads every cell.
func (j *judge) turn(slot int) {
	j.flush()
	for _, a := range j.accused {
		a.memory = max(a.memory, a.limiter.memory())
		if w, ok := a.limiter.(watched); ok && (slot%50 == 49 || len(a.pending) > 0 && slot%10 == 9) {
			a.settle(w.spared())
			a.entries = max(a.entries, w.entries())
		}
	}
	j.slot = slot + 1
	j.phase = j.traffic.phaseOf(j.slot)
	if j.phase == early || j.phase == late {
		j.requests = append(j.requests, 0)
		if n := len(j.requests); n > 1 {
			j.requests[n-1] = j.requests[n-2]
		}
	}
}

// settle judges what is pending, by what the limiter says now and said before.
func (s *sparing) settle(now sketchlimit.OverCapacity) {
	for _, o := range s.pending {
		if spares(now, o.at) || spares(s.state, o.at) {
			s.spared += uint64(o.units)
		} else {
			s.over += uint64(o.units)
		}
	}
	s.pending, s.state = s.pending[:0], now
	if s.first.IsZero() {
		s.first = now.Since
	}
}

// spares reports whether a limiter that says so may admit too much at a time.
func spares(s sketchlimit.OverCapacity, at time.Time) bool {
	return s.Times > 0 && !at.Before(s.Since) && (s.Active || at.Before(s.Exact))
}
