package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// clock is a time that tests set; it starts at the epoch, where all windows begin.
type clock struct{ now time.Time }

func newClock() *clock                    { return &clock{time.Unix(0, 0)} }
func (c *clock) read() time.Time          { return c.now }
func (c *clock) advance(by time.Duration) { c.now = c.now.Add(by) }

// build returns a reproducible limiter that is large enough not to err.
func build(t testing.TB, c sketchlimit.Config, clock *clock) *sketchlimit.Limiter {
	t.Helper()
	c.Clock, c.Seed, c.MemoryBytes = clock.read, 1, 1<<20
	if c.Window == 0 {
		c.Window = time.Minute
	}
	l, err := sketchlimit.New(c)
	require.NoError(t, err)
	return l
}

// front puts the limiter in front of a handler that answers with a body of "ok".
func front(t testing.TB, l httplimit.Limiter, key httplimit.Key, options ...httplimit.Option) http.Handler {
	t.Helper()
	limit, err := httplimit.New(l, key, options...)
	require.NoError(t, err)
	return limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) }))
}

// get sends a request and returns the answer.
func get(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// user is a request of one whom the tests know by this field.
func user(name string) *http.Request { return from("192.0.2.1:1", "X-User", name) }

const byUser = httplimit.Header("X-User")

// statuses sends so many requests.
func statuses(h http.Handler, n int, r *http.Request) (list []int) {
	for range n {
		list = append(list, get(h, r).Code)
	}
	return list
}

func TestKeysAreLimitedEach(t *testing.T) {
	h := front(t, build(t, sketchlimit.Config{Limit: 2}, newClock()), byUser)
	require.Equal(t, []int{200, 200, 429, 429}, statuses(h, 4, user("ann")))
	require.Equal(t, []int{200, 200, 429}, statuses(h, 3, user("bob")))
	nobody := from("192.0.2.1:1", "X")
	require.Equal(t, []int{200, 200, 429}, statuses(h, 3, nobody), "requests without a key share the empty one")
	require.Equal(t, "ok", get(front(t, build(t, sketchlimit.Config{Limit: 2}, newClock()), byUser), user("ann")).Body.String())
}

// Published behaviour of a counter that refused requests do not raise (limit 5).
func TestCosts(t *testing.T) {
	cost := 0
	h := front(t, build(t, sketchlimit.Config{Limit: 5, Algorithm: sketchlimit.FixedWindow}, newClock()), byUser,
		httplimit.Cost(func(*http.Request) int { return cost }), httplimit.Headers(httplimit.RateLimit|httplimit.XRateLimit))
	for _, c := range []struct {
		cost, status          int
		remaining, retryAfter string
	}{
		{0, 200, "", ""},
		{2, 200, "3", ""}, {2, 200, "1", ""}, {1, 200, "0", ""},
		{2, 429, "0", "60"}, {10, 429, "0", ""}, {1, 429, "0", "60"},
		{-1, 429, "0", ""}, {0, 200, "", ""},
	} {
		cost = c.cost
		w := get(h, user("ann"))
		require.Equal(t, c.status, w.Code)
		require.Equal(t, c.remaining, w.Header().Get("X-RateLimit-Remaining"))
		require.Equal(t, c.retryAfter, w.Header().Get("X-RateLimit-Retry-After"))
		if c.status == 429 {
			require.Equal(t, c.retryAfter != "", strings.Contains(w.Header().Get("RateLimit"), ";t="))
		}
	}
}

// Published behaviour at a limit of 3, by the cost of each request.
func TestEqualCosts(t *testing.T) {
	for cost, want := range [][]int{{200, 200, 200, 200}, {200, 200, 200, 429}, {200, 429, 429, 429}, {200, 429, 429, 429}, {429, 429, 429, 429}} {
		h := front(t, build(t, sketchlimit.Config{Limit: 3, Algorithm: sketchlimit.FixedWindow}, newClock()), byUser,
			httplimit.Cost(func(*http.Request) int { return cost }))
		require.Equal(t, want, statuses(h, 4, user("ann")), "cost %d", cost)
	}
}

// A limit of the request's own, by what the client pays for: units count alike under
// all of them.
func TestOwnLimits(t *testing.T) {
	clock, plan := newClock(), 0
	h := front(t, build(t, sketchlimit.Config{Limit: 5, LowestLimit: 2}, clock), byUser,
		httplimit.Limit(func(*http.Request) int { return plan }), httplimit.Headers(all))
	for _, c := range []struct {
		plan, status int
		want         string
	}{
		{2, 200, `"default";q=2;w=60 | "default";r=1;t=120 | - | 2 | 1 | 120 | -`},
		{2, 200, `"default";q=2;w=60 | "default";r=0;t=90 | - | 2 | 0 | 120 | -`},
		{2, 429, `"default";q=2;w=60 | "default";r=0;t=90 | 90 | 2 | 0 | 120 | 90`},
		{3, 200, `"default";q=3;w=60 | "default";r=0;t=80 | - | 3 | 0 | 120 | -`},
		{9, 200, `"default";q=5;w=60 | "default";r=1;t=120 | - | 5 | 1 | 120 | -`},
		{1, 429, `"default";q=0;w=60 | "default";r=0 | - | 0 | 0 | 120 | -`},
		{0, 429, `"default";q=0;w=60 | "default";r=0 | - | 0 | 0 | 120 | -`},
		{-1, 429, `"default";q=0;w=60 | "default";r=0 | - | 0 | 0 | 120 | -`},
	} {
		plan = c.plan
		w := get(h, user("ann"))
		require.Equal(t, c.want, sent(w.Header()))
		require.Equal(t, c.status, w.Code)
	}
	plan = 3
	clock.advance(120 * time.Second)
	require.Equal(t, []int{200, 200, 200, 429}, statuses(h, 4, user("ann")))
}

// Requests without a key get 401, and take nothing from a quota.
func TestRequireKey(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 1}, newClock())
	needs := httplimit.RequireKey(byUser, "Bearer")
	nobody := from("192.0.2.1:1", "X")
	h := front(t, l, byUser, needs)
	require.Equal(t, []int{401, 401}, statuses(h, 2, nobody))
	require.Equal(t, "Bearer", get(h, nobody).Header().Get("WWW-Authenticate"))
	require.Empty(t, get(h, nobody).Header().Get("RateLimit"))
	require.Equal(t, []int{200, 429}, statuses(h, 2, user("ann")))
	require.True(t, l.Peek("").Allowed)
	require.EqualValues(t, 1, l.Stats().Admitted)
	h = front(t, l, byUser, needs, httplimit.Skip(func(*http.Request) bool { return true }))
	require.Equal(t, []int{200}, statuses(h, 1, nobody))
	h = front(t, l, byUser, needs, httplimit.Shadow())
	require.Equal(t, []int{200, 200}, statuses(h, 2, nobody))
	h = front(t, l, byUser)
	require.Equal(t, []int{429}, statuses(h, 1, nobody), "without the option they share a quota")
}

