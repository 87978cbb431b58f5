package sketchlimit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Group is several limiters that a request must pass at once, such as 10 a second and
// 1000 an hour. It consumes from all of them or from none. It is made by [All] and has no
// state of its own: its limiters may be used by themselves and in other groups as well.
//
// A Group is safe for concurrent use. Decisions allocate nothing.
type Group struct {
	limiters []*Limiter
	order    []int // in which they are locked, the same in all groups
}

// mostTogether bounds the limiters of a group.
const mostTogether = 8

// made counts the limiters, whose numbers say in which order they are locked.
var made atomic.Uint64

// All returns the group of 1 … 8 different limiters. Those that grow are refused.
func All(limiters ...*Limiter) (*Group, error) {
	if len(limiters) < 1 || len(limiters) > mostTogether {
		return nil, fmt.Errorf("sketchlimit: All of %d limiters, must be 1 … %d", len(limiters), mostTogether)
	}
	g := &Group{limiters: slices.Clone(limiters)}
	for i, l := range limiters {
		switch {
		case l == nil:
			return nil, fmt.Errorf("sketchlimit: limiter %d of All is nil", i)
		case l.growth != nil: // reading its predecessor takes a lock that has no place in the order
			return nil, fmt.Errorf("sketchlimit: limiter %d of All has Overload %v, must be %v", i, Grow, Deny)
		case slices.Contains(limiters[:i], l):
			return nil, fmt.Errorf("sketchlimit: limiter %d of All is limiter %d, must be another one", i, slices.Index(limiters, l))
		}
		g.order = append(g.order, i)
	}
	slices.SortFunc(g.order, func(i, j int) int { return cmp.Compare(limiters[i].number, limiters[j].number) })
	return g, nil
}

// Allow consumes one unit of the key, now, from all limiters or from none, and tells
// whether it did.
func (g *Group) Allow(key string) bool {
	d, _ := g.Take(key, 1)
	return d.Allowed
}

// Take consumes n units of the key, now, from all limiters if all of them admit, or else
// from none. The decision is that of the by-th limiter: the one that refuses, for
// longest if there are several; or of those that admit, the one with least Remaining.
func (g *Group) Take(key string, n int) (d Decision, by int) {
	var asked questions
	for i, l := range g.limiters {
		word, lag := l.windows.now()
		asked[i] = question{l.windows.unpack(word), lag, l.hashString(key)}
	}
	by = g.decide(&d, &asked, n)
	return d, by
}

// TakeAt is [Group.Take] at a time of the caller's, see [Limiter.TakeAt].
func (g *Group) TakeAt(now time.Time, key string, n int) (d Decision, by int) {
	var asked questions
	for i, l := range g.limiters {
		word, lag := l.windows.at(now)
		asked[i] = question{l.windows.unpack(word), lag, l.hashString(key)}
	}
	by = g.decide(&d, &asked, n)
	return d, by
}

// TakeBytes is [Group.Take] for a key in a byte slice, which is not kept.
func (g *Group) TakeBytes(key []byte, n int) (d Decision, by int) {
	var asked questions
	for i, l := range g.limiters {
		word, lag := l.windows.now()
		asked[i] = question{l.windows.unpack(word), lag, l.hashBytes(key)}
	}
	by = g.decide(&d, &asked, n)
	return d, by
}

// TakeAddr is [Group.Take] for an IP address, see [Limiter.TakeAddr].
func (g *Group) TakeAddr(key netip.Addr, n int) (d Decision, by int) {
	var asked questions
	for i, l := range g.limiters {
		word, lag := l.windows.now()
		asked[i] = question{l.windows.unpack(word), lag, l.hashAddr(key)}
	}
	by = g.decide(&d, &asked, n)
	return d, by
}

// question is what one limiter is asked.
type question struct {
	at  Position
	lag time.Duration // by which durations from there are longer, see WindowManager.now
	h   uint64
}

type questions [mostTogether]question

func (g *Group) decide(d *Decision, asked *questions, n int) (by int) {
	v, by := g.take(asked, int64(n))
	g.limiters[by].decide(d, v, 0)
	return by
}

// take holds the locks of the key's shards in all limiters, so that asking all of them and
// counting in all of them are one step. It turns each shard before it asks, because a turn can
// change what the shard answers.
func (g *Group) take(asked *questions, n int64) (v verdict, by int) {
	var requests [mostTogether]request
	for i, l := range g.limiters {
		requests[i] = l.request(asked[i].h)
	}
	for _, i := range g.order {
		requests[i].s.mu.Lock()
	}
	for i, l := range g.limiters {
		r, q := requests[i], &asked[i]
		at := r.turn(q.at)
		q.at, q.lag = at, q.lag+r.span(q.at, at)
		if w := r.peek(at, n, l.limit).after(q.lag); i == 0 || w.tighter(v) {
			v, by = w, i
		}
	}
	if v.allowed {
		for i, l := range g.limiters {
			if w := requests[i].take(asked[i].at, n, l.limit, whole); i == by {
				v = w
			}
		}
	} else { // counted and remembered as any denial
		v = requests[by].take(asked[by].at, n, requests[by].limit, whole)
	}
	for _, i := range g.order {
		requests[i].s.mu.Unlock()
	}
	return v.after(asked[by].lag), by
}

// tighter tells whether v leaves less than u does.
func (v verdict) tighter(u verdict) bool {
	switch {
	case v.allowed != u.allowed:
		return u.allowed
	case v.allowed && v.remaining != u.remaining:
		return v.remaining < u.remaining
	}
	return v.retryAfter > u.retryAfter
}
