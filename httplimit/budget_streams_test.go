package httplimit_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Events reach the client as they are written, and those that it has gone from are
// counted as far as they were taken.
func TestBudgetStreams(t *testing.T) {
	const event = "data: hello\n\n"
	for _, http2 := range []bool{false, true} {
		next, taken := make(chan struct{}), 0
		k := newTill(t, http2, bytesUsed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			flusher, ok := w.(http.Flusher)
			if !assert.True(t, ok) {
				return
			}
			for taken = 0; r.Context().Err() == nil; {
				n, _ := io.WriteString(w, event)
				taken += n
				flusher.Flush()
				select {
				case <-next:
				case <-r.Context().Done():
				}
			}
		}), nil)
		ctx, cancel := context.WithCancel(t.Context())
		k.ended.Add(1)
		r, err := http.NewRequestWithContext(ctx, "GET", k.server.URL, nil)
		require.NoError(t, err)
		answer, err := k.server.Client().Do(r)
		require.NoError(t, err)
		for i := range 11 { // cancel comes when the handler waits, or else it may not begin the last event
			got := make([]byte, len(event))
			_, err := io.ReadFull(answer.Body, got)
			require.NoError(t, err)
			require.Equal(t, event, string(got))
			require.EqualValues(t, 1000, k.b.Stats().Held)
			if i < 10 {
				next <- struct{}{}
			}
		}
		cancel()
		k.ended.Wait()
		require.Equal(t, 11*len(event), taken)
		k.settled(taken)
		answer.Body.Close()
	}
}

// A handler that waits for its client to go.
func TestBudgetCancelled(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		entered := make(chan struct{})
		k := newTill(t, http2, bytesUsed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "hello")
			close(entered)
			<-r.Context().Done()
		}), nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-entered
			assert.EqualValues(t, 1000, k.b.Stats().Held)
			cancel()
		}()
		k.ask(ctx, "POST")
		k.settled(5)
	}
}

// A connection that is taken over: what was written before, or what the handler settles
// itself.
func TestBudgetHijacked(t *testing.T) {
	var seen httplimit.Response
	for _, c := range []struct {
		s       httplimit.Spending
		settle  int
		settled int
	}{
		{bytesUsed, -1, 0},
		{bytesUsed, 5, 5},
		{httplimit.Spending{Used: func(r *httplimit.Response) (int, bool) { seen = *r; return 9, true }}, -1, 9},
		{fieldUsed, -1, 42},
		{httplimit.Spending{}, -1, 1000},
	} {
		k := newTill(t, false, c.s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Used", "42")
			conn, _, err := w.(http.Hijacker).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
			_, err = w.Write([]byte("more"))
			assert.ErrorIs(t, err, http.ErrHijacked)
			if hold, ok := httplimit.HoldOf(r); assert.True(t, ok) && c.settle >= 0 {
				assert.True(t, hold.Settle(c.settle))
			}
		}), nil)
		_, body := k.ask(t.Context(), "GET")
		require.Equal(t, "hello", body)
		k.settled(c.settled)
	}
	require.Zero(t, seen.Status)

	k := newTill(t, true, bytesUsed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, ok := w.(http.Hijacker)
		assert.False(t, ok, "HTTP/2 has none")
		_, _, err := http.NewResponseController(w).Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
	}), nil)
	k.ask(t.Context(), "GET")
	k.settled(0)
}

// Of a time-out inside, what its answer takes; of one outside, what the handler wrote
// before and after its time.
func TestBudgetTimesOut(t *testing.T) {
	release, taken := make(chan struct{}), make(chan int, 2)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, ok := w.(http.Flusher)
		assert.False(t, ok, "http.TimeoutHandler has none")
		assert.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
		n, _ := io.WriteString(w, "hello") // 0 if the machine is so slow
		taken <- n
		<-r.Context().Done()
		<-release
		_, err := io.WriteString(w, "too late")
		assert.ErrorIs(t, err, http.ErrHandlerTimeout)
	})
	timeout := func(h http.Handler) http.Handler { return http.TimeoutHandler(h, 10*time.Millisecond, "gone") }

	k := newTill(t, false, bytesUsed, timeout(slow), nil)
	answer, body := k.ask(t.Context(), "GET")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "gone", body)
	k.settled(len("gone"))
	<-taken

	k = newTill(t, false, bytesUsed, slow, timeout)
	k.ended.Add(1)
	answer, err := http.Get(k.server.URL)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.NoError(t, answer.Body.Close())
	require.EqualValues(t, 1000, k.b.Stats().Held, "the handler runs")
	close(release)
	k.ended.Wait()
	k.settled(<-taken)

	var status int // of a handler that cannot flush, which sends nothing yet
	seen := httplimit.Spending{Used: func(r *httplimit.Response) (int, bool) { status = r.Status; return 0, true }}
	k = newTill(t, false, seen, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.Error(t, http.NewResponseController(w).Flush())
		w.WriteHeader(http.StatusTeapot)
	}), func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "") })
	answer, _ = k.ask(t.Context(), "GET")
	require.Equal(t, []int{http.StatusTeapot, http.StatusTeapot}, []int{answer.StatusCode, status})

	field := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Used", "42") })
	k = newTill(t, false, fieldUsed, field, func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "") })
	answer, _ = k.ask(t.Context(), "GET")
	require.Equal(t, "42", answer.Header.Get("X-Used"))
	k.settled(42)
}

// A reverse proxy hands on what its upstream has used, as a field or a trailer; if the
// upstream breaks off, nobody knows.
func TestBudgetReverseProxy(t *testing.T) {
	for _, c := range []struct {
		name    string
		s       httplimit.Spending
		handle  http.HandlerFunc
		settled int
	}{
		{"a field", hidden, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Used", "42") }, 42},
		{"a trailer", hidden, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Used")
			io.WriteString(w, "hello")
			w.Header().Set("X-Used", "42")
		}, 42},
		{"a trailer that was not declared", hidden, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "hello")
			http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+"X-Used", "42")
		}, 42},
		{"an end in the midst", bytesUsed, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "hello")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 1000},
		{"another protocol", bytesUsed, func(w http.ResponseWriter, r *http.Request) {
			conn, buffered, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				line, _ := buffered.ReadString('\n')
				io.WriteString(conn, line)
				conn.Close()
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			upstream := httptest.NewServer(c.handle)
			defer upstream.Close()
			to, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ErrorLog: quiet}
			k := newTill(t, false, c.s, proxy, nil)
			if c.name == "another protocol" {
				k.echo()
			} else {
				answer, _ := k.ask(t.Context(), "GET")
				require.NotContains(t, answer.Header, "X-Used")
				require.NotContains(t, answer.Trailer, "X-Used")
			}
			k.settled(c.settled)
		})
	}
}

// echo speaks another protocol with the server, until that closes the connection.
func (k *till) echo() {
	k.ended.Add(1)
	r, err := http.NewRequest("GET", k.server.URL, nil)
	require.NoError(k, err)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	answer, err := k.server.Client().Do(r)
	require.NoError(k, err)
	require.Equal(k, http.StatusSwitchingProtocols, answer.StatusCode)
	_, err = io.WriteString(answer.Body.(io.Writer), "hello\n")
	require.NoError(k, err)
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	require.NoError(k, err)
	require.Equal(k, "hello\n", line)
	answer.Body.Close()
	k.ended.Wait()
}
