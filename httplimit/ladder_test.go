package httplimit_test

import (
	"fmt"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// The example of docs/prefixes.md.
func ExampleLadder() {
	limiter := func(limit, keys int) *sketchlimit.Limiter {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: time.Minute, Keys: keys})
		if err != nil {
			log.Fatal(err)
		}
		return l
	}
	limit, err := httplimit.NewAll(httplimit.Ladder(&httplimit.Clients{},
		limiter(100, 1_000_000), // "client": an IPv4 address or an IPv6 /64
		limiter(1000, 200_000),  // "site": a /24 or a /48
		limiter(20_000, 20_000), // "provider": a /16 or a /32
	))
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", limit(http.NotFoundHandler()))

	admitted := 0
	for i := range 3000 { // a hundred requests from each of 30 addresses of one /24
		w := httptest.NewRecorder()
		r := &http.Request{URL: &url.URL{Path: "/"}, Header: http.Header{}, RemoteAddr: fmt.Sprintf("192.0.2.%d:80", i/100)}
		http.DefaultServeMux.ServeHTTP(w, r)
		if w.Code != http.StatusTooManyRequests {
			admitted++
		}
	}
	fmt.Println(admitted)
	// Output: 1000
}

func TestDocsShowTheLadder(t *testing.T) {
	const page = "../docs/prefixes.md"
	code := section(t, "ladder_test.go", "func ExampleLadder() {\n", "\n\n\tadmitted")
	require.Equal(t, code, "\t"+strings.ReplaceAll(strings.TrimSuffix(section(t, page, "```go\n", "```"), "\n"), "\n", "\n\t"))

	if math.MaxInt == math.MaxInt32 {
		t.Skip("memory is stated for machines of 64 bits")
	}
	row := regexp.MustCompile(`(?m)\| ([\d,]+) \| ([\d,]+) \| ([\d.]+ [KM]iB) \|$`)
	sizes := row.FindAllStringSubmatch(section(t, page, "<!-- ladder sizes -->", "<!-- end"), -1)
	require.Len(t, sizes, 4)
	number := func(s string) int {
		n, err := strconv.Atoi(strings.ReplaceAll(s, ",", ""))
		require.NoError(t, err)
		return n
	}
	for _, s := range sizes {
		_, bytes, err := sketchlimit.Config{Limit: number(s[1]), Keys: number(s[2]), Window: time.Minute}.Size()
		require.NoError(t, err)
		shown := fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
		if bytes < 1<<20 {
			shown = fmt.Sprintf("%d KiB", (bytes+512)>>10)
		}
		require.Equal(t, shown, s[3])
	}
}

// ladder is the quotas of a ladder whose windows are fixed, of a minute.
func ladder(t testing.TB, clients *httplimit.Clients, limits ...int) []httplimit.Quota {
	t.Helper()
	var all []*sketchlimit.Limiter
	for _, limit := range limits {
		c := sketchlimit.Config{Limit: limit, LowestLimit: 1, Algorithm: sketchlimit.FixedWindow}
		all = append(all, build(t, c, newClock()))
	}
	return httplimit.Ladder(clients, all[0], all[1], all[2])
}

