package httpratelimit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/contrib/httpratelimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func Example() {
	counter, err := httpratelimit.New(1000) // keys in one window
	if err != nil {
		panic(err)
	}
	clients := &httplimit.Clients{}
	limit := httprate.LimitBy(2, 24*time.Hour,
		func(r *http.Request) (string, error) { return clients.Text(r), nil },
		httprate.WithLimitCounter(counter))
	h := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(".")) }))
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 1
	// 200 0
	// 429 0
}

func build(t testing.TB, keys int, window time.Duration) *httpratelimit.Counter {
	t.Helper()
	c, err := httpratelimit.New(keys)
	require.NoError(t, err)
	c.Config(100, window)
	return c
}

// get and increment leave out package require, which takes longer than they do.
func get(t testing.TB, c *httpratelimit.Counter, key string, window time.Time) (current, previous int) {
	current, previous, err := c.Get(key, window, window.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return current, previous
}

func increment(t testing.TB, c *httpratelimit.Counter, key string, window time.Time, n int) {
	if err := c.IncrementBy(key, window, n); err != nil {
		t.Fatal(err)
	}
}

// exact is what a LimitCounter is meant to count: in maps, for any window.
type exact map[time.Time]map[string]int

func (e exact) add(key string, window time.Time, n int) {
	if e[window] == nil {
		e[window] = map[string]int{}
	}
	e[window][key] += n
}

// Counts are never too low, in counters far too small for their keys, also when windows
// are left out.
func TestNeverTooLow(t *testing.T) {
	const window = time.Minute
	random := rand.New(rand.NewPCG(1, 2))
	for _, keys := range []int{1, 100, 100_000} {
		c, want := build(t, keys, window), exact{}
		current := time.Unix(0, 0).UTC().Truncate(window)
		for i := range 200_000 {
			if i%20_000 == 19_999 {
				current = current.Add(window * time.Duration(1+random.IntN(3)))
			}
			key := fmt.Sprint(min(random.IntN(20_000), random.IntN(20_000)))
			n := 1 + random.IntN(3)*random.IntN(50)
			before := current.Add(-window)
			got, previous := get(t, c, key, current)
			if got < want[current][key] || previous < want[before][key] {
				t.Fatalf("%d and %d, must be at least %d and %d", got, previous, want[current][key], want[before][key])
			}
			if keys == 100_000 && got > want[current][key]+100 { // where they are exact but for few
				t.Fatalf("%d, must be about %d", got, want[current][key])
			}
			increment(t, c, key, current, n)
			want.add(key, current, n)
		}
	}
}

// A request that comes from before the latest window, because it waited or the clock
// stepped back, counts in that window, and all that both windows hold counts against
// it.
func TestWindowsBehind(t *testing.T) {
	c := build(t, 1000, time.Minute)
	first := time.Unix(600, 0)
	get := func(window time.Time) string {
		current, previous, err := c.Get("ann", window, window.Add(-time.Minute))
		return fmt.Sprint(current, previous, err)
	}
	require.NoError(t, c.IncrementBy("ann", first, 5))
	require.NoError(t, c.IncrementBy("ann", first.Add(time.Minute), 7))
	require.Equal(t, "7 5 <nil>", get(first.Add(time.Minute)))
	require.Equal(t, "12 0 <nil>", get(first))
	require.NoError(t, c.Increment("ann", first))
	require.Equal(t, "8 5 <nil>", get(first.Add(time.Minute)))
	require.Equal(t, "0 8 <nil>", get(first.Add(2*time.Minute)))
	require.Equal(t, "0 0 <nil>", get(first.Add(4*time.Minute)))
}

// The example of httprate's documentation answers alike with its own counter and with
// this one. Both are aligned to the clock, because the test begins with a minute.
func TestHttpratesExample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve := func(options ...httprate.Option) http.Handler {
			return httprate.LimitBy(100, time.Minute, func(r *http.Request) (string, error) {
				return httprate.CanonicalizeIP(r.Header.Get("X-Client")), nil
			}, options...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Write([]byte("."))
			}))
		}
		counter, err := httpratelimit.New(100_000)
		require.NoError(t, err)
		own, ours := serve(), serve(httprate.WithLimitCounter(counter))
		codes := map[int]int{}
		for i := range 2000 {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-Client", fmt.Sprint("2001:db8::", i%10, ":", i%3))
			if i%3 == 0 {
				r = r.WithContext(httprate.WithIncrement(r.Context(), 2))
			}
			if i%7 == 0 {
				r = r.WithContext(httprate.WithRequestLimit(r.Context(), 150))
			}
			a, b := httptest.NewRecorder(), httptest.NewRecorder()
			own.ServeHTTP(a, r)
			ours.ServeHTTP(b, r)
			require.Equal(t, a, b, i)
			codes[b.Code]++
			time.Sleep(100 * time.Millisecond)
		}
		require.Greater(t, codes[200], 300)
		require.Greater(t, codes[429], 300)
	})
}

