package sketchlimit

import (
	"cmp"
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
// A Group is safe for concurrent use. Decisions allocate nothing.
type Group struct {
	limiters []*Limiter
	order    []int // in which they are locked, the same in all groups
}

// NewGroup returns the group of 1 … 8 different limiters. Those with MaxMemoryBytes are refused: give them Headroom
// instead. Those with Overload [Spare] are accepted.
func NewGroup(limiters ...*Limiter) (*Group, error) {
	if len(limiters) < 1 || len(limiters) > engine.MostTogether {
		return nil, fmt.Errorf("sketchlimit: Group of %d limiters, must be 1 … %d", len(limiters), engine.MostTogether)
	}
	g := &Group{limiters: slices.Clone(limiters)}
	for i, l := range limiters {
		switch {
		case l == nil:
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group is nil", i)
		case l.growth != nil: // reading its predecessor takes a lock that has no place in the order
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group has MaxMemoryBytes %d, must be 0", i, l.config.MaxMemoryBytes)
		case slices.Contains(limiters[:i], l):
			return nil, fmt.Errorf("sketchlimit: limiter %d of the Group is limiter %d, must be another one", i, slices.Index(limiters, l))
		}
		g.order = append(g.order, i)
	}
	slices.SortFunc(g.order, func(i, j int) int { return cmp.Compare(limiters[i].number, limiters[j].number) })
	return g, nil
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

// Window returns the longest window of the limiters.
func (g *Group) Window() (longest time.Duration) {
	for _, l := range g.limiters {
		longest = max(longest, l.Window())
	}
	return longest
}

// decide asks all limiters at once.
func (g *Group) decide(r *Request, n int) (d Decision) {
	var questions [engine.MostTogether]engine.Question
	asked := questions[:len(g.limiters)]
	for i, l := range g.limiters {
		q := &asked[i]
		q.Engine, q.Hash, q.Limit = l.engine.Load(), l.hash(r), l.lower(r.Limit)
		if r.Peek {
			q.At, q.Lag = l.look(r)
			continue
		}
		var word int64
		word, q.Lag = l.arrive(r, q.Limit)
		q.At = l.windows.line.Unpack(word)
	}
	var v engine.Verdict
	if r.Peek {
		v, d.By = engine.PeekAll(asked, int64(n))
	} else {
		v, d.By = engine.TakeAll(asked, g.order, int64(n))
	}
	g.limiters[d.By].tell(&d, v, 0)
	d.Limit = int(asked[d.By].Limit)
	return d
}