// allOf puts quotas in front of a handler that answers with 200.
func allOf(t testing.TB, quotas []httplimit.Quota, options ...httplimit.Option) http.Handler {
	t.Helper()
	limit, err := httplimit.NewAll(quotas, options...)
	require.NoError(t, err)
	return limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// A request is counted on all rungs or on none. Clients are told all rungs, and the
// state of the tightest.
func TestLadder(t *testing.T) {
	clients := &httplimit.Clients{Proxies: proxies}
	var refused []string
	h := allOf(t, ladder(t, clients, 3, 5, 7), httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		refused = append(refused, p.Name+" "+clients.KeyText(p.Key))
	}))
	const policies = `"client";q=3;w=60, "site";q=5;w=60, "provider";q=7;w=60`
	for i, c := range []struct {
		client, state, refused string // refused is "" if the request passes
	}{
		{"192.0.2.1", `"client";r=2;t=60`, ""},
		{"::ffff:192.0.2.1", `"client";r=1;t=60`, ""},
		{"192.0.2.1", `"client";r=0;t=60`, ""},
		{"192.0.2.1", `"client";r=0;t=60`, "client 192.0.2.1"},
		{"192.0.2.2", `"site";r=1;t=60`, ""},
		{"192.0.2.2", `"site";r=0;t=60`, ""},
		{"192.0.2.3", `"site";r=0;t=60`, "site 192.0.2.0/24"},
		{"192.0.2.1", `"client";r=0;t=60`, "client 192.0.2.1, site 192.0.2.0/24"},
		{"192.0.3.1", `"provider";r=1;t=60`, ""},
		{"192.0.4.1", `"provider";r=0;t=60`, ""},
		{"192.0.5.1", `"provider";r=0;t=60`, "provider 192.0.0.0/16"},
		{"192.1.2.1", `"client";r=2;t=60`, ""},

		{"2001:db8:1:1::1", `"client";r=2;t=60`, ""},
		{"2001:db8:1:1::2%eth0", `"client";r=1;t=60`, ""},
		{"2001:db8:1:1:ffff::3", `"client";r=0;t=60`, ""},
		{"2001:db8:1:1::4", `"client";r=0;t=60`, "client 2001:db8:1:1::/64"},
		{"2001:db8:1:2::1", `"site";r=1;t=60`, ""},
		{"2001:db8:1:2::1", `"site";r=0;t=60`, ""},
		{"2001:db8:1:3::1", `"site";r=0;t=60`, "site 2001:db8:1::/48"},
		{"2001:db8:2:3::1", `"provider";r=1;t=60`, ""},
		{"2001:db8:3:3::1", `"provider";r=0;t=60`, ""},
		{"2001:db8:4:3::1", `"provider";r=0;t=60`, "provider 2001:db8::/32"},
		{"2001:db9::1", `"client";r=2;t=60`, ""},
	} {
		refused = nil
		w := get(h, from("10.0.0.1:1", "X-Forwarded-For", "1.1.1.1, "+c.client))
		require.Equal(t, policies, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, c.state, w.Header().Get("RateLimit"), "request %d of %s", i, c.client)
		require.Equal(t, c.refused, strings.Join(refused, ", "), "request %d of %s", i, c.client)
		want := map[bool]string{true: "60"}[c.refused != ""]
		require.Equal(t, want, w.Header().Get("Retry-After"))
		require.Equal(t, c.refused != "", w.Code == http.StatusTooManyRequests)
	}
	w := get(h, from("192.0.2.9:1", "X-Forwarded-For", "203.0.113.1"))
	require.Contains(t, w.Body.String(), `"violated-policies":["site","provider"]`)
}

// Peers without an address share the empty key.
func TestLadderWithoutAddress(t *testing.T) {
	list := ladder(t, &httplimit.Clients{}, 2, 9, 9)
	h := allOf(t, list)
	require.Equal(t, []int{200, 200, 429}, statuses(h, 3, from("@", "X")))
	require.EqualValues(t, 2, list[2].Limiter.(*sketchlimit.Limiter).Stats().Admitted)
}

// Costs are charged on each rung; requests that are skipped, or of exempt clients, on
// none.
func TestLadderOptions(t *testing.T) {
	cost, clients := 4, &httplimit.Clients{Proxies: proxies}
	list := ladder(t, clients, 5, 6, 9)
	h := allOf(t, list, httplimit.Cost(func(*http.Request) int { return cost }),
		httplimit.Exempt(clients, prefixes("203.0.113.0/24")...),
		httplimit.Skip(func(r *http.Request) bool { return r.Method == "OPTIONS" }))
	used := func() (units []uint64) {
		for _, rung := range list {
			units = append(units, rung.Limiter.(*sketchlimit.Limiter).Stats().Admitted)
		}
		return units
	}
	client := from("10.0.0.1:1", "X-Forwarded-For", "192.0.2.1")
	require.Equal(t, []int{200, 429}, statuses(h, 2, client))
	neighbour, other := from("10.0.0.1:1", "X-Forwarded-For", "192.0.2.2"), from("10.0.0.1:1", "X-Forwarded-For", "192.0.3.2")
	require.Equal(t, []int{429}, statuses(h, 1, neighbour), "2 units are left to the site")
	require.Equal(t, []int{200}, statuses(h, 1, other))
	require.Equal(t, []uint64{8, 8, 8}, used())
	require.Equal(t, []int{200, 200}, statuses(h, 2, from("10.0.0.1:1", "X-Forwarded-For", "203.0.113.9")))
	client.Method = "OPTIONS"
	require.Equal(t, []int{200, 200}, statuses(h, 2, client))
	client.Method, cost = "GET", 0
	require.Equal(t, []int{200, 200}, statuses(h, 2, client))
	require.Equal(t, []uint64{8, 8, 8}, used())
	cost = 10
	w := get(h, from("10.0.0.1:1", "X-Forwarded-For", "198.51.100.1"))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.NotContains(t, w.Header(), "Retry-After", "no wait helps")
}

