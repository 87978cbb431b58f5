package rules

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

var pool = sync.Pool{New: func() any { return new(counters) }}

// counters is what one request is held against.
type counters struct {
	now       time.Time
	rules     *Rules
	options   *Options
	set       *set
	domain    string
	top       *node      // of the domain; nil if no file has it
	statuses  []Status   // of each Ask
	questions []question // the same
	keys      []byte     // one behind the other
	asked     []int      // which of them are asked in one step
	asks      []sketchlimit.Ask
	firsts    map[questioned]int // of counters, of questions behind the first; nil: there are none
	before    bool               // rules that charge are only looked at: what the request costs of them shows later
	replaces  bool               // one of the rules replaces others
	quotas    bool               // all rules in quota mode refuse, or there are none
}

// question is what is asked of a counter.
type question struct {
	n     int // units; 0 only looks
	limit int // of the request's own; 0: the rule's
	end   int // of its key in keys
	// blocked reports whether the request's own limit admits nothing.
	blocked bool
	// first is the first question that leads to the same counter, and which is asked
	// for the sum of their units.
	first  int
	sum    int
	before int // units of the sum that come before

	granted  bool // the sum was taken from a grant, and the counter is not asked
	decision sketchlimit.Decision
}

// questioned is a counter of a rule.
type questioned struct {
	rule *Rule
	key  string
}

// decide answers a request for which add adds what it asks. That is done again if the
// rules change meanwhile.
func (r *Rules) decide(domain string, add func(*counters)) Answer {
	c := pool.Get().(*counters)
	defer func() {
		c.clear()
		pool.Put(c)
	}()
	for {
		c.start(r, domain)
		add(c)
		if admitted, ok := c.take(); ok {
			return Answer{Admitted: admitted, Quota: c.options.Quota, Known: c.top != nil, Statuses: slices.Clone(c.statuses)}
		}
		c.clear()
	}
}

// start begins a request.
func (c *counters) start(r *Rules, domain string) {
	c.now, c.rules, c.options, c.set, c.domain = r.options.Clock(), r, &r.options, r.current.Load(), domain
	c.top = c.set.domains.find(domain)
}

// clear lets go of what belongs to the request, and to the files of the moment.
func (c *counters) clear() {
	clear(c.statuses)
	clear(c.asks)
	c.statuses, c.questions, c.keys, c.replaces = c.statuses[:0], c.questions[:0], c.keys[:0], false
	c.rules, c.options, c.set, c.top, c.domain, c.firsts, c.before = nil, nil, nil, nil, "", nil, false
}

// ask adds the rule and the key of an Ask.
func (c *counters) ask(a *Ask) {
	i := len(c.statuses)
	q := question{n: a.N, first: i, sum: a.N}
	rule, keys := c.find(a, &q)
	c.keys, q.end = keys, len(keys)
	charges := rule != nil && rule.Charge
	if charges && c.before {
		q.n, q.sum = 0, 0
	}
	charges = charges && q.n > 0 && rule.limiter != nil
	c.statuses, c.questions = append(c.statuses, Status{Rule: rule, Charged: charges}), append(c.questions, q)
	if rule == nil {
		return
	}
	c.replaces = c.replaces || len(rule.replaces) > 0
	if _, fixed := c.fixed(i); fixed {
		return
	}
	if !c.join(i) && rule.Keyed { // a single counter is where it was a moment ago
		rule.limiter.Prefetch(c.key(i))
	}
}

// find returns the rule that an Ask leads to, and appends its key.
func (c *counters) find(a *Ask, q *question) (*Rule, []byte) {
	if a.Override == nil || c.top == nil {
		return c.top.match(a.Descriptor, c.keys)
	}
	rule := c.set.overrides.of(a.Override.Window)
	if rule == nil || a.Override.Limit < 1 {
		q.blocked = true
		return rule, c.keys
	}
	q.limit = int(min(a.Override.Limit, math.MaxInt32))
	return rule, appendEntries(c.keys, c.domain, a.Descriptor)
}

// join adds the i-th question to the first one that leads to its counter, if there is
// one. One that only looks is asked by itself, and so are those of rules in shadow mode
// and of rules that charge.
func (c *counters) join(i int) bool {
	q, rule := &c.questions[i], c.statuses[i].Rule
	if q.n == 0 || rule.Shadow || rule.Charge || c.options.CountRefused {
		return false
	}
	k := c.firstOf(i)
	if k == i {
		return false
	}
	f := &c.questions[k]
	q.first, q.before, f.sum, f.limit = k, f.sum, sum(f.sum, q.n), min(f.limit, q.limit)
	return true
}

