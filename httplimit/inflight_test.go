package httplimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/inflight"
)

// concurrency returns a limiter of so many units at the same time.
func concurrency(t testing.TB, limit int) *inflight.Limiter {
	t.Helper()
	in, err := inflight.New(inflight.Config{Limit: limit, Requests: 1000, Seed: 1})
	require.NoError(t, err)
	return in
}

// At most two requests of a user are handled at the same time. Clients are told how
// many, and no times.
func TestInFlight(t *testing.T) {
	in := concurrency(t, 2)
	rate := build(t, sketchlimit.Config{Limit: 5, Algorithm: sketchlimit.FixedWindow}, newClock())
	var refused []httplimit.Policy
	var inner http.Handler
	limit, err := httplimit.NewAll([]httplimit.Quota{
		{Name: "uploads", InFlight: in, Key: byUser},
		{Name: "minute", Limiter: rate, Key: byUser},
	}, httplimit.Headers(all), httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		p.Key = nil
		refused = append(refused, p)
	}))
	require.NoError(t, err)
	const policies = `"uploads";q=2;qu="concurrent-requests", "minute";q=5;w=60 | `
	var states []string
	inner = limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		states = append(states, sent(w.Header()))
		if again := get(inner, user("ann")); again.Code == http.StatusTooManyRequests {
			states = append(states, sent(again.Header()))
			require.Contains(t, again.Body.String(), `"violated-policies":["uploads"]`)
			require.Equal(t, 2, in.Held("ann"))
		}
	}))
	get(inner, user("ann"))
	require.Equal(t, []string{
		policies + `"minute";r=4;t=60 | - | 5 | 4 | 60 | -`,
		policies + `"minute";r=3;t=60 | - | 5 | 3 | 60 | -`,
		policies + `"uploads";r=0 | - | 2 | 0 | - | -`,
	}, states)
	never := sketchlimit.Never
	require.Equal(t, []httplimit.Policy{{Name: "uploads", InFlight: true, Next: never,
		Decision: sketchlimit.Decision{Limit: 2, RetryAfter: never, ResetAfter: never}}}, refused)
	require.Zero(t, in.Stats().Units)
	require.EqualValues(t, 2, rate.Stats().Admitted, "what is refused in flight is not counted")

	// What a rate refuses is not in flight.
	refused = nil
	statuses(limit(http.NotFoundHandler()), 4, user("ann"))
	require.Len(t, refused, 1)
	require.Equal(t, "minute", refused[0].Name)
	require.Zero(t, in.Stats().Units)
}

// Alone, what is in flight is what clients are told.
func TestInFlightAlone(t *testing.T) {
	in, cost := concurrency(t, 3), 2
	h := allOf(t, []httplimit.Quota{{Name: "a", InFlight: in, Key: byUser}}, httplimit.Headers(all),
		httplimit.Cost(func(*http.Request) int { return cost }))
	require.Equal(t, `"a";q=3;qu="concurrent-requests" | "a";r=1 | - | 3 | 1 | - | -`, sent(get(h, user("ann")).Header()))
	for _, cost = range []int{4, -1} {
		w := get(h, user("ann"))
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, `"a";q=3;qu="concurrent-requests" | "a";r=3 | - | 3 | 3 | - | -`, sent(w.Header()))
	}
	require.Zero(t, in.Stats().Units)
}

// A dry run holds what it would admit, and refuses nobody.
func TestInFlightShadow(t *testing.T) {
	in, depth, deepest := concurrency(t, 2), 0, 0
	limit, err := httplimit.NewAll([]httplimit.Quota{{Name: "a", InFlight: in, Key: byUser}}, httplimit.Shadow())
	require.NoError(t, err)
	var h http.Handler
	h = limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		require.Equal(t, min(depth+1, 2), in.Held("ann"))
		if depth++; depth < 4 {
			get(h, user("ann"))
		}
		deepest = max(deepest, depth)
	}))
	get(h, user("ann"))
	require.Equal(t, 4, deepest)
	require.Zero(t, in.Stats().Units)
	require.EqualValues(t, 2, in.Stats().Denied)
}

