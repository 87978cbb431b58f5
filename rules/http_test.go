package rules_test

import (
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// serve puts rules in front of a handler, by the user that a field names and by path.
func (l *loaded) serve(t *testing.T, options ...httplimit.Option) func(method, user, path string) *httptest.ResponseRecorder {
	t.Helper()
	decider, err := l.HTTP("api", func(d *rules.Descriptors, r *http.Request) {
		user := rules.Entry{Key: "user", Value: r.Header.Get("X-User")}
		d.Add(user)
		d.Add(user, rules.Entry{Key: "path", Value: r.URL.Path})
		d.Add(rules.Entry{Key: "method", Value: r.Method})
		d.Add(rules.Entry{Key: "agent", Value: r.UserAgent()})
	})
	require.NoError(t, err)
	limit, err := httplimit.NewPolicies(decider, options...)
	require.NoError(t, err)
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func(method, user, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
}

const file = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3}
    descriptors:
      - {key: path, value: /search*, rate_limit: {name: search, unit: 10s, requests_per_unit: 1}}
  - {key: user, value: mallory, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: user, value: friend, rate_limit: {unlimited: true}}
  - {key: method, value: PUT, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: method, value: A, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
`

func TestHTTP(t *testing.T) {
	l := load(t, file)
	var seen []string
	get := l.serve(t, httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		seen = append(seen, fmt.Sprintf("%s(%s) %v", p.Name, rules.KeyText(p.Key), p.Shadow))
	}))
	docs, err := os.ReadFile("../docs/http.md")
	require.NoError(t, err)
	const user, search = `"api.user";q=3;w=60`, `"search";q=1;w=10`
	for _, c := range []struct {
		request         string
		policies, state string // "" of both: no rule applies
		retryAfter      string // "" if it passes
		refused         string
	}{
		{"GET ann /", user, `"api.user";r=2;t=60`, "", ""},
		{"GET ann /search/a", user + ", " + search, `"search";r=0;t=10`, "", ""},
		{"GET ann /search/a", user + ", " + search, `"search";r=0;t=10`, "10", "search(ann /search/a) false"},
		{"GET ann /search/b", user + ", " + search, `"api.user";r=0;t=60`, "", ""},
		{"GET ann /search/b", user + ", " + search, `"api.user";r=0;t=60`, "60", "api.user(ann) false, search(ann /search/b) false"},
		{"GET bob /", user, `"api.user";r=2;t=60`, "", ""},
		{"PUT bob /", user, `"api.user";r=1;t=60`, "", ""},
		{"PUT bob /", user, `"api.user";r=0;t=60`, "", "api.method_PUT() true"},
		{"PUT bob /", user, `"api.user";r=0;t=60`, "60", "api.user(bob) false, api.method_PUT() true"},
		{"GET friend /", "", "", "", ""},
		{"A friend /", `"api.method_A";q=1;w=3600`, `"api.method_A";r=0;t=3600`, "", ""},
		{"A friend /", `"api.method_A";q=1;w=3600`, `"api.method_A";r=0;t=3600`, "3600", "api.method_A() false"},
		{"GET mallory /", `"api.user_mallory";q=0;w=86400`, `"api.user_mallory";r=0`, "never", "api.user_mallory() false"},
	} {
		seen = nil
		f := strings.Fields(c.request)
		w := get(f[0], f[1], f[2])
		require.Equal(t, c.policies, w.Header().Get("RateLimit-Policy"), c.request)
		require.Equal(t, c.state, w.Header().Get("RateLimit"), c.request)
		require.Equal(t, strings.Replace(c.retryAfter, "never", "", 1), w.Header().Get("Retry-After"), c.request)
		require.Equal(t, c.retryAfter != "", w.Code == http.StatusTooManyRequests, c.request)
		require.Equal(t, c.refused, strings.Join(seen, ", "))
	}

	require.Contains(t, string(docs), "Ratelimit: \"search\";r=0;t=10\nRatelimit-Policy: "+user+", "+search+"\n")

	l.write(t, strings.Replace(file, "requests_per_unit: 3", "requests_per_unit: 4", 1))
	require.NoError(t, l.Reload())
	require.Equal(t, `"api.user";r=0;t=60`, get("GET", "ann", "/").Header().Get("RateLimit"), "3 of 4 were used before")
}

// A quota that is used up refuses nobody while another has some left, and clients are not
// told of it.
func TestHTTPQuotas(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: user, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: method, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
`)
	get := l.serve(t)
	require.Equal(t, `"api.user";r=0;t=3600`, get("GET", "ann", "/").Header().Get("RateLimit"))
	require.Equal(t, `"api.method";r=0;t=60`, get("GET", "ann", "/").Header().Get("RateLimit"))
	w := get("GET", "ann", "/")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Contains(t, w.Body.String(), `"violated-policies":["api.user","api.method"]`)
}

// Of a rule in shadow mode nobody hears unless it would refuse.
func TestHTTPShadow(t *testing.T) {
	l := load(t, file)
	decider, err := l.HTTP("api", func(d *rules.Descriptors, _ *http.Request) {
		d.Add(rules.Entry{Key: "method", Value: "PUT"})
	})
	require.NoError(t, err)
	var a httplimit.Answer
	decider.Decide(&a, nil, 1)
	require.Empty(t, a.Policies)
	decider.Decide(&a, nil, 1)
	require.Len(t, a.Policies, 1)
	require.True(t, a.Policies[0].Shadow)
	require.False(t, a.Policies[0].Allowed)
}

