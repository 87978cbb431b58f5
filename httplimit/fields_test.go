package httplimit_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

const all = httplimit.Standard | httplimit.XRateLimit

// every field by name, as sent.
var names = []string{"RateLimit-Policy", "RateLimit", "Retry-After",
	"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Retry-After"}

// sent returns the values of all fields, "-" for those that are not there.
func sent(h http.Header) string {
	var b strings.Builder
	for _, name := range names {
		if values := h.Values(name); len(values) > 0 {
			b.WriteString(strings.Join(values, ", ") + " | ")
		} else {
			b.WriteString("- | ")
		}
	}
	return strings.TrimSuffix(b.String(), " | ")
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		name   string
		config sketchlimit.Config
		steps  []string // of a window of one minute: seconds since the epoch > fields
	}{
		{"fixed", sketchlimit.Config{Limit: 2, Algorithm: sketchlimit.FixedWindow}, []string{
			`0    > "default";q=2;w=60 | "default";r=1;t=60 | - | 2 | 1 | 60 | -`,
			`12.5 > "default";q=2;w=60 | "default";r=0;t=48 | - | 2 | 0 | 48 | -`,
			`12.5 > "default";q=2;w=60 | "default";r=0;t=48 | 48 | 2 | 0 | 48 | 48`,
			`59.9 > "default";q=2;w=60 | "default";r=0;t=1 | 1 | 2 | 0 | 1 | 1`,
			`60   > "default";q=2;w=60 | "default";r=1;t=60 | - | 2 | 1 | 60 | -`,
		}},
		// The previous window's 3 weigh 2 a third into the next one.
		{"sliding", sketchlimit.Config{Limit: 3}, []string{
			`0    > "default";q=3;w=60 | "default";r=2;t=120 | - | 3 | 2 | 120 | -`,
			`0    > "default";q=3;w=60 | "default";r=1;t=120 | - | 3 | 1 | 120 | -`,
			`30   > "default";q=3;w=60 | "default";r=0;t=50 | - | 3 | 0 | 90 | -`,
			`30   > "default";q=3;w=60 | "default";r=0;t=50 | 50 | 3 | 0 | 90 | 50`,
			`79.5 > "default";q=3;w=60 | "default";r=0;t=1 | 1 | 3 | 0 | 41 | 1`,
			`80   > "default";q=3;w=60 | "default";r=0;t=20 | - | 3 | 0 | 100 | -`,
			`180  > "default";q=3;w=60 | "default";r=2;t=120 | - | 3 | 2 | 120 | -`,
		}},
		// One flows back every 30 s.
		{"bucket", sketchlimit.Config{Limit: 2, Algorithm: sketchlimit.TokenBucket, Burst: 3}, []string{
			`0    > "default";q=2;w=60 | "default";r=2;t=30 | - | 2 | 2 | 30 | -`,
			`0    > "default";q=2;w=60 | "default";r=1;t=60 | - | 2 | 1 | 60 | -`,
			`0    > "default";q=2;w=60 | "default";r=0;t=30 | - | 2 | 0 | 90 | -`,
			`29.5 > "default";q=2;w=60 | "default";r=0;t=1 | 1 | 2 | 0 | 61 | 1`,
			`30   > "default";q=2;w=60 | "default";r=0;t=30 | - | 2 | 0 | 90 | -`,
			`180  > "default";q=2;w=60 | "default";r=2;t=30 | - | 2 | 2 | 30 | -`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			h := front(t, build(t, c.config, clock), byUser, httplimit.Headers(all))
			for _, step := range c.steps {
				at, want, _ := strings.Cut(step, ">")
				seconds, err := strconv.ParseFloat(strings.TrimSpace(at), 64)
				require.NoError(t, err)
				clock.now = time.Unix(0, int64(seconds*1e9))
				require.Equal(t, strings.TrimSpace(want), sent(get(h, user("ann")).Header()), "at %s", at)
			}
		})
	}
}

func TestFieldsAreChosenOneByOne(t *testing.T) {
	for i := range names {
		h := front(t, build(t, sketchlimit.Config{Limit: 1}, newClock()), byUser, httplimit.Headers(1<<i))
		get(h, user("ann"))
		header := get(h, user("ann")).Header()
		for j, name := range names {
			require.Equal(t, i == j, header.Get(name) != "", "%s of only %s", name, names[i])
		}
	}
	h := front(t, build(t, sketchlimit.Config{Limit: 1}, newClock()), byUser, httplimit.Headers(0))
	get(h, user("ann"))
	require.Equal(t, "- | - | - | - | - | - | -", sent(get(h, user("ann")).Header()))
	h = front(t, build(t, sketchlimit.Config{Limit: 1}, newClock()), byUser)
	get(h, user("ann"))
	require.Equal(t, `"default";q=1;w=60 | "default";r=0;t=120 | 120 | - | - | - | -`, sent(get(h, user("ann")).Header()))
}