// Clients that use a fifth of a limit of 100, beside one in a hundred that uses it up,
// are hardly ever taken for them.
func TestInnocents(t *testing.T) {
	const keys, limit = 100_000, 100
	c := build(t, keys, time.Minute)
	now := time.Unix(0, 0)
	random := rand.New(rand.NewPCG(3, 4))
	own := make([]int, keys)
	requests, wronged := 0, 0
	for range keys * 23 {
		i := random.IntN(keys)
		if random.IntN(23) < 2 {
			i = random.IntN(keys/100) * 100
		}
		key := fmt.Sprint(i)
		current, _ := get(t, c, key, now)
		if own[i] < limit/2 {
			requests++
			if current >= limit {
				wronged++
			}
		}
		if current < limit {
			increment(t, c, key, now, 1)
			own[i]++
		}
	}
	t.Logf("%d of %d requests of light keys denied", wronged, requests)
	require.Less(t, float64(wronged), 1e-5*float64(requests))
}

// The largest counts stop where they are, and do not wrap.
func TestLargestCounts(t *testing.T) {
	c := build(t, 1, time.Minute)
	now := time.Unix(0, 0)
	for _, n := range []int{1 << 30, math.MaxInt, math.MaxInt, 1} {
		require.NoError(t, c.IncrementBy("", now, n))
	}
	current, _, err := c.Get("", now, now.Add(-time.Minute))
	require.NoError(t, err)
	require.Equal(t, math.MaxInt32, current)
	now = now.Add(time.Minute)
	require.NoError(t, c.IncrementBy("", now, math.MaxInt))
	current, previous, err := c.Get("", now.Add(-time.Minute), now)
	require.NoError(t, err)
	require.Equal(t, []int{math.MaxInt32, 0}, []int{current, previous})
}

func TestWrongUse(t *testing.T) {
	for _, keys := range []int{0, -1, math.MaxInt} {
		_, err := httpratelimit.New(keys)
		require.EqualError(t, err, fmt.Sprintf("httpratelimit: keys %d, must be 1 to 2147483647", keys))
	}
	now := time.Unix(0, 0)
	c, err := httpratelimit.New(1000)
	require.NoError(t, err)
	require.EqualError(t, c.Increment("ann", now), "httpratelimit: window 0, must be set by Config")
	c.Config(100, time.Minute)
	c.Config(50, time.Minute) // another limit by the same keys
	require.NoError(t, c.Increment("", now))
	require.NoError(t, c.IncrementBy("ann", now, 0))
	require.EqualError(t, c.IncrementBy("ann", now, -1),
		"httpratelimit: amount -1, must be 0 or more: a sketch cannot take units back")
	current, _, err := c.Get("ann", now, now)
	require.NoError(t, err)
	require.Zero(t, current)
	c.Config(100, time.Hour)
	_, _, err = c.Get("ann", now, now)
	require.EqualError(t, err, "httpratelimit: windows 1m0s and 1h0m0s share a Counter, must be the same")
	c, err = httpratelimit.New(1000)
	require.NoError(t, err)
	c.Config(100, 0)
	require.EqualError(t, c.Increment("ann", now), "httpratelimit: window 0s, must be above 0")
}

func TestAllocations(t *testing.T) {
	c, now := build(t, 1000, time.Minute), time.Unix(0, 0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		now = now.Add(time.Minute)
		c.Get("ann", now, now)
		c.IncrementBy("ann", now, 2)
	}))
}
