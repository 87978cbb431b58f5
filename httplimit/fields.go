package httplimit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Fields is a set of response header fields. Times are whole seconds, rounded up.
type Fields uint

const (
	// RateLimitPolicy is what the limit is: `"default";q=100;w=60`. The window, w, is
	// left out unless it is whole seconds.
	RateLimitPolicy Fields = 1 << iota
	// RateLimit is what is left of it: `"default";r=99;t=60`. With r above 0, t is the
	// time until the whole quota is back if nothing else comes; otherwise the time
	// until the same request, or if this one was admitted a next one of cost 1,
	// passes. It is left out if no wait makes it pass.
	RateLimit
	// RetryAfter is, on refusals, the time after which the same request passes if
	// nothing else comes; it is left out if no wait makes it pass.
	RetryAfter
	// XRateLimitLimit is the limit, in units.
	XRateLimitLimit
	// XRateLimitRemaining is the units left.
	XRateLimitRemaining
	// XRateLimitReset is the time until the whole quota is back if nothing else comes.
	XRateLimitReset
	// XRateLimitRetryAfter is the same as RetryAfter.
	XRateLimitRetryAfter

	// Standard is the fields of draft-ietf-httpapi-ratelimit-headers-10 and RFC 9110.
	Standard = RateLimitPolicy | RateLimit | RetryAfter
	// XRateLimit is the fields that were in use before.
	XRateLimit = XRateLimitLimit | XRateLimitRemaining | XRateLimitReset | XRateLimitRetryAfter
)

// state is what fields tell of one request.
type state struct {
	sketchlimit.Decision
	more time.Duration // until there is more quota, as RateLimit tells it
}

// table has the fields in the order of their bits. What appends nothing is not sent.
var table = [...]struct {
	name   string // in canonical form
	append func(*middleware, []byte, state) []byte
	list   bool // several middlewares each add an element
}{
	{"Ratelimit-Policy", (*middleware).appendPolicy, true},
	{"Ratelimit", (*middleware).appendRateLimit, true},
	{"Retry-After", (*middleware).appendRetryAfter, false},
	{"X-Ratelimit-Limit", func(_ *middleware, b []byte, s state) []byte { return appendInt(b, s.Limit) }, false},
	{"X-Ratelimit-Remaining", func(_ *middleware, b []byte, s state) []byte { return appendInt(b, s.Remaining) }, false},
	{"X-Ratelimit-Reset", func(_ *middleware, b []byte, s state) []byte { return appendSeconds(b, s.ResetAfter) }, false},
	{"X-Ratelimit-Retry-After", (*middleware).appendRetryAfter, false},
}

// write sets the fields. All values share one string, and all slices of values one array.
func (m *middleware) write(h http.Header, s *scratch, d sketchlimit.Decision) {
	st := state{Decision: d}
	if m.fields&RateLimit != 0 {
		st.more = m.more(d, s.key)
	}
	var ends [len(table)]int
	b := s.fields[:0]
	for i := range table {
		if m.fields&(1<<i) != 0 {
			b = table[i].append(m, b, st)
		}
		ends[i] = len(b)
	}
	s.fields = b
	text, start := string(b), 0
	values := new([len(table)]string)
	for i, end := range ends {
		if end == start {
			continue
		}
		f := &table[i]
		values[i] = text[start:end]
		if f.list && h[f.name] != nil {
			h[f.name] = append(h[f.name], values[i])
		} else {
			h[f.name] = values[i : i+1 : i+1]
		}
		start = end
	}
}

// more returns the time until there is more quota than now. When the last unit has just
// gone, that is worth a second look: a client that heeds it waits for nothing else.
func (m *middleware) more(d sketchlimit.Decision, key []byte) time.Duration {
	switch {
	case !d.Allowed:
		return d.RetryAfter
	case d.Remaining == 0:
		return m.limiter.Peek(string(key)).RetryAfter
	}
	return d.ResetAfter
}

func (m *middleware) appendPolicy(b []byte, s state) []byte {
	b = append(b, m.quoted...)
	b = appendInt(append(b, ";q="...), s.Limit)
	if m.window%time.Second == 0 {
		b = appendSeconds(append(b, ";w="...), m.window)
	}
	return b
}

func (m *middleware) appendRateLimit(b []byte, s state) []byte {
	b = append(b, m.quoted...)
	b = appendInt(append(b, ";r="...), s.Remaining)
	if s.more != sketchlimit.Never {
		b = appendSeconds(append(b, ";t="...), s.more)
	}
	return b
}

func (m *middleware) appendRetryAfter(b []byte, s state) []byte {
	if s.Allowed || s.RetryAfter == sketchlimit.Never {
		return b
	}
	return appendSeconds(b, s.RetryAfter)
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// appendSeconds rounds up, so that whoever waits so long has waited long enough.
func appendSeconds(b []byte, d time.Duration) []byte {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return strconv.AppendInt(b, seconds, 10)
}

// quote returns the name as a structured field string (RFC 9651, section 4.1.6).
func quote(name string) (string, error) {
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("Name %q, must be ASCII without control characters", name)
		}
	}
	if name == "" {
		return "", fmt.Errorf("Name %q, must not be empty", name)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`, nil
}