// firstOf returns the first question of the i-th one's counter that takes units. Up to
// 32 are compared one by one.
func (c *counters) firstOf(i int) int {
	const some = 32
	for k := range min(i, some) {
		f := &c.questions[k]
		if f.first == k && f.n != 0 && c.statuses[k].Rule == c.statuses[i].Rule && bytes.Equal(c.key(k), c.key(i)) {
			return k
		}
	}
	if i < some {
		return i
	}
	if c.firsts == nil {
		c.firsts = map[questioned]int{}
	}
	it := questioned{c.statuses[i].Rule, string(c.key(i))}
	k, found := c.firsts[it]
	if !found {
		k, c.firsts[it] = i, i
	}
	return k
}

// sum returns a + b, but -1 if one of them is below 0, and the largest int if it is
// more than that.
func sum(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + min(b, math.MaxInt-a)
}

// take consumes the units of all counters, or of none, and tells whether the request is
// admitted; not ok if the rules are others by now.
func (c *counters) take() (admitted, ok bool) {
	c.rules.deciding.RLock()
	defer c.rules.deciding.RUnlock()
	if c.rules.current.Load() != c.set {
		return false, false
	}
	if c.top == nil {
		c.rules.unknown.Add(1)
	}
	if c.replaces {
		c.replace()
	}
	for i := range c.statuses {
		if _, fixed := c.fixed(i); !fixed {
			c.carry(i)
		}
	}
	if c.rules.grants.some.Load() {
		c.grant()
	}
	if c.options.CountRefused {
		c.spend()
		return c.admits(), true
	}
	return c.takeTogether(), true
}

// takeTogether consumes the units of all counters, or of none, and tells whether the
// request is admitted.
func (c *counters) takeTogether() bool {
	c.look()
	c.enforce()
	admitted := c.admits()
	c.watch(admitted)
	if !admitted {
		c.deny(true)
		c.giveBack()
	}
	for i := range c.statuses {
		s, q := &c.statuses[i], &c.questions[i]
		if s.Charged {
			c.charge(i)
			continue
		}
		free := s.Remaining - q.before
		if admitted && s.Allowed {
			free += c.questions[q.first].sum
		}
		c.count(i, free)
	}
	return admitted
}

// spend answers each question by itself. A request that is refused uses up what is left.
func (c *counters) spend() {
	for i := range c.statuses {
		s, q := &c.statuses[i], &c.questions[i]
		d, fixed := c.fixed(i)
		switch {
		case fixed:
			s.Decision = d
			c.count(i, 0)
		case q.n == 0:
			s.Decision = c.decide(i, 1, true)
		case s.Charged:
			c.charge(i)
		default:
			s.Decision = c.decide(i, q.n, false)
			free := s.Remaining
			if s.Allowed {
				free += q.n
			}
			c.count(i, free)
			if !s.Allowed && q.n > 0 {
				c.drain(i)
			}
		}
	}
}

// drain takes what is left of a counter that has refused. Others may take from it
// meanwhile.
func (c *counters) drain(i int) {
	s := &c.statuses[i]
	for left := s.Remaining; left > 0; {
		d := c.decide(i, left, false)
		if d.Allowed || d.Remaining >= left {
			left = 0
		} else {
			left = d.Remaining
		}
	}
	if d := c.decide(i, c.questions[i].n, true); !d.Allowed { // or else another request has begun a window meanwhile
		s.Decision = d
	}
}

// look answers what takes no units, and what rules without counters say.
func (c *counters) look() {
	c.asked = c.asked[:0]
	for i := range c.statuses {
		s, q := &c.statuses[i], &c.questions[i]
		d, fixed := c.fixed(i)
		switch {
		case s.shadow(), s.Charged:
		case fixed:
			s.Decision = d
		case q.n == 0:
			s.Decision = c.decide(i, 1, true)
		default:
			s.Allowed = true // as far as is known
			if q.first == i {
				c.asked = append(c.asked, i)
			}
		}
	}
}

// enforce asks the rules that may refuse, in one step. Quotas that refuse while another
// does not are left out, and the others are asked again.
func (c *counters) enforce() {
	blocked := !c.admits()
	for len(c.asked) > 0 && !c.askAll(blocked) && !blocked && c.admits() {
		c.asked = slices.DeleteFunc(c.asked, func(i int) bool { return !c.statuses[i].Allowed })
	}
	if blocked {
		c.deny(false)
	}
}

// askAll asks all that are to be asked in one step, and tells whether all of them admit.
func (c *counters) askAll(peek bool) bool {
	c.asks = c.asks[:0]
	for _, i := range c.asked {
		r := c.request(i, c.questions[i].sum, peek)
		c.asks = append(c.asks, sketchlimit.Ask{Limiter: c.statuses[i].Rule.index, Request: r})
	}
	admitted := c.set.group.DoEach(c.asks).Allowed
	for k, i := range c.asked {
		c.statuses[i].Decision = c.clockTime(i, c.asks[k].Decision)
		c.statuses[i].By = 0
	}
	for i := range c.questions {
		if first := c.questions[i].first; first != i {
			c.statuses[i].Decision = c.statuses[first].Decision
		}
	}
	return admitted
}

