package httplimit

import (
	"net/http"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/inflight"
)

// Policy is the answer of one limit to a request.
type Policy struct {
	// Name is the limit's name for clients and operators. Bytes other than printable
	// ASCII, which a structured field cannot hold, are sent as %XX.
	Name string
	// Window is the span that the limit is meant for; 0 if unknown.
	Window time.Duration
	// Key is the key counted. It is valid until the request is answered or passed on.
	Key []byte
	// Decision is the limit's answer.
	sketchlimit.Decision
	// InFlight reports whether the limit is on units at the same time. It is unknown
	// when they are given back, so RetryAfter of a refusal, ResetAfter and Next are
	// [sketchlimit.Never].
	InFlight bool
	// Next is the time until a request of cost 1 passes, if this one was admitted and
	// left Remaining 0; otherwise 0.
	Next time.Duration
	// Shadow reports whether the policy only counts: it refuses nobody, and clients are
	// not told of it.
	Shadow bool

	own int // limit of the request's own, see own
}

// belowLowest reports whether the request was refused because its own limit is below
// the limiter's LowestLimit, and not because it is 0, no access.
func (p *Policy) belowLowest() bool { return p.own > 0 && p.Limit == 0 && !p.Allowed }

// refuses reports whether the request must not pass.
func (p *Policy) refuses() bool { return !p.Allowed && !p.Shadow }

// more returns the time until there is more quota than now.
func (p *Policy) more() time.Duration {
	switch {
	case !p.Allowed:
		return p.RetryAfter
	case p.Remaining == 0:
		return p.Next
	}
	return p.ResetAfter
}

// tighter reports whether p leaves a client less than q does. Of two that refuse, the one
// that refuses longer is tighter.
func (p *Policy) tighter(q *Policy) bool {
	switch {
	case p.refuses() != q.refuses():
		return p.refuses()
	case !p.refuses() && p.InFlight != q.InFlight: // units of two kinds
		return q.InFlight
	case !p.refuses() && p.Remaining != q.Remaining:
		return p.Remaining < q.Remaining
	}
	return p.more() > q.more()
}

// Answer is the answers of all policies that concern a request.
type Answer struct {
	// Policies are the policies that concern the request, in an order that does not
	// depend on their decisions.
	Policies []Policy
	// Keys is memory for the Key of each policy.
	Keys []byte
	// Memory is for the Decider. It is nil at first, and later what the Decider left
	// there for some earlier request.
	Memory any

	holds []inflight.Hold // until the handler ends
	spent budget.Hold     // until the handler ends, too; set by every decision of a spender
}

// Decider decides on requests by any number of policies, see [NewPolicies]. It must be
// safe for concurrent use.
type Decider interface {
	// Decide consumes cost units, never 0, from every policy that concerns the request,
	// or from none if one of them refuses it. It appends to a.Policies and a.Keys,
	// which are empty, and does not keep a.
	Decide(a *Answer, r *http.Request, cost int)
}

// tightest returns the policy whose state is sent to clients; nil if there is none.
func (a *Answer) tightest() (tightest *Policy) {
	for i := range a.Policies {
		if p := &a.Policies[i]; !p.Shadow && (tightest == nil || p.tighter(tightest)) {
			tightest = p
		}
	}
	return tightest
}

// refusing reduces the policies to those that refuse, the longest wait first.
func (a *Answer) refusing() []Policy {
	refusing := a.Policies[:0]
	for i := range a.Policies {
		if !a.Policies[i].refuses() {
			continue
		}
		refusing = append(refusing, a.Policies[i])
		if first, last := &refusing[0], &refusing[len(refusing)-1]; last.tighter(first) {
			*first, *last = *last, *first
		}
	}
	return refusing
}

// single decides by one limiter.
type single struct {
	limiter Limiter
	key     Key
	name    string
	window  time.Duration
	limit   func(*http.Request) int // nil: the limiter's own
}

// Decide implements [Decider].
func (s *single) Decide(a *Answer, r *http.Request, cost int) {
	a.Keys = s.key.AppendKey(a.Keys, r)
	q := sketchlimit.Request{Bytes: a.Keys, N: cost, Limit: own(s.limit, r)}
	p := Policy{Name: s.name, Window: s.window, Key: a.Keys, Decision: s.limiter.Do(q), own: q.Limit}
	p.setNext(s.limiter, q)
	a.Policies = append(a.Policies, p)
}

// own returns Request.Limit for the limit that a function gives a request; 0, the
// limiter's, without a function.
func own(limit func(*http.Request) int, r *http.Request) int {
	if limit == nil {
		return 0
	}
	n := limit(r)
	if n <= 0 {
		return -1 // 0 would be the limiter's own
	}
	return n
}

// setNext sets Next by a second look at the limiter, because clients that heed the fields
// wait for exactly that long.
func (p *Policy) setNext(limiter Limiter, q sketchlimit.Request) {
	if p.Allowed && p.Remaining == 0 {
		q.N, q.Peek = 1, true
		p.Next = limiter.Do(q).RetryAfter
	}
}

// maxQuotas is the most quotas of a request: the holds of so many fit on the stack.
const maxQuotas = 8

// release gives back the units in flight.
func release(holds []inflight.Hold) {
	for _, h := range holds {
		h.Release()
	}
}
