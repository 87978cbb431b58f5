package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// purse returns a budget of so many units a minute, and of ten times as many a day, on
// a clock.
func purse(t testing.TB, limit int, clock *clock) *budget.Budget {
	t.Helper()
	c := budget.Config{InFlight: 1000, HoldFor: time.Hour}
	for _, l := range []sketchlimit.Config{
		{Limit: limit, LowestLimit: limit, Window: time.Minute}, {Limit: 10 * limit, LowestLimit: limit, Window: 24 * time.Hour},
	} {
		l.Algorithm, l.Clock, l.Seed, l.MemoryBytes = sketchlimit.FixedWindow, clock.read, 1, 64<<10
		c.Limits = append(c.Limits, l)
	}
	b, err := budget.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// atMost is a request that holds so many units.
func atMost(n int) func(*http.Request) int { return func(*http.Request) int { return n } }

// spending is of users who hold so many units.
func spending(b *budget.Budget, n int) httplimit.Spending {
	return httplimit.Spending{
		Budget: b, Names: []string{"minute", "day"}, Key: byUser, AtMost: atMost(n), Used: httplimit.BytesWritten,
	}
}

func spend(t testing.TB, s httplimit.Spending, h http.HandlerFunc, options ...httplimit.Option) http.Handler {
	t.Helper()
	limit, err := httplimit.NewBudget(s, options...)
	require.NoError(t, err)
	return limit(h)
}

// Clients are told what is left beside what is held, and the limit that is the closest.
func TestBudgetFields(t *testing.T) {
	clock := newClock()
	b := purse(t, 100, clock)
	var refused, states []string
	depth, inner := 0, http.Handler(nil)
	h := spend(t, spending(b, 40), func(http.ResponseWriter, *http.Request) {
		if depth++; depth < 4 {
			answer := get(inner, user("ann"))
			states = append(states, sent(answer.Header()))
			if answer.Code == http.StatusTooManyRequests {
				require.Contains(t, answer.Body.String(), `"violated-policies":["minute"]`)
			}
		}
	}, httplimit.Headers(all), httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		refused = append(refused, fmt.Sprint(p.Name, " ", string(p.Key), " ", p.RetryAfter))
	}))
	inner = h
	answer := get(h, user("ann"))
	const policies = `"minute";q=100;w=60, "day";q=1000;w=86400 | `
	require.Equal(t, policies+`"minute";r=60;t=1 | - | 100 | 60 | 1 | -`, sent(answer.Header()), "nobody knows how long it is held")
	require.Equal(t, []string{
		policies + `"minute";r=20;t=1 | 1 | 100 | 20 | 0 | 1`,
		policies + `"minute";r=20;t=1 | - | 100 | 20 | 1 | -`,
	}, states)
	require.Equal(t, []string{"minute ann 1s"}, refused, "where holds are in the way, a second")
	require.Equal(t, 2, depth)
	require.Zero(t, b.Stats().Held)

	// With less than 40 left of the day, it is the day that refuses, and until it ends.
	b.Charge("ann", 100)
	for range 9 {
		clock.advance(time.Minute)
		b.Charge("ann", 100)
	}
	clock.advance(time.Minute)
	answer = get(h, user("ann"))
	require.Equal(t, policies+`"day";r=0;t=85800 | 85800 | 1000 | 0 | 85800 | 85800`, sent(answer.Header()))
	require.Contains(t, answer.Body.String(), `"violated-policies":["day"]`)

	// What is left is nothing: the time until it is more.
	bob := func(n int) string {
		h := spend(t, spending(b, n), func(http.ResponseWriter, *http.Request) {}, httplimit.Headers(httplimit.RateLimit))
		return get(h, user("bob")).Header().Get("RateLimit")
	}
	require.Equal(t, `"minute";r=0;t=1`, bob(100))
	b.Charge("bob", 99)
	require.Equal(t, `"minute";r=0;t=60`, bob(1))
}

// What passes uncounted holds nothing, and what cannot pass is refused for ever.
func TestBudgetOptions(t *testing.T) {
	b, n := purse(t, 100, newClock()), 0
	s := spending(b, 0)
	s.AtMost = func(*http.Request) int { return n }
	var held []int
	handle := func(w http.ResponseWriter, r *http.Request) {
		hold, ok := httplimit.HoldOf(r)
		require.Equal(t, ok, hold.Units() > 0)
		held = append(held, hold.Units())
		io.WriteString(w, "hello")
	}
	h := spend(t, s, handle)
	for _, n = range []int{0, -1, 101, 100} {
		answer := get(h, user("ann"))
		require.Equal(t, n == 0 || n == 100, answer.Code == 200)
		require.Equal(t, n == 0, answer.Header().Get("RateLimit") == "")
		require.Empty(t, answer.Header().Get("Retry-After"))
	}
	n = 100
	get(spend(t, s, handle, httplimit.Skip(func(*http.Request) bool { return true })), user("ann"))
	shadow := spend(t, s, handle, httplimit.Shadow(), httplimit.Headers(httplimit.Standard))
	get(shadow, user("ann")) // 95 are left
	get(shadow, user("bob"))
	require.Equal(t, []int{0, 100, 0, 0, 100}, held)
	require.EqualValues(t, 10, b.Stats().Settled)

	s.Limit = func(*http.Request) int { return 50 } // below the lowest limit
	answer := get(spend(t, s, handle), user("cid"))
	require.Equal(t, 429, answer.Code)
	require.Equal(t, `"minute";q=0;w=60, "day";q=0;w=86400`, answer.Header().Get("RateLimit-Policy"))
}