// Without a lowest limit nothing but the highest tier would pass. What cannot say what
// its lowest limit is, is taken.
func TestLimitNeedsALowestLimit(t *testing.T) {
	own := httplimit.Limit(func(*http.Request) int { return 60 })
	config := func(limit, lowest int) *sketchlimit.Limiter {
		return build(t, sketchlimit.Config{Limit: limit, LowestLimit: lowest}, newClock())
	}
	grouped := func(limiters ...sketchlimit.Member) *sketchlimit.Group {
		g, err := sketchlimit.NewGroup(limiters...)
		require.NoError(t, err)
		return g
	}
	for i, c := range []struct {
		limiter httplimit.Limiter
		ok      bool
	}{
		{config(10_000, 0), false},
		{config(10_000, 60), true},
		{config(10_000, 10_000), true}, // no access, and the whole limit
		{grouped(config(10_000, 0)), false},
		{grouped(config(10_000, 60), config(20_000, 60)), true},
		{grouped(config(10_000, 60), config(20_000, 0)), false},
		{grouped(config(10_000, 60), config(50, 0)), true}, // 50 is the lower limit of all tiers
		{grouped(config(10_000, 60), sketchlimit.Global(config(50_000, 0))), true},
		{grouped(config(10_000, 0), sketchlimit.Global(config(50_000, 60))), false},
		{sketchlimit.Global(config(10_000, 60)), false},
		{struct{ httplimit.Limiter }{config(10_000, 0)}, true},
	} {
		_, err := httplimit.New(c.limiter, byUser, own)
		if c.ok {
			require.NoError(t, err, "%d", i)
			continue
		}
		require.EqualError(t, err, "httplimit: Limit with a limiter that has no LowestLimit, "+
			"must have one: the lowest limit above 0 that the function returns", "%d", i)
	}
}