// A client that honours Retry-After passes all rules at its next try, over random
// histories.
func TestRetryAfterIsHonoured(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 30, algorithm: sliding_window}
    descriptors: [{key: path, value: /*, rate_limit: {unit: 7s, requests_per_unit: 3, algorithm: sliding_window}}]
  - {key: method, rate_limit: {unit: 5s, requests_per_unit: 3}}
  - {key: agent, rate_limit: {unit: minute, requests_per_unit: 29, algorithm: token_bucket, burst: 4}}
`)
	require.Len(t, l.All(), 4)
	get := l.serve(t)
	rng := rand.New(rand.NewPCG(1, 2))
	refusals := map[string]int{}
	for range 3000 {
		l.clock.now = l.clock.now.Add(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		path := "/" + strconv.Itoa(rng.IntN(2))
		w := get("GET", "ann", path)
		if w.Code != http.StatusTooManyRequests {
			continue
		}
		name, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";")
		refusals[name]++
		wait, err := strconv.Atoi(w.Header().Get("Retry-After"))
		require.NoError(t, err)
		l.clock.now = l.clock.now.Add(time.Duration(wait-1) * time.Second)
		require.Equal(t, http.StatusTooManyRequests, get("GET", "ann", path).Code, "a second less than %d", wait)
		l.clock.now = l.clock.now.Add(time.Second)
		require.Equal(t, http.StatusOK, get("GET", "ann", path).Code, "after %d s for %s", wait, name)
	}
	for _, rule := range l.All() {
		require.Greater(t, refusals[strconv.Quote(rule.String())], 20, "%v", refusals)
	}
}

func TestKeyText(t *testing.T) {
	for key, want := range map[string]string{
		"":                         "",
		"\x03ann":                  "ann",
		"\x03ann\x07/search":       "ann /search",
		"\x00\x01a":                "a",
		"\x09short":                "\x09short",
		"\x03ann\x09short":         "ann\x09short",
		"\xff":                     "\xff",
		strings.Repeat("\xff", 11): strings.Repeat("\xff", 11),
	} {
		require.Equal(t, want, rules.KeyText([]byte(key)))
	}
}

// Rules that count are told by names of their own, those of the files of the moment.
func TestCounting(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: day, requests_per_unit: 7}}
  - {key: a_b, value: c, rate_limit: {unit: day, requests_per_unit: 8}}
  - {key: a, value: blocked, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: a, value: free, rate_limit: {unlimited: true}}
`)
	counting := l.Counting()
	limits := func() string {
		var list []string
		for name, rule := range counting {
			require.Equal(t, name, rule.String())
			list = append(list, fmt.Sprint(name, " ", rule.Limit))
		}
		return strings.Join(list, ", ")
	}
	require.Equal(t, "api.a_b_c 7, api.a_b_c#2 8", limits())
	l.take("api", "a=b_c")
	for _, rule := range counting {
		require.EqualValues(t, 1, rule.Stats().Admitted)
		break
	}
	l.write(t, "domain: other\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 9}}]")
	require.NoError(t, l.Reload())
	require.Equal(t, "other.k 9", limits())
}

func TestHTTPAllocations(t *testing.T) {
	if raced {
		t.Skip("under the race detector pools forget")
	}
	l := load(t, strings.Replace(file, "requests_per_unit: 3", "requests_per_unit: 1000000", 1))
	decider, err := l.HTTP("api", func(d *rules.Descriptors, _ *http.Request) {
		user := rules.Entry{Key: "user", Value: "ann"}
		d.Add(user)
		d.Add(user, rules.Entry{Key: "path", Value: "/"})
		d.Add(rules.Entry{Key: "method", Value: "GET"})
	})
	require.NoError(t, err)
	var a httplimit.Answer
	require.Zero(t, testing.AllocsPerRun(100, func() {
		a.Policies, a.Keys = a.Policies[:0], a.Keys[:0]
		decider.Decide(&a, nil, 1)
	}))
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 1000000, Remaining: 999899, ResetAfter: time.Minute}, a.Policies[0].Decision)
}

// The example of docs/rules.md.
func ExampleRules_HTTP() {
	clients := &httplimit.Clients{}
	limits, err := rules.Load(256<<20, "rules.yaml") // at most so many bytes of counts
	if err != nil {
		log.Fatal(err)
	}
	decider, err := limits.HTTP("api", func(d *rules.Descriptors, r *http.Request) {
		client := rules.Entry{Key: "client", Value: clients.Text(r)}
		d.Add(client)
		d.Add(client, rules.Entry{Key: "path", Value: r.URL.Path})
		d.Add(rules.Entry{Key: "all", Value: "requests"})
	})
	if err != nil {
		log.Fatal(err) // no file has the domain
	}
	limit, err := httplimit.NewPolicies(decider)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", limit(http.NotFoundHandler()))
}

// Whoever limits by a domain that no file has would limit nothing: that is an error, at
// once and when files are read.
func TestHTTPNeedsItsDomain(t *testing.T) {
	describe := func(*rules.Descriptors, *http.Request) {}
	l := load(t, file)
	_, err := l.HTTP("apo", describe)
	require.EqualError(t, err, "rules: no file has the domain 'apo', which a handler limits by")
	_, err = l.HTTP("api", nil)
	require.EqualError(t, err, "rules: HTTP without a function that describes requests")

	l.write(t, strings.Replace(file, "domain: api", "domain: web", 1))
	require.NoError(t, l.Reload(), "nobody limits by it")
	_, err = l.HTTP("web", describe)
	require.NoError(t, err)
	l.write(t, file)
	require.EqualError(t, l.Reload(), "rules: no file has the domain 'web', which a handler limits by")
	require.NotNil(t, l.Match("web", descriptor("user=ann")))
}
