package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/inflight"
)

// middleware is the settings of a middleware, constant once New returns.
type middleware struct {
	decider Decider
	cost    func(*http.Request) int // nil: 1
	spender *spender                // of NewBudget
	skip    []func(*http.Request) bool
	needs   Key    // of RequireKey; nil: none
	asks    string // for it
	shadow  bool
	fields  Fields
	refuse  func(http.ResponseWriter, *http.Request, []Policy)
	refused []func(*http.Request, Policy)
	pool    sync.Pool // of *scratch
}

// Option changes what a middleware does. Of two that contradict each other the later one
// holds, except that a request passes if any [Skip] or [Exempt] lets it, and that every
// [OnRefusal] is called.
type Option func(*middleware) error

// New returns a middleware that passes a request on if the limiter admits its key, and
// answers it with 429 otherwise. Most services want New with [Clients]. The middleware
// may wrap any number of handlers, which then share the limiter's counts, and is safe
// for concurrent use.
//
// With a [sketchlimit.Group], the header fields describe one limit, that of
// Decision.By, without its window; [NewAll] describes all.
//
// Errors name the argument or option, its value and what is allowed.
func New(limiter Limiter, key Key, options ...Option) (func(http.Handler) http.Handler, error) {
	if err := CheckLimiter(limiter); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	if err := check(key); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	s := &single{limiter: limiter, key: key, name: "default"}
	if _, several := limiter.(*sketchlimit.Group); !several { // whose windows are several, too
		s.window = limiter.Window()
	}
	return NewPolicies(s, options...)
}

// byAddressKeys is the number of clients in a window that ByAddress is made for.
const byAddressKeys = 100_000

// ByAddress returns a middleware that admits limit requests of each client in a sliding
// window. It makes its own limiter, of up to 5 MiB, for up to 100,000 clients in a
// window, and takes addresses from the connection. Behind a proxy, or for more clients,
// use [New] with [Clients].
func ByAddress(limit int, window time.Duration, options ...Option) (func(http.Handler) http.Handler, error) {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: window, Keys: byAddressKeys})
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	return New(limiter, &Clients{}, options...)
}

// NewPolicies returns a middleware for a Decider, such as the rules of package rules. A
// request that one of its policies refuses is answered with 429. RateLimit-Policy lists
// all policies, and the other fields have the state of the one closest to exhaustion. A
// request that no policy concerns passes without fields.
func NewPolicies(decider Decider, options ...Option) (func(http.Handler) http.Handler, error) {
	if isNil(decider) {
		return nil, errors.New("httplimit: decider nil, must be one")
	}
	m := &middleware{decider: decider, fields: Standard, refuse: refuse}
	m.pool.New = func() any { return new(scratch) }
	if p, ok := decider.(*spender); ok {
		m.spender, m.cost = p, p.AtMost
	}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("httplimit: option %d nil, must be one", i)
		}
		if err := option(m); err != nil {
			return nil, fmt.Errorf("httplimit: %w", err)
		}
	}
	if p := m.spender; p != nil && p.AtMost == nil && p.statuses == nil {
		return nil, fmt.Errorf("httplimit: %w", given("AtMost", false))
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}, nil
}

// Name sets the name of the policy in RateLimit-Policy, RateLimit and the problem body;
// without it the name is "default". It must be ASCII without control characters, and not
// empty. With [New] only.
func Name(name string) Option {
	return func(m *middleware) error {
		s, ok := m.decider.(*single)
		if !ok {
			return fmt.Errorf("Name %q, goes with New only: other policies have names", name)
		}
		s.name = name
		return checkPolicy(name)
	}
}

// Cost sets the function that returns the units of a request; without it each costs 1.
// A request of cost 0 passes uncounted. A cost below 0 or above the limit is refused
// without Retry-After, because no wait makes it admissible. Not with [NewBudget]. The
// function must be safe for concurrent use.
func Cost(cost func(*http.Request) int) Option {
	return func(m *middleware) error {
		if m.spender != nil {
			return errors.New("Cost, goes not with NewBudget: use AtMost")
		}
		m.cost = cost
		return given("Cost", cost != nil)
	}
}

// Limit sets the function that returns a request's own limit, such as that of the
// client's tariff, see [sketchlimit.Request]. A limit above the limiter's counts as the
// limiter's. 0 or less is no access.
//
// Build the limiter with LowestLimit, the lowest limit above 0 that the function
// returns, because it denies every request with a lower one. A limiter whose method
// LowestLimit returns 0 is an error. [LogRefusals] logs a limit that is too low.
//
// With [New] only. The function must be safe for concurrent use.
func Limit(limit func(*http.Request) int) Option {
	return func(m *middleware) error {
		s, ok := m.decider.(*single)
		if !ok {
			return errors.New("Limit, goes with New only: other policies have limits")
		}
		if s.limit = limit; limit == nil {
			return given("Limit", false)
		}
		return checkLowest(s.limiter)
	}
}

// Skip passes on requests for which the function returns true, such as health checks,
// uncounted and without fields. The function must be safe for concurrent use.
func Skip(skip func(*http.Request) bool) Option {
	return func(m *middleware) error {
		m.skip = append(m.skip, skip)
		return given("Skip", skip != nil)
	}
}

