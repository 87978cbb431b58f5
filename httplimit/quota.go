package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/inflight"
)

// Quota is one of the limits of [NewAll]. It has a Limiter or InFlight, and not both.
type Quota struct {
	// Name is that of the policy: ASCII without control characters, not empty, another
	// one for each quota.
	Name string
	// Key says what is counted.
	Key Key
	// Limiter counts the units of requests; no two quotas may have the same. If several
	// quotas have one, each must be a member that [sketchlimit.NewGroup] takes.
	Limiter sketchlimit.Member
	// Limit returns a request's own limit, as the option [Limit]; nil: the Limiter's. The
	// Limiter must have a LowestLimit. The function must be safe for concurrent use.
	Limit func(*http.Request) int
	// InFlight counts the units of requests that are being handled. They are given back
	// when the handler returns or panics. A handler that goes on with a hijacked
	// connection must not return before it is done.
	InFlight *inflight.Limiter
}

// NewAll returns a middleware for 1 … 8 limits, such as ten a second, a thousand an
// hour and four at the same time. A request passes if all of them admit it, and is then
// counted by all; if one refuses, none counts it. Each quota is a policy, see
// [NewPolicies].
//
// A request that a Limiter refuses counts as in flight for about a microsecond, until
// the Limiter has decided.
func NewAll(quotas []Quota, options ...Option) (func(http.Handler) http.Handler, error) {
	if len(quotas) < 1 || len(quotas) > maxQuotas {
		return nil, fmt.Errorf("httplimit: %d quotas, must be 1 … %d", len(quotas), maxQuotas)
	}
	var limiters []sketchlimit.Member
	for i := range quotas {
		q := &quotas[i]
		if err := q.check(); err != nil {
			return nil, fmt.Errorf("httplimit: quota %d: %w", i, err)
		}
		for j := range quotas[:i] {
			switch o := &quotas[j]; {
			case o.Name == q.Name:
				return nil, fmt.Errorf("httplimit: quota %d: Name %q is that of quota %d, must be another one", i, q.Name, j)
			case q.Limiter != nil && o.Limiter == q.Limiter:
				return nil, fmt.Errorf("httplimit: quota %d: Limiter is that of quota %d, must be another one", i, j)
			}
		}
		if q.Limiter != nil {
			limiters = append(limiters, q.Limiter)
		}
	}
	a := &all{quotas: slices.Clone(quotas), finders: finders(quotas), limiters: len(limiters)}
	switch len(limiters) {
	case 0:
	case 1:
		a.ask = func(asks []sketchlimit.Ask) { asks[0].Decision = limiters[0].Do(asks[0].Request) }
	default:
		group, err := sketchlimit.NewGroup(limiters...)
		if err != nil {
			return nil, fmt.Errorf("httplimit: %w", err)
		}
		a.ask = func(asks []sketchlimit.Ask) { group.DoEach(asks) }
	}
	return NewPolicies(a, options...)
}

// check returns an error for the first field of a quota that is wrong.
func (q *Quota) check() error {
	if err := checkPolicy(q.Name); err != nil {
		return err
	}
	if err := check(q.Key); err != nil {
		return err
	}
	switch {
	case q.Limiter != nil && isNil(q.Limiter):
		return errors.New("Limiter nil, must be one")
	case q.Limiter == nil && q.InFlight == nil:
		return errors.New("Limiter and InFlight nil, one of them must be set")
	case q.Limiter != nil && q.InFlight != nil:
		return errors.New("Limiter and InFlight, only one of them must be set")
	case q.Limit != nil && q.InFlight != nil:
		return errors.New("Limit, goes with Limiter only: InFlight has one limit")
	case q.Limit != nil:
		return checkLowest(q.Limiter)
	}
	return nil
}

// all decides by several quotas.
type all struct {
	quotas   []Quota
	finders  []finder                // of the quotas' keys
	limiters int                     // of the quotas
	ask      func([]sketchlimit.Ask) // asks them, in their order: all count, or none
}

// finder finds the client of a quota whose Key is Clients. Quotas after the first that
// find clients in the same way use its address again.
type finder struct {
	clients *Clients // nil: another Key
	again   bool     // as the Clients before, whose address holds
}

func finders(quotas []Quota) []finder {
	list, last := make([]finder, len(quotas)), (*Clients)(nil)
	for i := range quotas {
		if c, ok := quotas[i].Key.(*Clients); ok {
			again := last != nil && last.Header == c.Header && slices.Equal(last.Proxies, c.Proxies)
			list[i], last = finder{c, again}, c
		}
	}
	return list
}

// Decide implements [Decider]. Units in flight can be given back and counted ones
// cannot, so it acquires those in flight first.
func (l *all) Decide(a *Answer, r *http.Request, cost int) {
	asks := l.describe(a, r, cost)
	admitted := a.acquire(l.quotas, cost)
	if len(asks) > 0 {
		for i := range asks {
			asks[i].Request.Peek = !admitted
		}
		l.ask(asks)
		for i := range asks {
			admitted = admitted && asks[i].Decision.Allowed
		}
	}
	if !admitted {
		release(a.holds)
		a.holds = a.holds[:0]
	}
	for i := range l.quotas {
		q, p := &l.quotas[i], &a.Policies[i]
		if q.InFlight != nil {
			p.Limit = q.InFlight.Limit()
			p.Remaining = p.Limit - q.InFlight.HeldBytes(p.Key)
			continue
		}
		p.Decision, p.own = asks[0].Decision, asks[0].Request.Limit
		p.setNext(q.Limiter, asks[0].Request)
		asks = asks[1:]
	}
}

// describe appends the policies without their decisions, and returns the requests to the
// limiters.
func (l *all) describe(a *Answer, r *http.Request, cost int) []sketchlimit.Ask {
	asks, ok := a.Memory.([]sketchlimit.Ask)
	if !ok {
		asks = make([]sketchlimit.Ask, l.limiters)
		a.Memory = asks
	}
	n := 0
	var client netip.Addr
	for i := range l.quotas {
		q, f, start := &l.quotas[i], l.finders[i], len(a.Keys)
		if f.clients != nil && !f.again {
			client = f.clients.Addr(r)
		}
		if f.clients != nil {
			a.Keys = f.clients.AppendAddr(a.Keys, client)
		} else {
			a.Keys = q.Key.AppendKey(a.Keys, r)
		}
		p := Policy{Name: q.Name, Key: a.Keys[start:len(a.Keys):len(a.Keys)], InFlight: q.InFlight != nil}
		if q.Limiter != nil {
			p.Window = q.Limiter.Window()
			asks[n] = sketchlimit.Ask{Limiter: n, Request: sketchlimit.Request{Bytes: p.Key, N: cost, Limit: own(q.Limit, r)}}
			n++
		}
		a.Policies = append(a.Policies, p)
	}
	return asks
}

// acquire acquires the units in flight, and reports whether all quotas admit them.
func (a *Answer) acquire(quotas []Quota, cost int) (admitted bool) {
	admitted = true
	for i := range quotas {
		in, p := quotas[i].InFlight, &a.Policies[i]
		if in == nil {
			continue
		}
		hold, ok := in.AcquireBytes(p.Key, cost)
		if ok {
			a.holds = append(a.holds, hold)
		}
		admitted = admitted && ok
		never := sketchlimit.Never
		p.Decision = sketchlimit.Decision{Allowed: ok, ResetAfter: never}
		if p.Next = never; !ok {
			p.RetryAfter = never
		}
	}
	return admitted
}