func TestWindowsThatAreNoWholeSeconds(t *testing.T) {
	h := front(t, build(t, sketchlimit.Config{Limit: 5, Window: 2500 * time.Millisecond}, newClock()), byUser)
	require.Equal(t, `"default";q=5`, get(h, user("ann")).Header().Get("RateLimit-Policy"))
	limit, err := httplimit.NewPolicies(&told{{Name: "none", Decision: sketchlimit.Decision{Allowed: true, Limit: 5}}})
	require.NoError(t, err)
	require.Equal(t, `"none";q=5`, get(limit(http.NotFoundHandler()), user("ann")).Header().Get("RateLimit-Policy"), "w is above 0")
}

func TestNamesAreQuoted(t *testing.T) {
	h := front(t, build(t, sketchlimit.Config{Limit: 5}, newClock()), byUser, httplimit.Name(`a "b", c\d;q=9`))
	header := get(h, user("ann")).Header()
	require.Equal(t, `"a \"b\", c\\d;q=9";q=5;w=60`, header.Get("RateLimit-Policy"))
	require.Equal(t, `"a \"b\", c\\d;q=9";r=4;t=120`, header.Get("RateLimit"))
}

// Each policy is an element of the lists; times and units are those of the last to
// decide.
func TestSeveralPolicies(t *testing.T) {
	clock := newClock()
	second := front(t, build(t, sketchlimit.Config{Limit: 1, Window: time.Second}, clock), byUser, httplimit.Name("second"), httplimit.Headers(all))
	limit, err := httplimit.New(build(t, sketchlimit.Config{Limit: 9, Window: time.Hour}, clock), byUser, httplimit.Name("hour"), httplimit.Headers(all))
	require.NoError(t, err)
	h := limit(second)
	require.Equal(t, `"hour";q=9;w=3600, "second";q=1;w=1 | "hour";r=8;t=7200, "second";r=0;t=2 | - | 1 | 0 | 2 | -`,
		sent(get(h, user("ann")).Header()))
	require.Equal(t, `"hour";q=9;w=3600, "second";q=1;w=1 | "hour";r=7;t=7200, "second";r=0;t=2 | 2 | 1 | 0 | 2 | 2`,
		sent(get(h, user("ann")).Header()))
}

// A handler may do with the fields what it likes; the next request has its own.
func TestFieldsBelongToTheRequest(t *testing.T) {
	limit, err := httplimit.New(build(t, sketchlimit.Config{Limit: 9}, newClock()), byUser)
	require.NoError(t, err)
	h := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("RateLimit-Policy", "mine")
		w.Header()["Ratelimit"][0] = "mine"
	}))
	for range 3 {
		header := get(h, user("ann")).Header()
		require.Equal(t, []string{`"default";q=9;w=60`, "mine"}, header.Values("RateLimit-Policy"))
		require.Equal(t, []string{"mine"}, header.Values("RateLimit"))
	}
}

func seconds(t *testing.T, s string) time.Duration {
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return time.Duration(n) * time.Second
}

// A client that waits for Retry-After passes at its next try, and does not after a second
// less: over random histories of all algorithms, costs and windows. What RateLimit
// tells of t when nothing is left holds alike for a next request of cost 1.
func TestRetryAfterIsHonoured(t *testing.T) {
	testkit.OneGoroutine(t)
	for name, config := range map[string]sketchlimit.Config{
		"fixed":             {Limit: 7, Window: time.Minute, Algorithm: sketchlimit.FixedWindow},
		"sliding":           {Limit: 7, Window: time.Minute},
		"sliding, one":      {Limit: 1, Window: 7 * time.Second},
		"sliding, many":     {Limit: 1000, Window: time.Hour},
		"sliding, odd":      {Limit: 5, Window: 12_345_678_901},
		"sliding, short":    {Limit: 5, Window: 700 * time.Millisecond},
		"sub-windows":       {Limit: 7, Window: time.Minute, SubWindows: 6},
		"sub-windows, many": {Limit: 50, Window: time.Minute, SubWindows: 60},
		"sub-windows, odd":  {Limit: 7, Window: 3 * 1_234_567_891, SubWindows: 3},
		"bucket":            {Limit: 7, Window: time.Minute, Algorithm: sketchlimit.TokenBucket},
		"bucket, large":     {Limit: 7, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Burst: 20},
		"bucket, small":     {Limit: 50, Window: time.Hour, Algorithm: sketchlimit.TokenBucket, Burst: 17},
		"bucket, odd":       {Limit: 5, Window: 12_345_678_901, Algorithm: sketchlimit.TokenBucket, Burst: 3},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			clock, cost := newClock(), 1
			l := build(t, config, clock)
			h := front(t, l, byUser, httplimit.Headers(all), httplimit.Cost(func(*http.Request) int { return cost }))
			refusals := 0
			for range 1500 {
				clock.advance(time.Duration(rng.ExpFloat64() * float64(config.Window) / 20))
				cost = 1 + rng.IntN(max(1, config.Limit/3))
				w := get(h, user("ann"))
				header := w.Header()
				switch {
				case w.Code == http.StatusTooManyRequests:
					refusals++
					wait := seconds(t, header.Get("Retry-After"))
					_, left, _ := strings.Cut(header.Get("RateLimit"), ";t=")
					require.Equal(t, wait, seconds(t, left), "Retry-After is not earlier than t, nor later")
					require.Equal(t, wait, seconds(t, header.Get("X-RateLimit-Retry-After")))
					require.False(t, l.Do(sketchlimit.Request{Time: clock.now.Add(wait - time.Second), Key: "ann", N: cost, Peek: true}).Allowed, "a second less")
					clock.advance(wait)
					require.Equal(t, http.StatusOK, get(h, user("ann")).Code, "after %v", wait)
				case strings.Contains(header.Get("RateLimit"), ";r=0;") && rng.IntN(4) == 0:
					_, left, _ := strings.Cut(header.Get("RateLimit"), ";t=")
					clock.advance(seconds(t, left))
					cost = 1
					require.Equal(t, http.StatusOK, get(h, user("ann")).Code)
				}
			}
			require.Greater(t, refusals, 100)
		})
	}
}

