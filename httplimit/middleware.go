package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Limiter decides. A [sketchlimit.Limiter] is one. It must be safe for concurrent use.
type Limiter interface {
	// TakeBytes consumes n units of the key if they are admitted, and does not
	// keep the key.
	TakeBytes(key []byte, n int) sketchlimit.Decision
	// Peek tells what taking one unit would answer.
	Peek(key string) sketchlimit.Decision
	// Window returns the span that the limit is meant for.
	Window() time.Duration
}

// middleware is the settings of one, fixed once New returns.
type middleware struct {
	limiter Limiter
	key     Key
	window  time.Duration

	name    string
	cost    func(*http.Request) int // nil: 1
	skip    []func(*http.Request) bool
	shadow  bool
	fields  Fields
	refuse  func(http.ResponseWriter, *http.Request, sketchlimit.Decision)
	refused func(*http.Request, []byte, sketchlimit.Decision) // nil: nobody asks

	quoted string // the name as a structured field string
}

// Option changes what a middleware does. Of two that contradict each other the later
// one holds, except that whatever one of [Skip] and [Exempt] lets pass, passes.
type Option func(*middleware) error

// New returns a middleware that admits a request if the limiter admits its key, and
// answers it with 429 otherwise. The middleware may wrap any number of handlers, which
// then share the limiter's counts, and is safe for concurrent use.
//
// Its errors name the argument or option, what was given and what is allowed.
func New(limiter Limiter, key Key, options ...Option) (func(http.Handler) http.Handler, error) {
	if limiter == nil {
		return nil, errors.New("httplimit: limiter nil, must be one")
	}
	if err := check(key); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	m := &middleware{limiter: limiter, key: key, window: limiter.Window(), fields: Standard}
	for _, option := range append([]Option{Name("default")}, options...) {
		if err := option(m); err != nil {
			return nil, fmt.Errorf("httplimit: %w", err)
		}
	}
	if m.refuse == nil {
		m.refuse = newRefusal(m.name)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}, nil
}

// Name names the policy, "default" otherwise, in RateLimit-Policy, RateLimit and the
// problem body. It must be ASCII without control characters, and not empty.
func Name(name string) Option {
	return func(m *middleware) (err error) {
		m.name = name
		m.quoted, err = quote(name)
		return err
	}
}

// Cost sets how many units a request takes, 1 otherwise. 0 passes and is not counted. A
// cost that no wait makes admissible, below 0 or above the limit, is refused without
// Retry-After. The function must be safe for concurrent use.
func Cost(cost func(*http.Request) int) Option {
	return func(m *middleware) error {
		m.cost = cost
		return given("Cost", cost != nil)
	}
}

// Skip lets requests pass, uncounted and without fields, for which the function returns
// true: health checks, say. The function must be safe for concurrent use.
func Skip(skip func(*http.Request) bool) Option {
	return func(m *middleware) error {
		m.skip = append(m.skip, skip)
		return given("Skip", skip != nil)
	}
}

// Exempt lets requests pass, uncounted and without fields, of clients in one of the
// networks. Whoever may be exempt should be hard to pretend to be: see [Clients].
func Exempt(clients *Clients, networks ...netip.Prefix) Option {
	return func(m *middleware) error {
		if err := check(clients); err != nil {
			return fmt.Errorf("Exempt: %w", err)
		}
		if err := checkNetworks(networks); err != nil {
			return fmt.Errorf("Exempt: networks%w", err)
		}
		m.skip = append(m.skip, func(r *http.Request) bool { return contains(networks, clients.Addr(r)) })
		return nil
	}
}

// Shadow decides and counts but refuses nobody, to see what a limit would do before it
// does it: [OnRefusal] is called, and the limiter's Stats count. Clients are told
// nothing, for those that heed the fields would be limited by them.
func Shadow() Option {
	return func(m *middleware) error {
		m.shadow = true
		return nil
	}
}

// Headers chooses the response fields, [Standard] otherwise; 0 is none.
func Headers(fields Fields) Option {
	return func(m *middleware) error {
		m.fields = fields
		if fields >= 1<<len(table) {
			return fmt.Errorf("Headers %#b, must be a union of Fields", fields)
		}
		return nil
	}
}

// Refusal answers requests that are not admitted in place of the 429, with the fields
// already set. The function must be safe for concurrent use.
func Refusal(refuse func(http.ResponseWriter, *http.Request, sketchlimit.Decision)) Option {
	return func(m *middleware) error {
		m.refuse = refuse
		return given("Refusal", refuse != nil)
	}
}

// OnRefusal is called for every request that is not admitted, before it is answered, and
// under [Shadow] before it passes: to log it, or to count who it was. The key is
// valid during the call only. The function must be safe for concurrent use, and
// quick: under a flood it runs at the flood's rate.
func OnRefusal(f func(r *http.Request, key []byte, d sketchlimit.Decision)) Option {
	return func(m *middleware) error {
		m.refused = f
		return given("OnRefusal", f != nil)
	}
}

func given(option string, ok bool) error {
	if !ok {
		return fmt.Errorf("%s nil, must be a function", option)
	}
	return nil
}

// scratch is the memory that a request needs for its key and its fields.
type scratch struct{ key, fields []byte }

var pool = sync.Pool{New: func() any { return new(scratch) }}

// maxScratch is the largest key whose memory is kept for the next request.
const maxScratch = 4 << 10

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
	s := pool.Get().(*scratch)
	s.key = m.key.AppendKey(s.key[:0], r)
	d := m.limiter.TakeBytes(s.key, cost)
	if !m.shadow && m.fields != 0 {
		m.write(w.Header(), s, d)
	}
	if !d.Allowed && m.refused != nil {
		m.refused(r, s.key, d)
	}
	if cap(s.key) <= maxScratch {
		pool.Put(s)
	}
	if d.Allowed || m.shadow {
		next.ServeHTTP(w, r)
	} else {
		m.refuse(w, r, d)
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