// A group is one policy. Clients are told the limit that decided, without a window, for
// the limits have different ones.
func TestGroup(t *testing.T) {
	clock, plan := newClock(), 9
	second := build(t, sketchlimit.Config{Limit: 2, LowestLimit: 1, Window: time.Second, Algorithm: sketchlimit.FixedWindow}, clock)
	minute := build(t, sketchlimit.Config{Limit: 3, LowestLimit: 1, Window: time.Minute, Algorithm: sketchlimit.FixedWindow}, clock)
	group, err := sketchlimit.NewGroup(second, minute)
	require.NoError(t, err)
	var refused []time.Duration
	h := front(t, group, byUser, httplimit.Headers(all), httplimit.Limit(func(*http.Request) int { return plan }),
		httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) { refused = append(refused, p.Window, p.RetryAfter) }))
	for _, c := range []struct {
		plan, status int
		want         string
	}{
		{9, 200, `"default";q=2 | "default";r=1;t=1 | - | 2 | 1 | 1 | -`},
		{9, 200, `"default";q=2 | "default";r=0;t=1 | - | 2 | 0 | 1 | -`},
		{9, 429, `"default";q=2 | "default";r=0;t=1 | 1 | 2 | 0 | 1 | 1`},
		{0, 429, `"default";q=0 | "default";r=0 | - | 0 | 0 | 1 | -`},
	} {
		plan = c.plan
		w := get(h, user("ann"))
		require.Equal(t, c.want, sent(w.Header()))
		require.Equal(t, c.status, w.Code)
	}
	plan = 9
	clock.advance(time.Second)
	require.Equal(t, `"default";q=3 | "default";r=0;t=59 | - | 3 | 0 | 59 | -`, sent(get(h, user("ann")).Header()))
	require.Equal(t, []int{429}, statuses(h, 1, user("ann")))
	require.Equal(t, []time.Duration{0, time.Second, 0, sketchlimit.Never, 0, 59 * time.Second}, refused)
	require.EqualValues(t, 3, second.Stats().Admitted)
}

func TestSkipAndExempt(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 1}, newClock())
	clients := &httplimit.Clients{Proxies: proxies}
	h := front(t, l, clients,
		httplimit.Exempt(clients, prefixes("203.0.113.0/24 2001:db8:1::/48")...),
		httplimit.Skip(func(r *http.Request) bool { return r.Method == "OPTIONS" }),
		httplimit.Cost(func(*http.Request) int { return 1 }))
	for _, c := range []struct {
		client string
		want   []int
	}{
		{"203.0.113.9", []int{200, 200, 200}},
		{"::ffff:203.0.113.9", []int{200, 200, 200}},
		{"2001:db8:1::9", []int{200, 200, 200}},
		{"64:ff9b::203.0.113.9", []int{200, 429, 429}},
		{"198.51.100.7", []int{200, 429, 429}},
		{"203.0.113.9, 198.51.100.8", []int{200, 429, 429}},
	} {
		r := from("10.0.0.1:1", "X-Forwarded-For", c.client)
		require.Equal(t, c.want, statuses(h, 3, r), c.client)
	}
	r := from("192.0.2.1:1", "X-Forwarded-For", "203.0.113.9")
	require.Equal(t, []int{200, 429}, statuses(h, 2, r), "a client that pretends to be exempt")
	r.Method = "OPTIONS"
	w := get(h, r)
	require.Equal(t, 200, w.Code)
	require.NotContains(t, w.Header(), "Ratelimit")
	require.EqualValues(t, 4, l.Stats().Admitted)

	translated := front(t, build(t, sketchlimit.Config{Limit: 1}, newClock()), clients, httplimit.Exempt(clients, prefixes("64:ff9b::203.0.113.0/120")...))
	require.Equal(t, []int{200, 200}, statuses(translated, 2, from("10.0.0.1:1", "X-Forwarded-For", "64:ff9b::203.0.113.9")))
}