func TestBudgetErrors(t *testing.T) {
	b := purse(t, 100, newClock())
	one, err := budget.New(budget.Config{
		Limits: []sketchlimit.Config{{Limit: 1, Window: time.Second, Keys: 1}}, InFlight: 1, HoldFor: time.Second,
	})
	require.NoError(t, err)
	defer one.Close()
	for _, c := range []struct {
		change func(*httplimit.Spending)
		want   string
	}{
		{func(s *httplimit.Spending) { s.Budget = nil }, "Spending.Budget nil, must be one"},
		{func(s *httplimit.Spending) { s.Names = nil }, "Spending.Names nil, must be 2: one for each limit of the Budget"},
		{func(s *httplimit.Spending) { s.Names = s.Names[:1] }, "Spending.Names are 1, must be 2: one for each limit of the Budget"},
		{func(s *httplimit.Spending) { s.Names[1] = "minute" }, `Spending.Names[1] "minute" is that of another limit, must be another one`},
		{func(s *httplimit.Spending) { s.Names[1] = "" }, `Spending.Names[1]: Name "", must not be empty`},
		{func(s *httplimit.Spending) { s.Key = nil }, "key nil, must be one"},
		{func(s *httplimit.Spending) { s.AtMost = nil }, "AtMost nil, must be a function"},
		{func(s *httplimit.Spending) { s.Field = "X-Used" }, `Spending.Used and Field "X-Used", only one of them must be set`},
		{func(s *httplimit.Spending) { s.HideField = true }, "Spending.HideField, goes with Field only"},
		{func(s *httplimit.Spending) { s.Used, s.Field = nil, "X Used" }, "Field \"X Used\", must be letters, digits and !#$%&'*+-.^_`|~"},
		{func(s *httplimit.Spending) { s.Budget, s.Names = one, nil }, ""},
		{func(s *httplimit.Spending) { s.Budget, s.Names, s.Limit = one, nil, atMost(1) },
			"Spending.Limit with a limiter that has no LowestLimit, must have one: the lowest limit above 0 that the function returns"},
	} {
		s := spending(b, 1)
		c.change(&s)
		_, err := httplimit.NewBudget(s)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, "httplimit: "+c.want)
	}
	_, err = httplimit.NewBudget(spending(b, 1), httplimit.Cost(atMost(1)))
	require.EqualError(t, err, "httplimit: Cost, goes not with NewBudget: use AtMost")
	_, err = httplimit.NewBudget(spending(b, 1), httplimit.Name("a"))
	require.EqualError(t, err, `httplimit: Name "a", goes with New only: other policies have names`)
	_, err = httplimit.NewBudget(spending(b, 1), nil)
	require.EqualError(t, err, "httplimit: option 0 nil, must be one")
}

// What a field holds is a whole number, or the hold is settled in full; and it is
// hidden whatever it is. No request counts more than the limit.
func TestBudgetFieldValues(t *testing.T) {
	b, most := purse(t, 10_000, newClock()), strconv.Itoa(math.MaxInt)
	for _, c := range []struct {
		values []string
		want   uint64
	}{
		{nil, 100}, {[]string{""}, 100}, {[]string{"0"}, 0}, {[]string{"7"}, 7}, {[]string{" 007\t"}, 7}, {[]string{"100"}, 100},
		{[]string{"101"}, 101}, {[]string{most}, 100_000}, {[]string{most + "0"}, 100}, {[]string{"-1"}, 100}, {[]string{"+1"}, 100},
		{[]string{"1.5"}, 100}, {[]string{"1e1"}, 100}, {[]string{"0x1"}, 100}, {[]string{"1_0"}, 100}, {[]string{"7", "7"}, 100},
		{[]string{"7, 7"}, 100}, {[]string{"seven"}, 100}, {[]string{"７"}, 100},
	} {
		for _, hide := range []bool{false, true} {
			s, user, before := spending(b, 100), fmt.Sprint(c.values, hide), b.Stats().Settled
			s.Key = httplimit.KeyFunc(func(dst []byte, _ *http.Request) []byte { return append(dst, user...) })
			s.Used, s.Field, s.HideField = nil, "x-used", hide
			answer := get(spend(t, s, func(w http.ResponseWriter, _ *http.Request) {
				for _, v := range c.values {
					w.Header().Add("X-Used", v)
				}
				io.WriteString(w, "ok")
			}), httptest.NewRequest("GET", "/", nil)).Result()
			require.Equal(t, c.want, b.Stats().Settled-before, "%q", c.values)
			require.Zero(t, b.Stats().Held)
			if require.Equal(t, 200, answer.StatusCode); hide {
				require.NotContains(t, answer.Header, "X-Used")
			} else {
				require.Equal(t, c.values, answer.Header["X-Used"])
			}
		}
	}
}

