package sketchlimit

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/engine"
)

// Group is several limiters that a request must pass at once, such as 10 a second and
// 1000 an hour. It consumes from all of them or from none. Each counts by the request's
// key; for a limit on all keys together add a member made by [Global]. Make a Group
// with [NewGroup]. It has no state: its limiters may be used on their own and in other
// groups as well.
//
// A decision is that of one limiter, Decision.By: of those that deny, the one with the
// longest RetryAfter; if none does, the one with the least Remaining.
//
// A Group is safe for concurrent use. Decisions that ask at most 8 limiters allocate
// nothing, unless one is of package exact.
type Group struct {
	members []member
	mixed   bool // some are of package exact
}

// Member decides on requests in this process: a [Limiter], a limiter of package exact,
// the result of [Global], or a Group. [NewGroup] takes all of these but Groups.
// Middleware takes any type with these methods. It must be safe for concurrent use.
type Member interface {
	// Do decides on a request, and does not keep its Bytes.
	Do(Request) Decision
	// Window returns the span that the limit is meant for.
	Window() time.Duration
}

// member is a limiter of a Group.
type member struct {
	*Limiter        // nil if it is of package exact
	locked   locked // nil if it is not
	plain    Member
	global   bool   // all requests count as one key
	key      uint64 // its hash, if global
}

// memberOf returns m as a member. Its fields are nil if m is none that a Group takes.
func memberOf(m Member) (of member) {
	switch l := m.(type) {
	case *Limiter:
		if l == nil {
			return member{}
		}
		return member{Limiter: l, plain: m}
	case *global:
		if l == nil || l.Member == nil {
			return member{}
		}
		if of = memberOf(l.Member); of.Limiter != nil {
			of.key = of.hasher.String("")
		}
		of.global = true
		return of
	}
	if v := reflect.ValueOf(m); m == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return member{}
	}
	return member{locked: lockedOf(m), plain: m}
}

// Global returns a Member that counts all requests together under one key, such as
// 50,000 a second of all clients. It goes into a [Group] beside limiters that count
// each key:
//
//	NewGroup(perClient, Global(total))
//
// Build l with Keys 1 and without LowestLimit. Request.Limit does not change its limit,
// except that a request with a limit below 0, no access, is denied. All requests take
// turns at one lock.
func Global(l Member) Member { return &global{l} }

type global struct{ Member }

// Do decides on r as a request of the empty key.
func (g *global) Do(r Request) Decision { return g.Member.Do(ofAll(r)) }

// LowestLimit returns 0: Request.Limit is not used.
func (g *global) LowestLimit() int { return 0 }

// ofAll returns the request as one of the empty key.
func ofAll(r Request) Request {
	r.Key, r.Bytes, r.Addr, r.Limit = "", nil, netip.Addr{}, min(r.Limit, 0)
	return r
}

// NewGroup returns a group of at least one limiter, all different. Each must be a
// [Limiter], a limiter of package exact, or the result of [Global]; other Members are
// an error, because a Group takes the locks of its limiters.
func NewGroup(limiters ...Member) (*Group, error) {
	if len(limiters) == 0 {
		return nil, errors.New("sketchlimit: Group of 0 limiters, must be at least 1")
	}
	g := &Group{members: make([]member, len(limiters))}
	for i, l := range limiters {
		m := memberOf(l)
		g.members[i], g.mixed = m, g.mixed || m.locked != nil
		same := func(other member) bool { return other.Limiter == m.Limiter && other.locked == m.locked }
		switch {
		case m.plain == nil:
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group is nil", i)
		case m.Limiter == nil && m.locked == nil:
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group is a %T, must be a Limiter, of package exact or Global", i, m.plain)
		case slices.ContainsFunc(g.members[:i], same):
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group is limiter %d, must be another one", i, slices.IndexFunc(g.members, same))
		}
	}
	return g, nil
}

// Allow consumes one unit of the key, now, from all limiters or from none, and reports
// whether it did.
func (g *Group) Allow(key string) bool { return g.Take(key, 1).Allowed }

// Take consumes n units of the key, now, from all limiters if all of them admit, or else
// from none.
func (g *Group) Take(key string, n int) Decision {
	return g.decide(&Request{Key: key}, n)
}

// TakeAt is [Group.Take] at a time of the caller's, see [Limiter.TakeAt].
func (g *Group) TakeAt(now time.Time, key string, n int) Decision {
	if now.IsZero() {
		now = now.Add(1) // as long ago, and not what a Request takes for now
	}
	return g.decide(&Request{Key: key, Time: now}, n)
}

// Do decides on r, as [Limiter.Do]. Each limiter holds the request against the lower of
// its own limit and Request.Limit.
func (g *Group) Do(r Request) Decision { return g.decide(&r, r.units()) }

// Ask is a request to one limiter of a group, for [Group.DoEach].
type Ask struct {
	Limiter  int // its index in NewGroup; any other number panics, as the index of a slice does
	Request  Request
	Decision Decision // the answer, see DoEach
}

