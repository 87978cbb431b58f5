package sketchlimit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/engine"
)

// Group is several limiters that a request must pass at once, such as 10 a second and
// 1000 an hour. It consumes from all of them or from none, and answers as a Limiter does. It is made by [NewGroup] and
// has no state of its own: its limiters may be used by themselves and in other groups as well.
//
// A decision is that of one limiter, Decision.By: the one that refuses, for longest if there are several; or, of those
// that admit, the one with least Remaining.
//
// A Group is safe for concurrent use. Decisions that ask at most 8 limiters allocate nothing.
type Group struct{ limiters []*Limiter }

// NewGroup returns the group of different limiters, at least one. Those with MaxMemoryBytes are refused: give them Headroom
// instead. Those with Overload [Spare] are accepted.
func NewGroup(limiters ...*Limiter) (*Group, error) {
	if len(limiters) == 0 {
		return nil, errors.New("sketchlimit: Group of 0 limiters, must be at least 1")
	}
	for i, l := range limiters {
		switch {
		case l == nil:
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group is nil", i)
		case l.growth != nil: // reading its predecessor takes a lock that has no place in the order
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group has MaxMemoryBytes %d, must be 0", i, l.config.MaxMemoryBytes)
		case slices.Contains(limiters[:i], l):
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group is limiter %d, must be another one", i, slices.Index(limiters, l))
		}
	}
	return &Group{limiters: slices.Clone(limiters)}, nil
}

// Allow consumes one unit of the key, now, from all limiters or from none, and tells
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

// Do is [Group.Take] for requests that it cannot say, see [Request]. Each limiter holds the request against the lower of
// its own limit and the request's.
func (g *Group) Do(r Request) Decision { return g.decide(&r, r.units()) }

// Ask is one of the questions of [Group.DoEach].
type Ask struct {
	Limiter  int // its index in NewGroup; any other number panics, as the index of a slice does
	Request  Request
	Decision Decision // the answer, see DoEach
}

// DoEach asks limiters of the group for a key each, such as those of a client's address and of its networks. It
// consumes all requests' units or none, in one step, and returns the decision that [Group.Do] would. Limiters that no
// Ask names are not asked. Without any Ask it admits.
//
// It sets each Ask's Decision: Allowed tells whether this limiter admits, whatever the others do. If one of them refuses,
// nothing is consumed, and Remaining is what is free without the request.
//
// Each request has its own cost, limit and time. If one of them has Peek, none is consumed.
//
// One limiter may be asked for several keys. Two of them may share cells of its sketch, about as rarely as a new key is
// denied wrongly; the second can then be refused after the first was counted. So it can if both are the same key: ask
// once, for the sum of the costs.
func (g *Group) DoEach(asks []Ask) (d Decision) {
	switch len(asks) {
	case 0:
		return Decision{Allowed: true}
	case 1: // floods of one key take no lock
		a := &asks[0]
		a.Decision = g.limiters[a.Limiter].Do(a.Request)
		a.Decision.By = a.Limiter
		return a.Decision
	}
	var few [engine.MostTogether]engine.Question
	asked, peek := slices.Grow(few[:0], len(asks))[:len(asks)], false
	for i := range asks {
		peek = peek || asks[i].Request.Peek
	}
	for i := range asks {
		r := &asks[i].Request
		g.limiters[asks[i].Limiter].question(&asked[i], r, r.units(), peek)
	}
	by := answer(asked, peek)
	for i := range asks {
		a := &asks[i]
		g.limiters[a.Limiter].tellAll(&a.Decision, &asked[i], a.Limiter)
	}
	return asks[by].Decision
}

// Window returns the longest window of the limiters.
func (g *Group) Window() (longest time.Duration) {
	for _, l := range g.limiters {
		longest = max(longest, l.Window())
	}
	return longest
}

// LowestLimit returns the lowest limit of a request's own that passes all limiters: the highest Config.LowestLimit. It
// is 0 if none is set, and if a limiter without one has a higher Limit, below which it denies.
func (g *Group) LowestLimit() int {
	lowest, unset := 0, 0
	for _, l := range g.limiters {
		if l.config.LowestLimit > 0 {
			lowest = max(lowest, l.config.LowestLimit)
		} else {
			unset = max(unset, l.config.Limit)
		}
	}
	if unset > lowest {
		return 0
	}
	return lowest
}

// decide asks all limiters for one key.
func (g *Group) decide(r *Request, n int) (d Decision) {
	var few [engine.MostTogether]engine.Question
	asked := slices.Grow(few[:0], len(g.limiters))[:len(g.limiters)]
	for i, l := range g.limiters {
		l.question(&asked[i], r, n, r.Peek)
	}
	by := answer(asked, r.Peek)
	g.limiters[by].tellAll(&d, &asked[by], by)
	return d
}

// question makes a question of a request for n units.
func (l *Limiter) question(q *engine.Question, r *Request, n int, peek bool) {
	q.Engine, q.Number, q.Hash, q.Limit, q.N = l.engine.Load(), l.number, l.hash(r), l.lower(r.Limit), int64(n)
	if peek {
		q.At, q.Lag = l.look(r)
		return
	}
	var word int64
	word, q.Lag = l.arrive(r, q.Limit)
	q.At = l.windows.line.Unpack(word)
}

// answer has all questions answered at once, and returns which answer counts.
func answer(asked []engine.Question, peek bool) (by int) {
	if peek {
		return engine.PeekAll(asked)
	}
	return engine.TakeAll(asked)
}

// tellAll writes the answer to a question of the by-th limiter.
func (l *Limiter) tellAll(d *Decision, q *engine.Question, by int) {
	l.tell(d, q.Verdict, 0)
	d.Limit, d.By = int(q.Limit), by
}