// A function is told of the response, and settles in full what it does not know.
func TestBudgetUsed(t *testing.T) {
	b := purse(t, 1000, newClock())
	var seen httplimit.Response
	units, ok, handle := 0, false, http.HandlerFunc(nil)
	s := spending(b, 100)
	s.Used = func(r *httplimit.Response) (int, bool) {
		if seen = *r; units == 13 {
			panic("unlucky")
		}
		return units, ok
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{name}", func(w http.ResponseWriter, r *http.Request) { handle(w, r) })
	h := spend(t, s, mux.ServeHTTP)
	used := func(n int, known bool, f http.HandlerFunc) uint64 {
		before := b.Stats().Settled
		units, ok, handle = n, known, f
		get(h, httptest.NewRequest("GET", "/a", nil))
		require.Zero(t, b.Stats().Held)
		return b.Stats().Settled - before
	}
	require.EqualValues(t, 7, used(7, true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-A", "b")
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK) // superfluous
		io.WriteString(w, "hello")
	}))
	require.Equal(t, http.StatusTeapot, seen.Status)
	require.EqualValues(t, 5, seen.Bytes)
	require.Equal(t, "b", seen.Header.Get("X-A"))
	require.Equal(t, "/{name}", seen.Request.Pattern, "what the handlers have set")
	nothing := func(http.ResponseWriter, *http.Request) {}
	require.EqualValues(t, 0, used(0, true, nothing))
	require.Equal(t, 200, seen.Status)
	require.EqualValues(t, 100, used(7, false, nothing))
	require.EqualValues(t, 100, used(-1, true, nothing))
	require.EqualValues(t, 9, used(7, true, func(_ http.ResponseWriter, r *http.Request) {
		hold, ok := httplimit.HoldOf(r)
		require.True(t, ok)
		require.True(t, hold.Extend(50).Allowed)
		require.True(t, hold.Settle(9), "the first settlement counts")
	}))
	require.EqualValues(t, 150, used(7, false, func(_ http.ResponseWriter, r *http.Request) {
		hold, _ := httplimit.HoldOf(r)
		require.True(t, hold.Extend(50).Allowed)
	}), "in full is with what it was extended by")
	require.Panics(t, func() { used(13, true, nothing) })
	require.Zero(t, b.Stats().Held)
	require.EqualValues(t, 7+100+100+9+150+100, b.Stats().Settled)
}

// Users in many connections at once never get more than their limit, and the books
// agree with what they got.
func TestBudgetConcurrently(t *testing.T) {
	const limit, most = 100_000, 9_000
	b := purse(t, limit, newClock())
	server := httptest.NewServer(spend(t, spending(b, most), func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		body := strings.Repeat("x", n)
		io.WriteString(w, body[:n/2])
		http.NewResponseController(w).Flush()
		io.WriteString(w, body[n/2:])
	}))
	defer server.Close()
	var mu sync.Mutex
	got, group := map[string]int{}, sync.WaitGroup{}
	for i := range 8 {
		group.Go(func() {
			name := fmt.Sprint("user-", i%3)
			for n := 1; n < most; n += 500 {
				r, err := http.NewRequest("GET", fmt.Sprint(server.URL, "?n=", n), nil)
				if !assert.NoError(t, err) {
					return
				}
				r.Header.Set("X-User", name)
				answer, err := http.DefaultClient.Do(r)
				if !assert.NoError(t, err) {
					return
				}
				body, err := io.ReadAll(answer.Body)
				assert.NoError(t, errors.Join(err, answer.Body.Close()))
				if answer.StatusCode == http.StatusOK {
					mu.Lock()
					got[name] += len(body)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	require.Eventually(t, func() bool { return b.Stats().Open == 0 }, time.Minute, time.Millisecond)
	all := 0
	for name, n := range got {
		require.LessOrEqual(t, n, limit, name)
		all += n
	}
	require.EqualValues(t, all, b.Stats().Settled)
	require.Zero(t, b.Stats().Overdraft)
	require.Positive(t, b.Stats().Denied)
}

func TestBudgetAllocations(t *testing.T) {
	if poolForgets {
		t.Skip("the race detector makes pools forget")
	}
	handle := func(w http.ResponseWriter, _ *http.Request) { w.Write(nil) }
	h := spend(t, spending(purse(t, 1<<27, newClock()), 100), handle, httplimit.Headers(0))
	w, r := &writer{http.Header{}}, user("ann")
	require.EqualValues(t, 2, testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) }))
}
