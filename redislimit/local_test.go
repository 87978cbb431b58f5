package redislimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// A middleware over Redis admits the limit in all, tells clients what is left, and refuses the rest.
func TestLocalGoesIntoMiddleware(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		c := Config{Limit: 3, Window: 1000 * time.Hour, Algorithm: algorithm, Keys: 1000, Prefix: algorithm.String()}
		s, err := NewStrict(client, c)
		require.NoError(t, err)
		e, err := NewExact(client, c)
		require.NoError(t, err)
		ofExact, err := e.Local(FailClosed)
		require.NoError(t, err)
		for name, l := range map[string]httplimit.Limiter{"strict": s.Local(), "exact": ofExact} {
			t.Run(fmt.Sprint(algorithm, name), func(t *testing.T) {
				limit, err := httplimit.New(l, httplimit.Header("Key"))
				require.NoError(t, err)
				h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				for i := range 5 {
					w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
					r.Header.Set("Key", "a")
					h.ServeHTTP(w, r)
					want := map[bool]int{true: 200, false: 429}[i < 3]
					require.Equal(t, want, w.Code, "request %d", i)
					require.Contains(t, w.Header().Get("RateLimit"), fmt.Sprintf("r=%d;", max(0, 2-i)), "request %d", i)
					require.Equal(t, `"default";q=3;w=3600000`, w.Header().Get("RateLimit-Policy"))
				}
			})
		}
	}
}

// A peek at an Exact answers what Take then does, and takes nothing.
func TestExactPeeks(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		e, err := NewExact(client, Config{Limit: 5, Window: time.Second, Algorithm: algorithm})
		require.NoError(t, err)
		r, now, denied := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0), 0
		for i := range 300 {
			now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
			q := sketchlimit.Request{Key: "k", N: 1 + r.IntN(3), Time: now, Peek: true}
			before, err := e.Do(t.Context(), q)
			require.NoError(t, err)
			again, err := e.Do(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, before, again, "a peek changes nothing")
			q.Peek = false
			d, err := e.Do(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, before.Allowed, d.Allowed, "request %d", i)
			require.Equal(t, before.RetryAfter, d.RetryAfter, "request %d", i)
			if d.Allowed {
				require.Equal(t, before.Remaining-q.N, d.Remaining, "request %d", i)
			} else {
				denied++
				require.Equal(t, before, d)
			}
		}
		require.Greater(t, denied, 30)
		d, err := e.Do(t.Context(), sketchlimit.Request{Key: "k", Limit: 2, Time: now})
		require.NoError(t, err)
		require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never}, d)
	}
}

// Without Redis the failure mode decides.
func TestLocalWithoutRedis(t *testing.T) {
	client := connect(t, "127.0.0.1:1")
	c := Config{Limit: 2, Window: time.Hour, Keys: 100, Log: quiet()}
	s, err := NewStrict(client, c)
	require.NoError(t, err)
	e, err := NewExact(client, c)
	require.NoError(t, err)
	_, err = e.Local(FailLocal)
	require.EqualError(t, err, "redislimit: Local of an Exact with Failure 1, must be FailOpen or FailClosed")
	open, err := e.Local(FailOpen)
	require.NoError(t, err)
	closed, err := e.Local(FailClosed)
	require.NoError(t, err)
	for i := range 4 {
		r := sketchlimit.Request{Key: "k"}
		require.Equal(t, i < 2, s.Local().Do(r).Allowed, "FailLocal: the local limiter's limit")
		require.True(t, open.Do(r).Allowed)
		require.False(t, closed.Do(r).Allowed)
	}
}