// The same with the clock that a limiter reads in the background, and is late by.
func TestRetryAfterIsHonouredByTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 3, Window: 10 * time.Second, MemoryBytes: 64 << 10})
		require.NoError(t, err)
		defer l.Close()
		h := front(t, l, byUser)
		rng := rand.New(rand.NewPCG(1, 2))
		refusals := 0
		for range 300 {
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
			if w := get(h, user("ann")); w.Code == http.StatusTooManyRequests {
				refusals++
				time.Sleep(seconds(t, w.Header().Get("Retry-After")))
				require.Equal(t, http.StatusOK, get(h, user("ann")).Code)
			}
		}
		require.Greater(t, refusals, 30)
	})
}

func TestRefusalBody(t *testing.T) {
	const problem = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Too many requests","status":429,"violated-policies":["a \"b\""]}` + "\n"
	for accept, isProblem := range map[string]bool{
		"-":                        true,
		"*/*":                      true,
		"application/problem+json": true,
		"Application/Problem+JSON": true,
		"application/json":         true,
		"application/*":            true,
		"text/html, */*;q=0.8":     true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		`text/html;x="a,\",*/*", application/json`:                        true,
		"application/json;charset=utf-8":                                  true,
		"application/problem+json;q=0.5":                                  true,
		"text/plain;q=0.4, application/json;q=0.5":                        true,
		"text/html\n application/json":                                    true,
		"application/json;q=1.000":                                        true,
		"application/json ; q=0.001":                                      true,
		"":                                                                false,
		"text/html":                                                       false,
		"text/plain":                                                      false,
		"image/*":                                                         false,
		"application/problem+json;q=0":                                    false,
		"application/problem+json;q=0, */*":                               false,
		"application/problem+json;Q=0.0, application/json":                false,
		"application/json;q=0, application/*;q=0.9":                       false,
		"text/plain, */*;q=0.1":                                           false,
		"text/*;q=0.6, application/json;q=0.5":                            false,
		`text/html;x="application/json"`:                                  false,
		`text/html;x=", application/json`:                                 false,
		"application/json;q=2":                                            false,
		"application/json;q=1.001":                                        false,
		"application/json;q=0.0001":                                       false,
		"application/json;q=0.x":                                          false,
		"application/json;q=":                                             false,
		"application/xml":                                                 false,
	} {
		h := front(t, build(t, sketchlimit.Config{Limit: 1}, newClock()), byUser, httplimit.Name(`a "b"`))
		get(h, user("ann"))
		r := user("ann")
		for line := range strings.SplitSeq(accept, "\n") {
			if accept != "-" {
				r.Header.Add("Accept", line)
			}
		}
		w := get(h, r)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		if isProblem {
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"), accept)
			require.Equal(t, problem, w.Body.String())
		} else {
			require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"), accept)
			require.Equal(t, "Too many requests\n", w.Body.String())
		}
	}
}

// A connection that carries its state from one request to the next, as servers keep them.
func TestOverTheWire(t *testing.T) {
	server := httptest.NewServer(front(t, build(t, sketchlimit.Config{Limit: 1}, newClock()), &httplimit.Clients{}))
	defer server.Close()
	for _, want := range []string{
		`200 "default";q=1;w=60 | "default";r=0;t=120 | - | - | - | - | -`,
		`429 "default";q=1;w=60 | "default";r=0;t=120 | 120 | - | - | - | -`,
	} {
		response, err := http.Get(server.URL)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, strconv.Itoa(response.StatusCode)+" "+sent(response.Header))
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Second: "1", time.Second + 1: "2", sketchlimit.Never - 1: "9223372037", sketchlimit.Never: "",
	} {
		require.Equal(t, want, httplimit.Seconds(d), d)
	}
}

func TestCheckLimiter(t *testing.T) {
	var never *sketchlimit.Limiter
	require.EqualError(t, httplimit.CheckLimiter(nil), "limiter nil, must be one")
	require.EqualError(t, httplimit.CheckLimiter(never), "limiter nil, must be one")
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: time.Minute, Keys: 1})
	require.NoError(t, err)
	require.NoError(t, httplimit.CheckLimiter(limiter))
}