// DoEach decides on a request for each of several limiters, such as those of a client's
// address and of its networks. It consumes all of their units or none, in one step, and
// returns the decision as [Group.Do] does. Limiters without an Ask are left out.
// Without any Ask it admits.
//
// It sets each Ask.Decision: Allowed reports whether this limiter admits, whatever the
// others do. If one denies, nothing is consumed, and Remaining is what is free without
// the request.
//
// Each request has its own cost, limit and time. A [Global] limiter does not use key
// and limit. If one request has Peek, nothing is consumed.
//
// One limiter may be asked for several keys. Where two of them share cells, about as
// rarely as an unseen key is denied wrongly, the second can be denied after the first
// was counted. For two requests of one key, ask once for the sum of the costs.
func (g *Group) DoEach(asks []Ask) (d Decision) {
	switch len(asks) {
	case 0:
		return Decision{Allowed: true}
	case 1: // floods of one key take no lock
		a := &asks[0]
		a.Decision = g.members[a.Limiter].do(a.Request)
		a.Decision.By = a.Limiter
		return a.Decision
	}
	peek := false
	for i := range asks {
		peek = peek || asks[i].Request.Peek
	}
	if g.mixed {
		return g.mixEach(asks, peek)
	}
	var few [engine.MostTogether]engine.Question
	asked := slices.Grow(few[:0], len(asks))[:len(asks)]
	for i := range asks {
		r := &asks[i].Request
		g.members[asks[i].Limiter].question(&asked[i], r, r.units(), peek)
	}
	by := answer(asked, peek)
	for i := range asks {
		a := &asks[i]
		g.members[a.Limiter].tellAll(&a.Decision, &asked[i], a.Limiter)
	}
	return asks[by].Decision
}

// Window returns the longest window of the limiters.
func (g *Group) Window() (longest time.Duration) {
	for _, m := range g.members {
		longest = max(longest, m.plain.Window())
	}
	return longest
}

// LowestLimit returns the lowest Request.Limit that all limiters admit: the highest
// Config.LowestLimit. It is 0 if none is set, or if a limiter without one has a higher
// Limit, below which it denies. [Global] limiters do not count.
func (g *Group) LowestLimit() int {
	lowest, unset := 0, 0
	for _, m := range g.members {
		switch {
		case m.global:
		case m.lowest() > 0:
			lowest = max(lowest, m.lowest())
		default:
			unset = max(unset, m.limit())
		}
	}
	if unset > lowest {
		return 0
	}
	return lowest
}

// decide asks all limiters for one key.
func (g *Group) decide(r *Request, n int) (d Decision) {
	if g.mixed {
		return g.mix(r, n)
	}
	var few [engine.MostTogether]engine.Question
	asked := slices.Grow(few[:0], len(g.members))[:len(g.members)]
	for i := range g.members {
		g.members[i].question(&asked[i], r, n, r.Peek)
	}
	by := answer(asked, r.Peek)
	g.members[by].tellAll(&d, &asked[by], by)
	return d
}

// do decides on a request of this member alone.
func (m *member) do(r Request) Decision {
	if m.global {
		r = ofAll(r)
	}
	if m.Limiter != nil {
		return m.Do(r)
	}
	return m.plain.Do(r)
}

// lowest returns the lowest Request.Limit that the member admits, 0 if it takes none.
func (m *member) lowest() int {
	l, ok := m.plain.(interface{ LowestLimit() int })
	if !ok {
		return 0
	}
	return l.LowestLimit()
}

// limit returns the member's limit.
func (m *member) limit() int {
	if m.Limiter != nil {
		return m.config.Limit
	}
	return m.plain.Do(Request{Peek: true}).Limit
}

// question sets q to a request for n units.
func (m *member) question(q *engine.Question, r *Request, n int, peek bool) {
	l := m.Limiter
	q.Engine, q.Number, q.N = l.engine.Load(), l.number, int64(n)
	if m.global {
		q.Hash, q.Limit = m.key, l.lower(min(r.Limit, 0))
	} else {
		q.Hash, q.Limit = l.hash(r), l.lower(r.Limit)
	}
	if peek {
		q.At, q.Lag = l.look(r)
		return
	}
	var word int64
	word, q.Lag = l.arrive(r, q.Limit)
	q.At = l.windows.line.Unpack(word)
}

// answer answers all questions in one step, and returns the index of the answer that
// counts.
func answer(asked []engine.Question, peek bool) (by int) {
	if peek {
		return engine.PeekAll(asked)
	}
	return engine.TakeAll(asked)
}

// tellAll sets d to the answer to a question of the by-th limiter.
func (l *Limiter) tellAll(d *Decision, q *engine.Question, by int) {
	l.tell(d, q.Verdict, 0)
	d.Limit, d.By = int(q.Limit), by
}