// charge counts the units of the i-th question, whether they fit or not.
func (c *counters) charge(i int) {
	s, n := &c.statuses[i], c.questions[i].n
	over := s.Rule.limiter.DoCharge(c.request(i, n, false))
	s.Decision = c.decide(i, 1, true) // of what is left
	free := n - over
	if s.Allowed = over == 0; s.Allowed {
		s.RetryAfter = 0
		free += s.Remaining
	}
	c.count(i, free)
}

// watch asks the rules in shadow mode, each by itself: they refuse nobody.
func (c *counters) watch(admitted bool) {
	for i := range c.statuses {
		s, q := &c.statuses[i], &c.questions[i]
		d, fixed := c.fixed(i)
		switch {
		case !s.shadow() || s.Charged:
		case fixed:
			s.Decision = d
		case q.n == 0:
			s.Decision = c.decide(i, 1, true)
		default:
			s.Decision = c.decide(i, q.n, !admitted)
		}
	}
}

// replace drops the rules that others of the request replace by name, also those that are
// replaced themselves. An unlimited one has nothing to replace.
func (c *counters) replace() {
	var replacing []*Rule
	var names []string
	for i := range c.statuses {
		if rule := c.statuses[i].Rule; rule != nil && len(rule.replaces) > 0 && !slices.Contains(replacing, rule) {
			replacing, names = append(replacing, rule), append(names, rule.replaces...)
		}
	}
	for i := range c.statuses {
		if rule := c.statuses[i].Rule; rule != nil && !rule.Unlimited && slices.Contains(names, rule.Name) {
			c.statuses[i] = Status{}
		}
	}
}

// deny takes from counters that have been looked at and refuse anyway, for what is denied
// shows in Stats.
func (c *counters) deny(shadow bool) {
	for i := range c.statuses {
		s, q := &c.statuses[i], &c.questions[i]
		if _, fixed := c.fixed(i); !fixed && s.shadow() == shadow && !s.Charged && !s.Allowed && q.n != 0 && q.first == i {
			c.decide(i, q.sum, false)
		}
	}
}

// admits reports whether the request is admitted.
func (c *counters) admits() bool {
	refused, quotas := false, false
	c.quotas = true
	for i := range c.statuses {
		s := &c.statuses[i]
		switch refuses := !s.Allowed && !s.shadow() && !s.Charged; {
		case !c.options.Quota && (s.Rule == nil || !s.Rule.Quota):
			refused = refused || refuses
		default:
			quotas = true
			c.quotas = c.quotas && refuses
		}
	}
	return !refused && !(quotas && c.quotas)
}

// shadow reports whether the rule is in shadow mode.
func (s *Status) shadow() bool { return s.Rule != nil && s.Rule.Shadow }

// fixed returns what the i-th question is always answered, if it is: there is no rule,
// or none that counts, or the request's own limit admits nothing.
func (c *counters) fixed(i int) (d sketchlimit.Decision, ok bool) {
	rule := c.statuses[i].Rule
	switch {
	case c.questions[i].blocked:
		return sketchlimit.Decision{RetryAfter: sketchlimit.Never}, true
	case rule == nil || rule.Unlimited:
		return sketchlimit.Decision{Allowed: true}, true
	case rule.limiter == nil:
		return sketchlimit.Decision{RetryAfter: sketchlimit.Never}, true
	}
	if first := &c.questions[c.questions[i].first]; first.granted {
		return first.decision, true
	}
	return sketchlimit.Decision{}, false
}

// decide asks the i-th question by itself, for n units, which is not 0.
func (c *counters) decide(i, n int, peek bool) sketchlimit.Decision {
	return c.clockTime(i, c.statuses[i].Rule.limiter.Do(c.request(i, n, peek)))
}

// clockTime returns a decision of the i-th question's limiter as clocks have its spans.
func (c *counters) clockTime(i int, d sketchlimit.Decision) sketchlimit.Decision {
	if !c.statuses[i].Rule.Months {
		return d
	}
	return clockTime(d, c.now)
}

func (c *counters) request(i, n int, peek bool) sketchlimit.Request {
	return sketchlimit.Request{Time: c.statuses[i].Rule.at(c.now), Bytes: c.key(i), N: n, Limit: c.questions[i].limit, Peek: peek}
}

// key returns the i-th question's key.
func (c *counters) key(i int) []byte {
	start := 0
	if i > 0 {
		start = c.questions[i-1].end
	}
	return c.keys[start:c.questions[i].end:c.questions[i].end]
}
