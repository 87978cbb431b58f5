package rules

import (
	"cmp"
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/sketchlimit/sketchlimit/httplimit"
)

// HTTP returns what [httplimit.NewPolicies] puts in front of handlers: the rules of a
// domain, held against the descriptors that the function finds in a request. It must
// be safe for concurrent use.
//
// Policies are known by the Name of their rule, or else by its String. Name rules whose place
// in the file is nobody's business: clients are told. Unlimited rules are no policies.
// [KeyText] makes the Key of a policy readable.
func (r *Rules) HTTP(domain string, descriptors func(*http.Request) []Descriptor) httplimit.Decider {
	return &front{r, domain, descriptors}
}

type front struct {
	rules       *Rules
	domain      string
	descriptors func(*http.Request) []Descriptor
}

// pool has the counters of requests that are being decided.
var pool = sync.Pool{New: func() any { return new(counters) }}

// Decide implements [httplimit.Decider].
func (f *front) Decide(a *httplimit.Answer, r *http.Request, cost int) {
	descriptors := f.descriptors(r)
	c := pool.Get().(*counters)
	c.now, c.keys, c.ends = f.rules.clock(), a.Keys, c.ends[:0]
	c.statuses = slices.Grow(c.statuses[:0], len(descriptors))[:len(descriptors)]
	*c = c.match(f.rules.current.Load(), f.domain, descriptors)
	c.take(cost)
	c.append(a)
	clear(c.statuses) // rules of yesterday's files would be kept
	c.keys = nil
	pool.Put(c)
}

// append appends what the rules say.
func (c *counters) append(a *httplimit.Answer) {
	a.Keys = c.keys
	quotas := quotasRefuse(c.statuses)
	for i := range c.statuses {
		s := &c.statuses[i]
		rule := s.Rule
		if rule == nil || rule.Unlimited {
			continue
		}
		p := httplimit.Policy{
			Name: cmp.Or(rule.Name, rule.title), Window: rule.Window, Key: c.key(i), Decision: s.Decision,
			Shadow: rule.Shadow || rule.Quota && !s.Allowed && !quotas,
		}
		if p.Allowed && p.Remaining == 0 {
			p.Next = rule.decide(c.now, p.Key, 1, true).RetryAfter
		}
		a.Policies = append(a.Policies, p)
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