// Exempt passes on requests of clients in one of the networks, uncounted and without
// fields. It compares the address as it is written, so a client behind a translator is
// exempt by its IPv6 address only. Choose Clients that other clients cannot forge.
func Exempt(clients *Clients, networks ...netip.Prefix) Option {
	return func(m *middleware) error {
		if err := check(clients); err != nil {
			return fmt.Errorf("Exempt: %w", err)
		}
		if err := checkNetworks(networks); err != nil {
			return fmt.Errorf("Exempt: networks%w", err)
		}
		m.skip = append(m.skip, func(r *http.Request) bool {
			addr, _ := clients.client(r) // as it is written: IPv4 inside of IPv6 is not trusted
			return contains(networks, addr)
		})
		return nil
	}
}

// RequireKey answers a request for which the key appends nothing, such as one without
// an API key, with 401 and the challenge, such as "Bearer", in WWW-Authenticate. It is
// not counted. Without this option, all such requests share the quota of the empty key.
// Requests that [Skip] or [Exempt] pass on need no key, and with [Shadow] none does.
func RequireKey(key Key, challenge string) Option {
	return func(m *middleware) error {
		m.needs, m.asks = key, challenge
		if err := check(key); err != nil {
			return fmt.Errorf("RequireKey: %w", err)
		}
		if checkPolicy(challenge) != nil {
			return fmt.Errorf("RequireKey: challenge %q, must be ASCII without control characters, such as \"Bearer\"", challenge)
		}
		return nil
	}
}

// Shadow makes the middleware decide and count, but refuse nobody: use it to see what a
// limit would do. [OnRefusal] is called, and the limiter's Stats count. No fields are
// sent, because clients that heed them would limit themselves.
func Shadow() Option {
	return func(m *middleware) error {
		m.shadow = true
		return nil
	}
}

// Headers sets the response fields; without it they are [Standard]; 0 is none.
func Headers(fields Fields) Option {
	return func(m *middleware) error {
		m.fields = fields
		if fields >= 1<<len(table) {
			return fmt.Errorf("Headers %#b, must be a union of Fields", fields)
		}
		return nil
	}
}

// Refusal sets the function that answers refused requests in place of the 429. The
// fields are already set. refusing has the policies that refuse, at least one, the
// longest wait first; they are valid during the call only. The function must be safe
// for concurrent use.
func Refusal(refuse func(w http.ResponseWriter, r *http.Request, refusing []Policy)) Option {
	return func(m *middleware) error {
		m.refuse = refuse
		return given("Refusal", refuse != nil)
	}
}

// OnRefusal adds a function that is called for every policy that does not admit a
// request, before the request is answered, or passed on in shadow mode. Use it to log,
// or to count keys. The policy's Key is valid during the call only. The function must
// be safe for concurrent use, and quick: in a flood it runs at the rate of the flood.
func OnRefusal(f func(r *http.Request, p Policy)) Option {
	return func(m *middleware) error {
		m.refused = append(m.refused, f)
		return given("OnRefusal", f != nil)
	}
}

// scratch is the memory for a request's keys and fields.
type scratch struct {
	Answer
	texts
}

// maxScratch is the most bytes of keys whose memory is kept for the next request.
const maxScratch = 4 << 10

func (m *middleware) free(s *scratch) {
	if cap(s.Keys) <= maxScratch {
		s.Policies, s.Keys = s.Policies[:0], s.Keys[:0]
		m.pool.Put(s)
	}
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	cost := 1
	switch {
	case m.skips(r):
		cost = 0
	case m.cost != nil:
		cost = m.cost(r)
	}
	if cost == 0 {
		next.ServeHTTP(w, r)
		return
	}
	s := m.pool.Get().(*scratch)
	if m.needs != nil && !m.shadow {
		s.Keys = m.needs.AppendKey(s.Keys, r)
		if len(s.Keys) == 0 {
			m.free(s)
			w.Header().Set("WWW-Authenticate", m.asks)
			http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
			return
		}
		s.Keys = s.Keys[:0]
	}
	m.decider.Decide(&s.Answer, r, cost)
	if len(s.holds) > 0 {
		var few [maxQuotas]inflight.Hold // for s is another request's before the handler ends
		defer release(append(few[:0], s.holds...))
		s.holds = s.holds[:0]
	}
	admitted := true
	for i := range s.Policies {
		p := &s.Policies[i]
		p.Shadow = p.Shadow || m.shadow
		admitted = admitted && p.Allowed
	}
	s.write(w.Header(), m.fields, &s.Answer)
	if !admitted {
		m.report(r, s.Policies)
		if refusing := s.refusing(); len(refusing) > 0 {
			m.refuse(w, r, refusing)
			m.free(s)
			return
		}
	}
	hold := s.spent
	m.free(s)
	if hold != (budget.Hold{}) {
		m.spender.serve(w, r, next, hold)
		return
	}
	next.ServeHTTP(w, r)
}

// report calls the OnRefusal functions for each policy that does not admit the request.
func (m *middleware) report(r *http.Request, policies []Policy) {
	for i := range policies {
		if policies[i].Allowed {
			continue
		}
		for _, f := range m.refused {
			f(r, policies[i])
		}
	}
}

func (m *middleware) skips(r *http.Request) bool {
	for _, skip := range m.skip {
		if skip(r) {
			return true
		}
	}
	return false
}
