package rules

import (
	"encoding/binary"
	"errors"
	"net/http"
	"strings"

	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Descriptors takes the descriptors of a request.
type Descriptors struct {
	counters
	cost int
}

// Add adds the descriptor of these entries, from the outermost level to the innermost.
func (d *Descriptors) Add(entries ...Entry) { d.ask(&Ask{Descriptor: entries, N: d.cost}) }

// HTTP returns what [httplimit.NewPolicies] puts in front of handlers: the rules of a
// domain, held against the descriptors that the function adds for a request. It must be
// safe for concurrent use, and not keep what it adds to.
//
// What requests cost of a rule that charges shows only later: here it only looks, and
// refuses them once nothing is left. Charge it by [Rules.Do].
//
// It is an error if no file has the domain; from then on it is one if files without it
// are to be read.
//
// Policies are known by the Name of their rule, or else by its String. Name rules whose
// place in the file is nobody's business: clients are told. Unlimited rules are no
// policies. [KeyText] makes the Key of a policy readable.
func (r *Rules) HTTP(domain string, describe func(d *Descriptors, r *http.Request)) (httplimit.Decider, error) {
	if describe == nil {
		return nil, errors.New("rules: HTTP without a function that describes requests")
	}
	if err := r.use(domain); err != nil {
		return nil, err
	}
	return &front{r, domain, describe}, nil
}

type front struct {
	rules    *Rules
	domain   string
	describe func(d *Descriptors, r *http.Request)
}

// Decide implements [httplimit.Decider].
func (f *front) Decide(a *httplimit.Answer, r *http.Request, cost int) {
	d, ok := a.Memory.(*Descriptors)
	if !ok {
		d = new(Descriptors)
		a.Memory = d
	}
	d.cost = cost
	for ok := false; !ok; { // the rules may change meanwhile
		d.clear()
		d.start(f.rules, f.domain)
		d.before = true
		d.keys = a.Keys
		f.describe(d, r)
		_, ok = d.take()
	}
	d.append(a)
	d.keys = nil
	d.clear()
}

// append appends what the rules say, but for those in shadow mode that admit the request:
// nobody is told of them.
func (c *counters) append(a *httplimit.Answer) {
	a.Keys = c.keys
	for i := range c.statuses {
		s := &c.statuses[i]
		rule := s.Rule
		if rule == nil || rule.Unlimited || rule.Shadow && s.Allowed {
			continue
		}
		a.Policies = append(a.Policies, httplimit.Policy{})
		p := &a.Policies[len(a.Policies)-1] // word by word, see sketchlimit's decide
		p.Name, p.Window, p.Key = rule.Name, rule.Window, c.key(i)
		if p.Name == "" {
			p.Name = rule.title
		}
		p.Allowed, p.Limit, p.Remaining, p.RetryAfter, p.ResetAfter = s.Allowed, s.Limit, s.Remaining, s.RetryAfter, s.ResetAfter
		p.Shadow = rule.Shadow || (rule.Quota || c.options.Quota) && !s.Allowed && !c.quotas
		if p.Allowed && p.Remaining == 0 {
			p.Next = c.decide(i, 1, true).RetryAfter
		}
	}
}

// KeyText returns the values that a rule leaves open, as the Key of an [httplimit.Policy]
// holds them, with spaces between them.
func KeyText(key []byte) string {
	var b strings.Builder
	for len(key) > 0 {
		n, width := binary.Uvarint(key)
		if width <= 0 || n > uint64(len(key)-width) {
			return b.String() + string(key) // no key of a rule, or not all of it
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.Write(key[width:][:n])
		key = key[width+int(n):]
	}
	return b.String()
}
