package sketchlimit

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/inside"
)

// locked is a limiter of package exact, as a Group uses it. Groups lock shards in the
// order of the limiters' numbers and the shards', and before those of a Limiter.
type locked interface {
	// Number orders the limiters.
	Number() uint64
	// Place returns the hash of the request's key, its shard, and the request's time.
	Place(r Request) (hash uint64, shard int, at time.Time)
	Lock(shard int)
	Unlock(shard int)
	// Ask returns the decision on a request of n units, and consumes nothing. The shard
	// is locked.
	Ask(r Request, hash uint64, at time.Time, n int) Decision
	// Take returns the decision and consumes. The shard is locked.
	Take(r Request, hash uint64, at time.Time, n int) Decision
}

// lockedOf returns m as a limiter of package exact; nil if it is none.
func lockedOf(m Member) locked {
	l, _ := inside.Locked(m).(locked)
	return l
}

// seat is a question for a limiter of package exact.
type seat struct {
	locked
	request Request
	hash    uint64
	at      time.Time
	n       int
	shard   int
	index   int // of the question among all
}

// before reports whether the seat's lock is taken before another's.
func (s *seat) before(other *seat) int {
	switch a, b := s.Number(), other.Number(); {
	case a != b && a < b, a == b && s.shard < other.shard:
		return -1
	case a == b && s.shard == other.shard:
		return 0
	}
	return 1
}

// mixed is questions for limiters of both kinds, each of which has its place among the
// answers.
type mixed struct {
	seats   []seat // of those for exact limiters
	asked   []engine.Question
	owners  []*Limiter // of the engines that are asked
	places  []int      // of the answers
	answers []Decision
}

// add adds a question for a member.
func (m *mixed) add(to *member, r *Request, n int, peek bool) {
	index := len(m.answers)
	m.answers = append(m.answers, Decision{})
	if to.locked != nil {
		own := kept(r)
		if to.global {
			own = ofAll(own)
		}
		m.seats = append(m.seats, seat{locked: to.locked, request: own, n: n, index: index})
		return
	}
	var q engine.Question
	to.question(&q, r, n, peek)
	m.asked, m.owners, m.places = append(m.asked, q), append(m.owners, to.Limiter), append(m.places, index)
}

// kept returns a copy of a request with a copy of its key. It hides from the compiler
// where the key comes from; otherwise keys would escape to the heap in all groups.
func kept(r *Request) Request {
	p := *(*uintptr)(unsafe.Pointer(&r))
	own := **(**Request)(unsafe.Pointer(&p))
	own.Key, own.Bytes = strings.Clone(own.Key), bytes.Clone(own.Bytes)
	return own
}

// decide returns the index of the answer that counts. Exact limiters are asked first
// and stay locked while the sketches decide; they consume afterwards.
func (m *mixed) decide(peek bool) (by int) {
	seats, asked, answers := m.seats, m.asked, m.answers
	for i := range seats {
		s := &seats[i]
		s.hash, s.shard, s.at = s.Place(s.request)
		s.request.Peek = peek
	}
	slices.SortStableFunc(seats, func(a, b seat) int { return a.before(&b) })
	for i := range seats {
		if i == 0 || seats[i].before(&seats[i-1]) != 0 {
			seats[i].Lock(seats[i].shard)
		}
	}
	admitted := true
	for i := range seats {
		s := &seats[i]
		answers[s.index] = s.Ask(s.request, s.hash, s.at, s.n)
		admitted = admitted && answers[s.index].Allowed
	}
	if len(asked) > 0 {
		answer(asked, peek || !admitted)
		for i := range asked {
			d := &answers[m.places[i]]
			m.owners[i].tellAll(d, &asked[i], m.places[i])
			admitted = admitted && d.Allowed
		}
	}
	for i := range seats {
		if s := &seats[i]; !peek && (admitted || !answers[s.index].Allowed) { // a refusal is counted as any other
			answers[s.index] = s.Take(s.request, s.hash, s.at, s.n)
		}
	}
	for i := range seats {
		if i == 0 || seats[i].before(&seats[i-1]) != 0 {
			seats[i].Unlock(seats[i].shard)
		}
	}
	for i := range answers {
		answers[i].By = i
		if answers[i].tighter(&answers[by]) {
			by = i
		}
	}
	return by
}

// tighter reports whether d leaves a client less than other does, by the rule of the
// engine.
func (d *Decision) tighter(other *Decision) bool {
	switch {
	case d.Allowed != other.Allowed:
		return other.Allowed
	case d.Allowed && d.Remaining != other.Remaining:
		return d.Remaining < other.Remaining
	case d.Allowed:
		return d.ResetAfter > other.ResetAfter
	}
	return d.RetryAfter > other.RetryAfter
}

// mix decides by all limiters for one key.
func (g *Group) mix(r *Request, n int) Decision {
	m := mixed{
		seats: make([]seat, 0, len(g.members)), asked: make([]engine.Question, 0, len(g.members)),
		owners: make([]*Limiter, 0, len(g.members)), places: make([]int, 0, len(g.members)),
		answers: make([]Decision, 0, len(g.members)),
	}
	for i := range g.members {
		m.add(&g.members[i], r, n, r.Peek)
	}
	return m.answers[m.decide(r.Peek)]
}

// mixEach decides by limiters for a key each.
func (g *Group) mixEach(asks []Ask, peek bool) Decision {
	var m mixed
	for i := range asks {
		m.add(&g.members[asks[i].Limiter], &asks[i].Request, asks[i].Request.units(), peek)
	}
	by := m.decide(peek)
	for i := range asks {
		asks[i].Decision = m.answers[i]
		asks[i].Decision.By = asks[i].Limiter
	}
	return asks[by].Decision
}
