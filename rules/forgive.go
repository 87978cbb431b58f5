package rules

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// A sketch cannot take back what it has counted of one key: others may count in the
// same places. So a key that is forgiven has a grant beside its counter, as many units
// as it had used, which are taken when the counter refuses.

// maxGrants is how many keys are forgiven at a time.
const maxGrants = 1000

// grants are those of all rules. The places of rules outlive their files' being read
// again.
type grants struct {
	some atomic.Bool // whether there are any: requests look at nothing else while there are none

	mu    sync.Mutex
	of    map[granted]*grant
	units uint64 // taken since construction
}

// granted is a counter of a rule.
type granted struct {
	place place
	key   string
}

// grant is what is left of what a key was given back.
type grant struct {
	left  int
	until time.Time
}

// Forgiven is what became of [Rules.Forgive].
type Forgiven struct {
	Rule  *Rule
	Units int       // that the key had used and may use once more; 0 if it had used none
	Until time.Time // when they end: the key has its whole quota anyway by then
}

// Forgive gives the key of a descriptor back what it has used of the rule that applies:
// until the end of its window, the rule admits as many units above what its counter
// does. What neither a fixed window nor the grant admits is refused, so there the key
// has its limit anew, exactly. In a sliding window and in a token bucket, used units
// come back meanwhile: together it may get up to twice the limit in one window.
//
// Up to 1000 keys are forgiven at a time. They stay so when the rules are read again,
// but not over a restart, and no other process is told, also where counts are shared.
// It returns an error if no rule applies, or one that counts nothing, or that charges.
func (r *Rules) Forgive(domain string, d Descriptor) (f Forgiven, err error) {
	r.decide(domain, func(c *counters) {
		f, err = Forgiven{}, nil
		ask := Ask{Descriptor: d}
		c.ask(&ask)
		f.Rule = c.statuses[0].Rule
		switch _, fixed := c.fixed(0); {
		case c.top == nil:
			err = fmt.Errorf("rules: no file has the domain '%s'", domain)
		case f.Rule == nil:
			err = errors.New("rules: no rule applies to the descriptor")
		case fixed:
			err = fmt.Errorf("rules: %s counts nothing", f.Rule)
		case f.Rule.Charge:
			err = fmt.Errorf("rules: %s charges, and what was charged cannot be given back", f.Rule)
		}
		if err == nil {
			err = r.grants.give(c, &f)
		}
	})
	return f, err
}

// give makes the grant of the first question's key.
func (g *grants) give(c *counters, f *Forgiven) error {
	c.carry(0)
	d := c.decide(0, 1, true)
	limit := f.Rule.Limit
	if f.Rule.Algorithm == sketchlimit.TokenBucket {
		limit = f.Rule.Burst
	}
	f.Units, f.Until = limit-d.Remaining, c.now.Add(d.ResetAfter)
	if f.Units == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, old := range g.of {
		if !c.now.Before(old.until) {
			delete(g.of, k)
		}
	}
	of := c.counterOf(0)
	if g.of[of] == nil && len(g.of) >= maxGrants {
		return fmt.Errorf("rules: %d keys are forgiven, must be at most %d: wait until their windows end", len(g.of), maxGrants)
	}
	if g.of == nil {
		g.of = map[granted]*grant{}
	}
	g.of[of] = &grant{f.Units, f.Until}
	g.some.Store(true)
	return nil
}

// has reports whether the i-th question's key has a grant, and lets go of it when its
// time is over.
func (g *grants) has(c *counters, i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := c.counterOf(i)
	grant := g.of[of]
	if grant == nil {
		return false
	}
	if !c.now.Before(grant.until) {
		delete(g.of, of)
		g.some.Store(len(g.of) > 0)
		return false
	}
	return true
}

// counterOf is the i-th question's.
func (c *counters) counterOf(i int) granted {
	return granted{c.statuses[i].Rule.counter.place, string(c.key(i))}
}

// take takes units of the grant of the i-th question's key, and returns what is left;
// not ok if it has not so many.
func (g *grants) take(c *counters, i, n int) (left int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	grant := g.of[c.counterOf(i)]
	if grant == nil || !c.now.Before(grant.until) || n > grant.left {
		return 0, false
	}
	grant.left -= n
	g.units += uint64(n)
	return grant.left, true
}

// back gives back what the i-th question has taken, because the request is refused.
func (g *grants) back(c *counters, i, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if grant := g.of[c.counterOf(i)]; grant != nil {
		grant.left += n
		g.units -= uint64(n)
	}
}

// Grants returns how many keys are forgiven, and the units that such keys have taken
// beyond their counters since construction.
func (r *Rules) Grants() (keys int, units uint64) {
	r.grants.mu.Lock()
	defer r.grants.mu.Unlock()
	now := r.options.Clock()
	for _, grant := range r.grants.of {
		if now.Before(grant.until) {
			keys++
		}
	}
	return keys, r.grants.units
}

// grant lets grants admit what counters refuse, before any counter is asked.
func (c *counters) grant() {
	for i := range c.statuses {
		q := &c.questions[i]
		if _, fixed := c.fixed(i); fixed || q.first != i || q.sum < 1 || c.statuses[i].Rule.Charge || c.statuses[i].Rule.Override {
			continue
		}
		if !c.rules.grants.has(c, i) {
			continue
		}
		d := c.decide(i, q.sum, true)
		if d.Allowed {
			continue
		}
		if left, ok := c.rules.grants.take(c, i, q.sum); ok {
			q.granted, q.decision = true, sketchlimit.Decision{Allowed: true, Limit: d.Limit, Remaining: left, ResetAfter: d.ResetAfter}
		}
	}
}

// giveBack undoes grant for a request that is refused.
func (c *counters) giveBack() {
	for i := range c.questions {
		if q := &c.questions[i]; q.granted {
			c.rules.grants.back(c, i, q.sum)
		}
	}
}