func TestShadow(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 1}, newClock())
	var seen []string
	h := front(t, l, byUser, httplimit.Shadow(), httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		require.False(t, p.Allowed)
		require.True(t, p.Shadow)
		seen = append(seen, string(p.Key))
	}))
	require.Equal(t, []int{200, 200, 200}, statuses(h, 3, user("ann")))
	w := get(h, user("ann"))
	require.Equal(t, "ok", w.Body.String())
	require.NotContains(t, w.Header(), "Ratelimit")
	require.NotContains(t, w.Header(), "Retry-After")
	require.Equal(t, []string{"ann", "ann", "ann"}, seen)
	require.EqualValues(t, 3, l.Stats().Denied)
}

func TestOwnRefusal(t *testing.T) {
	h := front(t, build(t, sketchlimit.Config{Limit: 1}, newClock()), byUser,
		httplimit.Refusal(func(w http.ResponseWriter, r *http.Request, refusing []httplimit.Policy) {
			d := sketchlimit.Decision{Limit: 1, RetryAfter: 2 * time.Minute, ResetAfter: 2 * time.Minute}
			require.Equal(t, []httplimit.Policy{{Name: "default", Window: time.Minute, Key: []byte("ann"), Decision: d}}, refusing)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
	require.Equal(t, []int{200, 503}, statuses(h, 2, user("ann")))
	require.Equal(t, "120", get(h, user("ann")).Header().Get("Retry-After"))
}

// What is behind gets the ResponseWriter itself, with all it can do.
func TestResponseWriterPassesAsItCame(t *testing.T) {
	limit, err := httplimit.New(build(t, sketchlimit.Config{Limit: 1}, newClock()), byUser)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	limit(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) { require.Same(t, w, got) })).ServeHTTP(w, user("ann"))
}

func TestPatternIsTheRoute(t *testing.T) {
	limit, err := httplimit.New(build(t, sketchlimit.Config{Limit: 1}, newClock()), httplimit.Join{byUser, httplimit.Pattern{}})
	require.NoError(t, err)
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /items/{id}", "/users/{id}"} {
		mux.Handle(pattern, limit(http.NotFoundHandler()))
	}
	send := func(path, name string) int {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-User", name)
		return get(mux, r).Code
	}
	require.Equal(t, 404, send("/items/1", "ann"))
	require.Equal(t, 429, send("/items/2", "ann"))
	require.Equal(t, 404, send("/items/2", "bob"))
	require.Equal(t, 404, send("/users/2", "ann"))
}

func TestJoinIsUnambiguous(t *testing.T) {
	constant := func(s string) httplimit.Key {
		return httplimit.KeyFunc(func(dst []byte, _ *http.Request) []byte { return append(dst, s...) })
	}
	a, b, c, ab, bc, none := constant("a"), constant("b"), constant("c"), constant("ab"), constant("bc"), constant("")
	seen := map[string]int{}
	for i, key := range []httplimit.Join{
		{a, bc}, {ab, c}, {a, b, c}, {constant("abc")}, {none, constant("abc")}, {constant("abc"), none},
		{httplimit.Join{a, b}, c}, {a, httplimit.Join{b, c}}, {none}, {none, none},
		{constant("\x00\x00\x00\x01a")}, {httplimit.Join{a}},
	} {
		got := string(key.AppendKey([]byte("before"), nil))
		require.True(t, strings.HasPrefix(got, "before"))
		if j, ok := seen[got]; ok {
			// The last two are meant to meet: one is the other's bytes.
			require.Equal(t, []int{10, 11}, []int{j, i})
		}
		seen[got] = i
	}
	require.Len(t, seen, 11)
}

// Only keys of a size that is likely to come again keep their memory.
func TestLargeKeys(t *testing.T) {
	h := front(t, build(t, sketchlimit.Config{Limit: 1}, newClock()), byUser)
	huge := strings.Repeat("x", 1<<20)
	require.Equal(t, []int{200, 429}, statuses(h, 2, user(huge)))
	require.Equal(t, []int{200, 429}, statuses(h, 2, user(huge+"y")))
}

