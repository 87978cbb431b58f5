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
	// left out unless it is whole seconds. Limits on units at the same time have
	// `qu="concurrent-requests"` instead, and no times in other fields.
	RateLimitPolicy Fields = 1 << iota
	// RateLimit is what is left of the tightest: `"default";r=99;t=60`. Of limits on
	// units at the same time, it tells only if they refuse or there is no other. With r
	// above 0, t is the time until the whole quota is back if nothing else comes; with
	// r 0 that until a next one of cost 1 passes; of a refused request that until the
	// same one passes, and it is left out if no wait makes it pass.
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
	append func(b []byte, s *state) []byte
	list   bool // several middlewares each add an element
}{
	{"Ratelimit-Policy", nil, true}, // see texts.policies
	{"Ratelimit", appendRateLimit, true},
	{"Retry-After", appendRetryAfter, false},
	{"X-Ratelimit-Limit", func(b []byte, s *state) []byte { return strconv.AppendInt(b, int64(s.limit), 10) }, false},
	{"X-Ratelimit-Remaining", func(b []byte, s *state) []byte { return strconv.AppendInt(b, int64(s.remaining), 10) }, false},
	{"X-Ratelimit-Reset", func(b []byte, s *state) []byte { return appendSeconds(b, s.reset) }, false},
	{"X-Ratelimit-Retry-After", appendRetryAfter, false},
}

// write sets the fields that state the answer.
func (t *texts) write(h http.Header, fields Fields, a *Answer) {
	tightest := a.tightest()
	if fields == 0 || tightest == nil {
		return
	}
	values := t.values(fields, tightest)
	values[0] = t.policies(a.Policies)
	if tightest.Allowed {
		fields &^= RetryAfter | XRateLimitRetryAfter
	}
	alone := len(h) == 0
	for ; fields != 0; fields &= fields - 1 {
		i := bits.TrailingZeros(uint(fields))
		if values[i] == "" {
			continue
		}
		if f := &table[i]; !alone && f.list && h[f.name] != nil {
			h[f.name] = append(h[f.name], values[i])
		} else {
			h[f.name] = t.value(values[i])
		}
	}
}

// texts caches the values of header fields. A middleware has few policies, and many
// clients far from their limits are in the same state to the second, so most responses
// use a value again.
type texts struct {
	bytes  []byte
	shown  []shown // that policy is about
	policy string
	states [64]telling // by units remaining
	room   []string    // for values
}

// value returns text as the only value of a field. The slice belongs to the response,
// because later handlers may change it; its memory is allocated for 64 at once.
func (t *texts) value(text string) []string {
	if len(t.room) == 0 {
		t.room = make([]string, 64)
	}
	values := t.room[:1:1]
	values[0], t.room = text, t.room[1:]
	return values
}

// shown is the part of a policy that RateLimit-Policy has.
type shown struct {
	name     string
	limit    int
	window   time.Duration
	inFlight bool
}

// policies returns RateLimit-Policy.
func (t *texts) policies(policies []Policy) string {
	n, same := 0, true
	for i := range policies {
		p := &policies[i]
		if p.Shadow {
			continue
		}
		q := shown{p.Name, p.Limit, p.Window, p.InFlight}
		if n == len(t.shown) || t.shown[n] != q {
			t.shown, same = append(t.shown[:n], q), false
		}
		n++
	}
	if same && n == len(t.shown) {
		return t.policy
	}
	t.shown = t.shown[:n]
	b := t.bytes[:0]
	for i, q := range t.shown {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(append(appendQuoted(b, q.name), ";q="...), int64(q.limit), 10)
		if q.window >= time.Second && q.window%time.Second == 0 {
			b = strconv.AppendInt(append(b, ";w="...), seconds(q.window), 10)
		}
		if q.inFlight {
			b = append(b, `;qu="concurrent-requests"`...)
		}
	}
	t.bytes, t.policy = b, string(b)
	return t.policy
}

// telling is the values of the fields in a state, by the fields' bits.
type telling struct {
	state
	fields [len(table)]string
}

// state is the part of a policy that the fields have. Times are seconds, rounded up, or
// below 0 if there is none.
type state struct {
	name               string
	limit, remaining   int
	more, retry, reset int64
	known              bool
}

// values returns the values of all fields but RateLimit-Policy, by their bits. They
// share one string.
func (t *texts) values(fields Fields, p *Policy) *[len(table)]string {
	now := state{p.Name, p.Limit, p.Remaining, seconds(p.more()), -1, seconds(p.ResetAfter), true}
	if !p.Allowed {
		now.retry = now.more
	}
	last := &t.states[uint(p.Remaining)%uint(len(t.states))]
	if last.state != now {
		last.state = now
		var ends [len(table)]int
		b := t.bytes[:0]
		for i := 1; i < len(table); i++ {
			if fields&(1<<i) != 0 {
				b = table[i].append(b, &last.state)
			}
			ends[i] = len(b)
		}
		t.bytes = b
		text := string(b)
		for i := 1; i < len(table); i++ {
			last.fields[i] = text[ends[i-1]:ends[i]]
		}
	}
	return &last.fields
}

func appendRateLimit(b []byte, s *state) []byte {
	b = strconv.AppendInt(append(appendQuoted(b, s.name), ";r="...), int64(s.remaining), 10)
	if s.more >= 0 {
		b = strconv.AppendInt(append(b, ";t="...), s.more, 10)
	}
	return b
}

func appendRetryAfter(b []byte, s *state) []byte { return appendSeconds(b, s.retry) }

// appendSeconds appends a time, or nothing if there is none.
func appendSeconds(b []byte, n int64) []byte {
	if n < 0 {
		return b
	}
	return strconv.AppendInt(b, n, 10)
}

// Seconds returns d in whole seconds, rounded up, as header fields have it; "" for
// [sketchlimit.Never].
func Seconds(d time.Duration) string { return string(appendSeconds(nil, seconds(d))) }

// seconds returns d in seconds, rounded up so that a client waits long enough; -1 for
// [sketchlimit.Never].
func seconds(d time.Duration) int64 {
	if d == sketchlimit.Never {
		return -1
	}
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return n
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