// However a handler ends, what it held is given back: over real connections.
func TestInFlightIsGivenBack(t *testing.T) {
	in := concurrency(t, 1)
	limit, err := httplimit.NewAll([]httplimit.Quota{{Name: "a", InFlight: in, Key: byUser}})
	require.NoError(t, err)
	entered := make(chan struct{})
	handle := map[string]http.HandlerFunc{
		"/returns": func(http.ResponseWriter, *http.Request) {},
		"/panics":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"/waits": func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
		},
		"/hijacks": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				assert.Equal(t, 1, in.Held(""))
				conn.Close()
			}
		},
	}
	var handlers sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer handlers.Done()
		limit(handle[r.URL.Path]).ServeHTTP(w, r)
	}))
	defer server.Close()
	for path, ok := range map[string]bool{"/returns": true, "/panics": false, "/waits": false, "/hijacks": false} {
		handlers.Add(1)
		ctx, cancel := context.WithCancel(t.Context())
		if path == "/waits" {
			go func() {
				<-entered
				assert.Equal(t, 1, in.Held(""))
				cancel()
			}()
		}
		r, err := http.NewRequestWithContext(ctx, "POST", server.URL+path, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.Equal(t, ok, err == nil, "%s: %v", path, err)
		if err == nil {
			require.NoError(t, response.Body.Close())
		}
		handlers.Wait()
		require.Zero(t, in.Stats().Units, path)
		cancel()
	}
	require.EqualValues(t, 4, in.Stats().Admitted)
}

// http.TimeoutHandler answers before its handler has ended. Inside of it the handler's
// units are held until it has.
func TestInFlightInsideOfTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := concurrency(t, 1)
		limit, err := httplimit.NewAll([]httplimit.Quota{{Name: "a", InFlight: in, Key: byUser}})
		require.NoError(t, err)
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) })
		h := http.TimeoutHandler(limit(slow), time.Second, "")
		require.Equal(t, []int{503, 429}, statuses(h, 2, user("ann")))
		time.Sleep(time.Hour)
		require.Equal(t, []int{503}, statuses(h, 1, user("ann")))
		time.Sleep(time.Hour)
	})
}

// Never are more handled at the same time than the limit, and none is forgotten: of
// many at once, half of which a rate refuses.
func TestInFlightConcurrently(t *testing.T) {
	in := concurrency(t, 3)
	rate, err := sketchlimit.New(sketchlimit.Config{Limit: 2000, Window: time.Hour, Keys: 100, Algorithm: sketchlimit.FixedWindow})
	require.NoError(t, err)
	defer rate.Close()
	limit, err := httplimit.NewAll([]httplimit.Quota{
		{Name: "a", InFlight: in, Key: byUser}, {Name: "b", Limiter: rate, Key: byUser},
	})
	require.NoError(t, err)
	var running, handled atomic.Int64
	h := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if running.Add(1) > 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		io.WriteString(w, "ok")
		handled.Add(1)
		running.Add(-1)
	}))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 500 {
				w := get(h, user("ann"))
				assert.NotEqual(t, http.StatusInternalServerError, w.Code)
			}
		})
	}
	group.Wait()
	require.Zero(t, in.Stats().Units)
	require.Positive(t, handled.Load())
	require.EqualValues(t, rate.Stats().Admitted, handled.Load(), "counted are those that were handled")
}

// A handler of a WebSocket, say, takes the connection over and stays as long as that is
// open.
func TestInFlightWhileHijacked(t *testing.T) {
	in := concurrency(t, 1)
	limit, err := httplimit.NewAll([]httplimit.Quota{{Name: "a", InFlight: in, Key: &httplimit.Clients{}}})
	require.NoError(t, err)
	done := make(chan struct{}, 3) // a handler that refuses has answered when it has ended
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, buffered, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			io.WriteString(conn, "open\n")
			io.Copy(io.Discard, buffered)
		})).ServeHTTP(w, r)
		done <- struct{}{}
	}))
	defer server.Close()
	dial := func() (net.Conn, string) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n")
		require.NoError(t, err)
		first := make([]byte, 4)
		_, err = io.ReadFull(conn, first)
		require.NoError(t, err)
		return conn, string(first)
	}
	first, answer := dial()
	require.Equal(t, "open", answer)
	second, answer := dial()
	require.Equal(t, "HTTP", answer)
	<-done
	require.NoError(t, second.Close())
	require.NoError(t, first.Close())
	<-done
	third, answer := dial()
	require.Equal(t, "open", answer)
	require.NoError(t, third.Close())
	<-done
}