func TestErrors(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 1}, newClock())
	clients := func(c httplimit.Clients) httplimit.Key { return &c }
	for _, c := range []struct {
		key    httplimit.Key
		option httplimit.Option
		want   string
	}{
		{nil, nil, "key nil, must be one"},
		{httplimit.KeyFunc(nil), nil, "KeyFunc nil, must be a function"},
		{httplimit.Header(""), nil, `Header "", must not be empty`},
		{httplimit.Header("host"), nil, `Header "host", which is in Request.Host alone: use a KeyFunc`},
		{httplimit.Header("X User"), nil, `Header "X User", must be letters, digits and !#$%&'*+-.^_` + "`|~"},
		{httplimit.Header("Näme"), nil, `Header "Näme", must be letters, digits and !#$%&'*+-.^_` + "`|~"},
		{httplimit.Join{}, nil, "no keys in Join, must be at least 1"},
		{httplimit.Join{byUser, nil}, nil, "key 1 of Join: key nil, must be one"},
		{httplimit.Join{byUser, httplimit.Join{httplimit.Header("")}}, nil, `key 1 of Join: key 0 of Join: Header "", must not be empty`},
		{(*httplimit.Clients)(nil), nil, "Clients nil, must be one"},
		{clients(httplimit.Clients{IPv4Bits: 33}), nil, "Clients.IPv4Bits 33, must be 0 … 32"},
		{clients(httplimit.Clients{IPv4Bits: -1}), nil, "Clients.IPv4Bits -1, must be 0 … 32"},
		{clients(httplimit.Clients{Proxies: prefixes("10.0.0.0/8 0.0.0.0/0")}), nil,
			"Clients.Proxies[1] 0.0.0.0/0, must not be all addresses: clients could then write their own"},
		{clients(httplimit.Clients{Proxies: prefixes("::/0")}), nil,
			"Clients.Proxies[0] ::/0, must not be all addresses: clients could then write their own"},
		{clients(httplimit.Clients{IPv6Bits: 129}), nil, "Clients.IPv6Bits 129, must be 0 … 128"},
		{clients(httplimit.Clients{IPv6Bits: -1}), nil, "Clients.IPv6Bits -1, must be 0 … 128"},
		{clients(httplimit.Clients{Header: "X-Real-IP:"}), nil, `Clients.Header "X-Real-IP:", must be letters, digits and !#$%&'*+-.^_` + "`|~"},
		{clients(httplimit.Clients{Proxies: []netip.Prefix{proxies[0], {}}}), nil,
			"Clients.Proxies[1] invalid Prefix, must be a prefix such as 10.0.0.0/8 or 2001:db8::/32"},
		{clients(httplimit.Clients{Proxies: prefixes("::ffff:10.0.0.0/104")}), nil,
			"Clients.Proxies[0] ::ffff:10.0.0.0/104, must be a prefix such as 10.0.0.0/8 or 2001:db8::/32"},
		{byUser, httplimit.Name(""), `Name "", must not be empty`},
		{byUser, httplimit.Name("a\nb"), `Name "a\nb", must be ASCII without control characters`},
		{byUser, httplimit.Name("größe"), `Name "größe", must be ASCII without control characters`},
		{byUser, httplimit.Cost(nil), "Cost nil, must be a function"},
		{byUser, httplimit.Limit(nil), "Limit nil, must be a function"},
		{byUser, httplimit.RequireKey(nil, "Bearer"), "RequireKey: key nil, must be one"},
		{byUser, httplimit.RequireKey(byUser, ""), `RequireKey: challenge "", must be ASCII without control characters, such as "Bearer"`},
		{byUser, httplimit.Skip(nil), "Skip nil, must be a function"},
		{byUser, httplimit.Refusal(nil), "Refusal nil, must be a function"},
		{byUser, httplimit.OnRefusal(nil), "OnRefusal nil, must be a function"},
		{byUser, httplimit.Headers(1 << 7), "Headers 0b10000000, must be a union of Fields"},
		{byUser, httplimit.Exempt(nil), "Exempt: Clients nil, must be one"},
		{byUser, httplimit.Exempt(&httplimit.Clients{}, netip.Prefix{}),
			"Exempt: networks[0] invalid Prefix, must be a prefix such as 10.0.0.0/8 or 2001:db8::/32"},
	} {
		var options []httplimit.Option
		if c.option != nil {
			options = append(options, c.option)
		}
		limit, err := httplimit.New(l, c.key, options...)
		require.EqualError(t, err, "httplimit: "+c.want)
		require.Nil(t, limit)
	}
	_, err := httplimit.New(nil, byUser)
	require.EqualError(t, err, "httplimit: limiter nil, must be one")
	_, err = httplimit.NewPolicies(nil)
	require.EqualError(t, err, "httplimit: decider nil, must be one")
	one := func(*http.Request) int { return 1 }
	_, err = httplimit.NewPolicies(policies(nil), httplimit.Limit(one))
	require.EqualError(t, err, "httplimit: Limit, goes with New only: other policies have limits")
	_, err = httplimit.NewPolicies(policies(nil), httplimit.Name("mine"))
	require.EqualError(t, err, `httplimit: Name "mine", goes with New only: other policies have names`)
}

