package rules

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Status is the answer to one descriptor of a request.
type Status struct {
	// Rule is the rule that applies; nil if none does, if the rule of another
	// descriptor replaces it, or if one before has led to the same counter.
	Rule *Rule
	// Decision is what the rule's counter says, without regard to Shadow and Quota. If
	// no rule applies, or it is unlimited, only Allowed is set; if it blocks,
	// RetryAfter is [sketchlimit.Never].
	sketchlimit.Decision
}

// Take consumes n units of every rule that applies to one of the descriptors, and tells
// whether the request is admitted and what each descriptor's rule says. The request is
// refused if one of its rules refuses, except that those in shadow mode do not
// count, and those in quota mode only if all of them refuse. Descriptors that lead to
// the same counter consume of it once.
//
// With n = 0 it consumes nothing and tells what it would answer for 1.
//
// If the request is refused, no rule's units are consumed, whatever other requests do meanwhile: all rules are asked
// and taken from in one step. Only if two descriptors lead to two counters of one rule may the second be
// refused after the first was taken from, about as rarely as a new key is denied wrongly.
func (r *Rules) Take(domain string, n int, descriptors ...Descriptor) (admitted bool, statuses []Status) {
	return r.take(r.clock(), domain, n, descriptors)
}

func (r *Rules) take(now time.Time, domain string, n int, descriptors []Descriptor) (bool, []Status) {
	c := pool.Get().(*counters)
	defer func() {
		c.clear()
		pool.Put(c)
	}()
	current := r.current.Load()
	c.now, c.group = now, current.group
	top := current.domains.find(domain)
	for _, d := range descriptors {
		c.match(top, d)
	}
	return c.take(n), slices.Clone(c.statuses)
}

var pool = sync.Pool{New: func() any { return new(counters) }}

// counters is what one request is held against.
type counters struct {
	now      time.Time
	group    *sketchlimit.Group
	statuses []Status // of each descriptor
	keys     []byte   // one behind the other
	ends     []int    // of each in keys
	asked    []int    // which of the statuses are asked in one step
	asks     []sketchlimit.Ask
	replaces bool // one of the rules replaces others
	quotas   bool // all rules in quota mode refuse, or there are none
}

// clear lets go of what belongs to the request, and to the files of the moment.
func (c *counters) clear() {
	clear(c.statuses)
	clear(c.asks)
	c.statuses, c.keys, c.ends, c.replaces, c.group = c.statuses[:0], c.keys[:0], c.ends[:0], false, nil
}

// match adds the rule and the key of a descriptor. A counter that the request is held against
// already is not asked twice: looking at it would tell nothing of both.
func (c *counters) match(top *node, d Descriptor) {
	rule, keys := top.match(d, c.keys)
	c.keys = keys
	c.ends = append(c.ends, len(keys))
	c.statuses = append(c.statuses, Status{})
	if rule == nil {
		return
	}
	last := len(c.statuses) - 1
	for i := range last {
		if c.statuses[i].Rule == rule && bytes.Equal(c.key(i), c.key(last)) {
			return
		}
	}
	c.statuses[last].Rule = rule
	c.replaces = c.replaces || len(rule.replaces) > 0
	if rule.Keyed && rule.limiter != nil { // a single counter is where it was a moment ago
		rule.limiter.Prefetch(c.key(last))
	}
}

// take consumes n units of all counters, or of none, and tells whether the request is
// admitted. With n = 0 it only looks.
func (c *counters) take(n int) bool {
	if c.replaces {
		c.replace()
	}
	if n == 0 {
		c.enforce(1, true)
		c.watch(1, true)
		return c.admits()
	}
	c.enforce(n, false)
	admitted := c.admits()
	c.watch(n, !admitted)
	if !admitted {
		c.deny(n, true)
	}
	return admitted
}

// enforce asks the rules that may refuse, in one step. Quotas that refuse while another does not are left out, and the
// others are asked again.
func (c *counters) enforce(n int, peek bool) {
	c.asked = c.asked[:0]
	for i := range c.statuses {
		switch s := &c.statuses[i]; {
		case s.shadow():
		case s.Rule == nil || s.Rule.limiter == nil:
			s.Decision = s.Rule.fixed()
		default:
			s.Allowed = true // as far as is known
			c.asked = append(c.asked, i)
		}
	}
	blocked := !c.admits()
	look := peek || blocked
	for len(c.asked) > 0 && !c.ask(n, look) && !look && c.admits() {
		c.asked = slices.DeleteFunc(c.asked, func(i int) bool { return !c.statuses[i].Allowed })
	}
	if blocked && !peek {
		c.deny(n, false)
	}
}

// ask asks all that are to be asked in one step, and tells whether all of them admit.
func (c *counters) ask(n int, peek bool) bool {
	c.asks = c.asks[:0]
	for _, i := range c.asked {
		r := sketchlimit.Request{Time: c.now, Bytes: c.key(i), N: n, Peek: peek}
		c.asks = append(c.asks, sketchlimit.Ask{Limiter: c.statuses[i].Rule.index, Request: r})
	}
	admitted := c.group.DoEach(c.asks).Allowed
	for k, i := range c.asked {
		c.statuses[i].Decision = c.asks[k].Decision
		c.statuses[i].By = 0
	}
	return admitted
}

// watch asks the rules in shadow mode, each by itself: they refuse nobody.
func (c *counters) watch(n int, peek bool) {
	for i := range c.statuses {
		if s := &c.statuses[i]; s.shadow() {
			s.Decision = s.Rule.decide(c.now, c.key(i), n, peek)
		}
	}
}

// replace drops the rules that others of the request replace by name, also those that are
// replaced themselves.
func (c *counters) replace() {
	var names []string
	for i := range c.statuses {
		if rule := c.statuses[i].Rule; rule != nil && len(rule.replaces) > 0 {
			names = append(names, rule.replaces...)
		}
	}
	for i := range c.statuses {
		if rule := c.statuses[i].Rule; rule != nil && slices.Contains(names, rule.Name) {
			c.statuses[i].Rule = nil
		}
	}
}

// deny takes from counters that have been looked at and refuse anyway, for what is denied
// shows in Stats.
func (c *counters) deny(n int, shadow bool) {
	for i := range c.statuses {
		if s := &c.statuses[i]; s.shadow() == shadow && !s.Allowed {
			s.Rule.decide(c.now, c.key(i), n, false)
		}
	}
}

// admits tells whether the request is admitted.
func (c *counters) admits() bool {
	refused, quotas := false, false
	c.quotas = true
	for i := range c.statuses {
		s := &c.statuses[i]
		switch refuses := !s.Allowed && !s.shadow(); {
		case s.Rule == nil || !s.Rule.Quota:
			refused = refused || refuses
		default:
			quotas = true
			c.quotas = c.quotas && refuses
		}
	}
	return !refused && !(quotas && c.quotas)
}

// shadow tells whether the rule is in shadow mode.
func (s *Status) shadow() bool { return s.Rule != nil && s.Rule.Shadow }

// key returns the i-th descriptor's key.
func (c *counters) key(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.keys[start:c.ends[i]:c.ends[i]]
}