// A tier is a limit of one rung.
func TestLadderTiers(t *testing.T) {
	plan := 2
	list := ladder(t, &httplimit.Clients{}, 5, 6, 9)
	list[0].Limit = func(*http.Request) int { return plan }
	h := allOf(t, list)
	w := get(h, from("192.0.2.1:1", "X"))
	require.Equal(t, `"client";q=2;w=60, "site";q=6;w=60, "provider";q=9;w=60`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, []int{200, 429}, statuses(h, 2, from("192.0.2.1:1", "X")))
	plan = 9
	require.Equal(t, []int{200, 200, 200, 429}, statuses(h, 4, from("192.0.2.1:1", "X")))
	plan = 0
	require.Equal(t, []int{429}, statuses(h, 1, from("192.0.2.2:1", "X")))
	require.EqualValues(t, 5, list[1].Limiter.(*sketchlimit.Limiter).Stats().Admitted)
}

// A dry run counts what the ladder would admit, refuses nobody and tells clients nothing.
func TestLadderShadow(t *testing.T) {
	list := ladder(t, &httplimit.Clients{}, 9, 2, 9)
	var seen []string
	h := allOf(t, list, httplimit.Shadow(), httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		seen = append(seen, fmt.Sprint(p.Name, p.Shadow))
	}))
	require.Equal(t, []int{200, 200, 200}, statuses(h, 3, from("192.0.2.1:1", "X")))
	require.Equal(t, []string{"sitetrue"}, seen)
	require.NotContains(t, get(h, from("192.0.2.1:1", "X")).Header(), "Ratelimit")
	require.EqualValues(t, 2, list[0].Limiter.(*sketchlimit.Limiter).Stats().Admitted)
	require.EqualValues(t, 2, list[1].Limiter.(*sketchlimit.Limiter).Stats().Denied)
	require.Zero(t, list[0].Limiter.(*sketchlimit.Limiter).Stats().Denied)
}

// status is a ResponseWriter that keeps the status alone.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) Header() http.Header  { return http.Header{} }
func (s *status) WriteHeader(code int) { s.code = code }

// A flood from one /48, a hundred requests from each of its 65,536 networks, fills a
// limiter sized for 100,000 clients so far that it denies innocent ones. Behind a
// ladder the flood gets no more of it than the limit of a site, and nobody else is
// denied. Networks and limiters are smaller by scale.
func TestLadderKeepsAFloodFromTheClients(t *testing.T) {
	testkit.OneGoroutine(t)
	const perClient, perSite, scale = 100, 1000, 8 * testkit.Divisor
	clock := newClock()
	limiter := func(limit, keys int) *sketchlimit.Limiter {
		l, err := sketchlimit.New(sketchlimit.Config{
			Limit: limit, Window: time.Minute, Keys: keys / scale, Seed: 1, Clock: clock.read,
		})
		require.NoError(t, err)
		return l
	}
	client, alone := limiter(perClient, 100_000), limiter(perClient, 100_000)
	h := allOf(t, httplimit.Ladder(&httplimit.Clients{}, client, limiter(perSite, 20_000), limiter(20*perSite, 2_000)),
		httplimit.Headers(0), httplimit.Refusal(func(w http.ResponseWriter, _ *http.Request, _ []httplimit.Policy) {
			w.WriteHeader(http.StatusTooManyRequests)
		}))
	ask := func(addr netip.Addr, times int) (refused, refusedAlone int) {
		r := from(addr.String(), "X")
		key := (&httplimit.Clients{}).AppendKey(nil, r)
		for range times {
			w := status{code: http.StatusOK}
			if h.ServeHTTP(&w, r); w.code != http.StatusOK {
				refused++
			}
			if !alone.Do(sketchlimit.Request{Bytes: key}).Allowed {
				refusedAlone++
			}
		}
		return refused, refusedAlone
	}
	for i := range 65_536 / scale {
		ask(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, byte(i >> 8), byte(i)}), 100)
	}
	require.EqualValues(t, perSite, client.Stats().Admitted, "all that the site may take")
	innocent, innocentAlone := 0, 0
	const others, each = 16_000 / scale, 20
	for i := range others { // of as many sites, and of 8 providers
		refused, refusedAlone := ask(netip.AddrFrom4([4]byte{100, byte(i % 8), byte(i / 8), 1}), each)
		innocent, innocentAlone = innocent+refused, innocentAlone+refusedAlone
	}
	require.Zero(t, innocent)
	require.Greater(t, innocentAlone, others*each/50, "what the flood does without a ladder")
}