// writer is a ResponseWriter that keeps nothing.
type writer struct{ header http.Header }

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) Write(b []byte) (int, error) { return len(b), nil }
func (w *writer) WriteHeader(int)             {}

func TestAllocations(t *testing.T) {
	if poolForgets {
		t.Skip("under the race detector pools forget")
	}
	clients := &httplimit.Clients{Proxies: proxies}
	forwarded := &httplimit.Clients{Proxies: proxies, Header: "Forwarded"}
	r := from("10.0.0.1:1", "X-Forwarded-For", "1.1.1.1, 203.0.113.9, 10.0.0.2")
	r.Header.Set("Forwarded", `for=1.1.1.1, for=203.0.113.9, for="10.0.0.2:80"`)
	r.Header.Set("X-User", "ann")
	r.Pattern = "GET /items/{id}"
	ignore := httplimit.Refusal(func(http.ResponseWriter, *http.Request, []httplimit.Policy) {})
	for _, c := range []struct {
		name    string
		limit   int
		key     httplimit.Key
		options []httplimit.Option
		want    float64
	}{
		{"no fields", 1 << 30, clients, []httplimit.Option{httplimit.Headers(0)}, 0},
		{"no fields, Forwarded", 1 << 30, forwarded, []httplimit.Option{httplimit.Headers(0)}, 0},
		{"no fields, joined", 1 << 30, httplimit.Join{clients, byUser, httplimit.Pattern{}}, []httplimit.Option{httplimit.Headers(0)}, 0},
		{"exempt", 1 << 30, clients, []httplimit.Option{httplimit.Exempt(clients, prefixes("203.0.113.0/24")...)}, 0},
		{"no fields, own limit", 1 << 30, clients, []httplimit.Option{httplimit.Headers(0), httplimit.Limit(func(*http.Request) int { return 1 << 30 })}, 0},
		{"shadow", 1, clients, []httplimit.Option{httplimit.Shadow()}, 0},
		{"refused, no fields", 1, clients, []httplimit.Option{httplimit.Headers(0), ignore}, 0},
		{"fields", 1 << 30, clients, nil, 1},
		{"all fields", 1 << 30, clients, []httplimit.Option{httplimit.Headers(httplimit.Standard | httplimit.XRateLimit)}, 1},
		{"refused, the same words", 1, clients, []httplimit.Option{ignore}, 0},
	} {
		l := build(t, sketchlimit.Config{Limit: c.limit, LowestLimit: c.limit}, newClock())
		group, err := sketchlimit.NewGroup(l)
		require.NoError(t, err)
		for _, limiter := range []httplimit.Limiter{l, group} {
			limit, err := httplimit.New(limiter, c.key, c.options...)
			require.NoError(t, err)
			h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			w := &writer{http.Header{}}
			require.Equal(t, c.want, testing.AllocsPerRun(200, func() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}), "%T, %s", limiter, c.name)
		}
	}
}
