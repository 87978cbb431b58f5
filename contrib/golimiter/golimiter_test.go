package golimiter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/contrib/golimiter"
	sketchhttp "github.com/sketchlimit/sketchlimit/httplimit"
)

func Example() {
	limits, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		panic(err)
	}
	store, err := golimiter.New(limits)
	if err != nil {
		panic(err)
	}
	clients := &sketchhttp.Clients{} // package httplimit of sketchlimit: IPv6 by network, proxies by name
	byClient := func(r *http.Request) (string, error) { return clients.Text(r), nil }
	middleware, err := httplimit.NewMiddleware(store, byClient)
	if err != nil {
		panic(err)
	}
	doWork := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") })
	mux := http.NewServeMux()
	mux.Handle("/", middleware.Handle(doWork))
	for range 3 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("Retry-After") != "")
	}
	// Output:
	// 200 1 false
	// 200 0 false
	// 429 0 true
}

func build(t testing.TB, c sketchlimit.Config) limiter.Store {
	t.Helper()
	limits, err := sketchlimit.New(c)
	require.NoError(t, err)
	store, err := golimiter.New(limits)
	require.NoError(t, err)
	return store
}

// taken is what Take returns, but for errors.
type taken struct {
	tokens, remaining uint64
	reset             time.Duration // from now on
	ok                bool
}

func take(t *testing.T, s limiter.Store, key string) taken {
	tokens, remaining, reset, ok, err := s.Take(t.Context(), key)
	require.NoError(t, err)
	return taken{tokens, remaining, time.Until(time.Unix(0, int64(reset))), ok}
}

// The example of go-limiter's documentation answers alike with its own store and with
// this one; resets aside, because windows of this one begin by the clock and not by the
// first request.
func TestGoLimitersExample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, err := memorystore.New(&memorystore.Config{
			// Number of tokens allowed per interval.
			Tokens: 15,

			// Interval until tokens reset.
			Interval: time.Minute,
		})
		require.NoError(t, err)
		defer own.Close(t.Context())
		ours := build(t, sketchlimit.Config{
			Limit: 15, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, Keys: 1000, Clock: time.Now,
		})
		for i := range 40 {
			// key is the unique value upon which you want to rate limit, like an IP or
			// MAC address.
			key := fmt.Sprint("127.0.0.", i%2)
			a, b := take(t, own, key), take(t, ours, key)
			a.reset, b.reset = 0, 0
			require.Equal(t, a, b, i)
		}
		time.Sleep(time.Minute)
		require.True(t, take(t, ours, "127.0.0.0").ok)
	})
}

func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which begins with a minute
		s := build(t, sketchlimit.Config{Limit: 2, Window: time.Minute, Keys: 1000, Clock: time.Now})
		time.Sleep(15 * time.Second)
		require.Equal(t, taken{2, 1, 105 * time.Second, true}, take(t, s, "")) // the previous one counts
		require.Equal(t, taken{2, 0, 105 * time.Second, true}, take(t, s, ""))
		refused := take(t, s, "")
		require.Equal(t, taken{2, 0, 75 * time.Second, false}, refused) // half of the next window
		time.Sleep(refused.reset - time.Nanosecond)
		require.False(t, take(t, s, "").ok)
		time.Sleep(time.Nanosecond)
		require.True(t, take(t, s, "").ok)
	})
}

// never refuses for ever.
type never struct{}

func (never) Window() time.Duration { return 0 }
func (never) Do(sketchlimit.Request) sketchlimit.Decision {
	return sketchlimit.Decision{RetryAfter: sketchlimit.Never}
}

func TestNeverIsFarAhead(t *testing.T) {
	s, err := golimiter.New(never{})
	require.NoError(t, err)
	require.Greater(t, take(t, s, "").reset, 200*365*24*time.Hour)
}

func TestGet(t *testing.T) {
	s := build(t, sketchlimit.Config{Limit: 15, Window: 24 * time.Hour, Keys: 1000})
	for range 2 {
		tokens, remaining, err := s.Get(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, []uint64{15, 15}, []uint64{tokens, remaining})
	}
	require.EqualValues(t, 14, take(t, s, "ann").remaining)
	_, remaining, err := s.Get(t.Context(), "ann")
	require.NoError(t, err)
	require.EqualValues(t, 14, remaining)
}

// What a sketch cannot do says so, and changes nothing.
func TestUnsupported(t *testing.T) {
	s := build(t, sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	for want, err := range map[string]error{
		"Set: a sketch keeps no limit of each key": s.Set(t.Context(), "ann", 5, time.Hour),
		"Burst: a sketch cannot give a key more":   s.Burst(t.Context(), "ann", 5),
	} {
		require.EqualError(t, err, "golimiter: "+want+": unsupported operation")
		require.True(t, errors.Is(err, errors.ErrUnsupported))
	}
	require.True(t, take(t, s, "ann").ok)
	require.False(t, take(t, s, "ann").ok)
}

// Closed, it answers as the store of go-limiter does.
func TestClose(t *testing.T) {
	own, err := memorystore.New(nil)
	require.NoError(t, err)
	for _, s := range []limiter.Store{own, build(t, sketchlimit.Config{Limit: 1, Window: time.Hour, Keys: 1000})} {
		require.NoError(t, s.Close(context.Background()))
		require.NoError(t, s.Close(context.Background()))
		tokens, remaining, reset, ok, err := s.Take(t.Context(), "ann")
		require.Equal(t, limiter.ErrStopped, err)
		require.Zero(t, tokens+remaining+reset)
		require.False(t, ok)
		tokens, remaining, err = s.Get(t.Context(), "ann")
		require.Equal(t, limiter.ErrStopped, err)
		require.Zero(t, tokens+remaining)
	}
}

func TestLimiterNil(t *testing.T) {
	for _, l := range []sketchhttp.Limiter{nil, (*sketchlimit.Limiter)(nil)} {
		_, err := golimiter.New(l)
		require.EqualError(t, err, "golimiter: limiter nil, must be one")
	}
}
