package httplimit

import (
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Fields is a set of response header fields. Times are whole seconds, rounded up.
type Fields uint

const (
	// RateLimitPolicy is what the limits are: `"default";q=100;w=60`. The window, w, is
	// left out unless it is whole seconds.
	RateLimitPolicy Fields = 1 << iota
	// RateLimit is what is left of the tightest: `"default";r=99;t=60`. With r above 0, t is the
	// time until the whole quota is back if nothing else comes; otherwise the time
	// until the same request, or if this one was admitted a next one of cost 1,
	// passes. It is left out if no wait makes it pass.
	RateLimit
	// RetryAfter is, on refusals, the time after which the same request passes all
	// limits if nothing else comes; it is left out if no wait makes it pass.
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

// table has the fields in the order of their bits. What appends nothing is not sent.
var table = [...]struct {
	name   string // in canonical form
	append func(b []byte, a *Answer, tightest *Policy) []byte
	list   bool // several middlewares each add an element
}{
	{"Ratelimit-Policy", appendPolicies, true},
	{"Ratelimit", appendRateLimit, true},
	{"Retry-After", appendRetryAfter, false},
	{"X-Ratelimit-Limit", func(b []byte, _ *Answer, p *Policy) []byte { return appendInt(b, p.Limit) }, false},
	{"X-Ratelimit-Remaining", func(b []byte, _ *Answer, p *Policy) []byte { return appendInt(b, p.Remaining) }, false},
	{"X-Ratelimit-Reset", func(b []byte, _ *Answer, p *Policy) []byte { return appendSeconds(b, p.ResetAfter) }, false},
	{"X-Ratelimit-Retry-After", appendRetryAfter, false},
}

// write sets the fields. All values share one string, and all slices of values one.
func (m *middleware) write(h http.Header, s *scratch) {
	tightest := s.tightest()
	if m.fields == 0 || tightest == nil {
		return
	}
	var ends [len(table)]int
	b := s.fields[:0]
	for i := range table {
		if m.fields&(1<<i) != 0 {
			b = table[i].append(b, &s.Answer, tightest)
		}
		ends[i] = len(b)
	}
	s.fields = b
	text, start := string(b), 0
	values := make([]string, 0, bits.OnesCount(uint(m.fields)))
	for i, end := range ends {
		if end == start {
			continue
		}
		f := &table[i]
		n := len(values)
		values = append(values, text[start:end])
		if f.list && h[f.name] != nil {
			h[f.name] = append(h[f.name], values[n])
		} else {
			h[f.name] = values[n : n+1 : n+1]
		}
		start = end
	}
}

func appendPolicies(b []byte, a *Answer, _ *Policy) []byte {
	start := len(b)
	for i := range a.Policies {
		p := &a.Policies[i]
		if p.Shadow {
			continue
		}
		if len(b) > start {
			b = append(b, ", "...)
		}
		b = appendInt(append(appendQuoted(b, p.Name), ";q="...), p.Limit)
		if p.Window%time.Second == 0 {
			b = appendSeconds(append(b, ";w="...), p.Window)
		}
	}
	return b
}

func appendRateLimit(b []byte, _ *Answer, p *Policy) []byte {
	b = appendInt(append(appendQuoted(b, p.Name), ";r="...), p.Remaining)
	if more := p.more(); more != sketchlimit.Never {
		b = appendSeconds(append(b, ";t="...), more)
	}
	return b
}

func appendRetryAfter(b []byte, _ *Answer, p *Policy) []byte {
	if p.Allowed || p.RetryAfter == sketchlimit.Never {
		return b
	}
	return appendSeconds(b, p.RetryAfter)
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

// appendQuoted appends the name as a structured field string (RFC 9651, section 4.1.6).
func appendQuoted(b []byte, name string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for _, c := range []byte(name) {
		switch {
		case !printable(c):
			b = append(b, '%', hex[c>>4], hex[c&15])
			continue
		case c == '"' || c == '\\':
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return append(b, '"')
}

// printable tells whether a structured field string can hold the byte.
func printable(c byte) bool { return ' ' <= c && c <= '~' }
