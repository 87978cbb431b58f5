package httplimit_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// till is a real server of one handler, whose requests hold 1000 units each of a budget.
type till struct {
	*testing.T
	b      *budget.Budget
	server *httptest.Server
	ended  sync.WaitGroup // handlers
}

// newTill serves one: outer, if there is one, stands outside of the budget.
func newTill(
	t *testing.T, http2 bool, s httplimit.Spending, h http.Handler, outer func(http.Handler) http.Handler,
) *till {
	s.Budget, s.Names, s.Key, s.AtMost = purse(t, 1_000_000, newClock()), []string{"minute", "day"}, byUser, atMost(1000)
	limit, err := httplimit.NewBudget(s)
	require.NoError(t, err)
	k := &till{T: t, b: s.Budget}
	limited := limit(h)
	h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer k.ended.Done()
		limited.ServeHTTP(w, r)
	})
	if outer != nil {
		h = outer(h)
	}
	k.server = httptest.NewUnstartedServer(h)
	k.server.EnableHTTP2 = http2
	k.server.Config.ErrorLog = quiet
	if http2 {
		k.server.StartTLS()
	} else {
		k.server.Start()
	}
	t.Cleanup(k.server.Close)
	return k
}

// ask sends a request, reads the answer, and waits until the handler has ended. The
// body is "" if the answer broke off.
func (k *till) ask(ctx context.Context, method string) (answer *http.Response, body string) {
	k.ended.Add(1)
	r, err := http.NewRequestWithContext(ctx, method, k.server.URL, nil)
	require.NoError(k, err)
	if answer, err = k.server.Client().Do(r); err == nil {
		text, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err == nil {
			body = string(text)
		}
	}
	k.ended.Wait()
	return answer, body
}

// settled expects the books: nothing is held, and so much is settled.
func (k *till) settled(want int) {
	k.Helper()
	stats := k.b.Stats()
	require.EqualValues(k, want, stats.Settled)
	require.Zero(k, stats.Held)
	require.Zero(k, stats.Open)
	require.Zero(k, stats.Expired)
}

var (
	quiet     = log.New(io.Discard, "", 0) // of servers, about handlers that panic
	bytesUsed = httplimit.Spending{Used: httplimit.BytesWritten}
	fieldUsed = httplimit.Spending{Field: "X-Used"}
	hidden    = httplimit.Spending{Field: "X-Used", HideField: true}
)

// However a response ends, in HTTP/1 and HTTP/2, the books agree with it.
func TestBudgetSettles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, make([]byte, 700), 0o600))
	write := func(w io.Writer, n int) { io.WriteString(w, strings.Repeat("x", n)) }
	for _, c := range []struct {
		name    string
		s       httplimit.Spending
		handle  http.HandlerFunc
		method  string
		settled int
		body    int // bytes that the client gets
	}{
		{"bytes", bytesUsed, func(w http.ResponseWriter, _ *http.Request) {
			w.Write(make([]byte, 300))
			write(w, 200)
		}, "GET", 500, 500},
		{"above what is held", bytesUsed, func(w http.ResponseWriter, _ *http.Request) { write(w, 5000) }, "GET", 5000, 5000},
		{"a file", bytesUsed, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }, "GET", 700, 700},
		{"HEAD of a file", bytesUsed, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }, "HEAD", 0, 0},
		{"HEAD", bytesUsed, func(w http.ResponseWriter, _ *http.Request) { write(w, 500) }, "HEAD", 0, 0},
		{"nothing", bytesUsed, func(http.ResponseWriter, *http.Request) {}, "GET", 0, 0},
		{"a status", bytesUsed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "GET", 0, 0},
		{"no body may be", bytesUsed, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			write(w, 500)
		}, "GET", 0, 0},
		{"more than was said", bytesUsed, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "400")
			write(w, 400)
			http.NewResponseController(w).Flush()
			write(w, 100)
		}, "GET", 400, 400},
		{"early hints", bytesUsed, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			write(w, 500)
		}, "GET", 500, 500},
		{"a panic", bytesUsed, func(http.ResponseWriter, *http.Request) { panic("as it may") }, "GET", 1000, 0},
		{"an abort", bytesUsed, func(w http.ResponseWriter, _ *http.Request) {
			write(w, 500)
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "GET", 1000, 0},
		{"an abort that is settled", bytesUsed, func(w http.ResponseWriter, r *http.Request) {
			hold, _ := httplimit.HoldOf(r)
			hold.Settle(7)
			panic(http.ErrAbortHandler)
		}, "GET", 7, 0},
		{"an abort that has extended", bytesUsed, func(w http.ResponseWriter, r *http.Request) {
			hold, _ := httplimit.HoldOf(r)
			assert.True(t, hold.Extend(50).Allowed)
			panic(http.ErrAbortHandler)
		}, "GET", 1050, 0},
		{"nobody settles", httplimit.Spending{}, func(w http.ResponseWriter, _ *http.Request) { write(w, 500) }, "GET", 1000, 500},
		{"a field", fieldUsed, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Used", "42")
			write(w, 500)
		}, "GET", 42, 500},
		{"a hidden field", hidden, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Used", "42")
			w.WriteHeader(http.StatusAccepted)
			write(w, 500)
		}, "GET", 42, 500},
		{"a hidden field without a body", hidden, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Used", "42")
		}, "GET", 42, 0},
		{"a hidden field, flushed", hidden, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Used", "42")
			w.(http.Flusher).Flush()
		}, "GET", 42, 0},
		{"a hidden field of a file", hidden, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Used", "42")
			w.(io.ReaderFrom).ReadFrom(strings.NewReader("hello"))
		}, "GET", 42, 5},
		{"a hidden field of hints", hidden, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Used", "41")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("X-Used", "42")
			write(w, 500)
		}, "GET", 42, 500},
		{"a field without a value", fieldUsed, func(w http.ResponseWriter, _ *http.Request) { write(w, 500) }, "GET", 1000, 500},
		{"a field before a panic", fieldUsed, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Used", "42")
			panic(http.ErrAbortHandler)
		}, "GET", 1000, 0},
		{"a trailer", fieldUsed, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Used")
			write(w, 500)
			w.Header().Set("X-Used", "42")
		}, "GET", 42, 500},
		{"a trailer after a field", fieldUsed, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Used", "41")
			write(w, 500)
			http.NewResponseController(w).Flush() // or there will be no trailers
			w.Header().Set(http.TrailerPrefix+"x-used", "42")
		}, "GET", 42, 500},
		{"a hidden trailer", hidden, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Used, X-Other")
			write(w, 500)
			w.Header().Set("X-Other", "kept")
			w.Header().Set("X-Used", "42")
		}, "GET", 42, 500},
		{"a hidden trailer that was not declared", hidden, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Used", "41")
			write(w, 500)
			http.NewResponseController(w).Flush() // or there will be no trailers
			w.Header().Set(http.TrailerPrefix+"X-Used", "42")
			w.Header().Set(http.TrailerPrefix+"X-Other", "kept")
		}, "GET", 42, 500},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: ", HTTP/2"}[http2], func(t *testing.T) {
				k := newTill(t, http2, c.s, c.handle, nil)
				informed := http.Header{}
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { informed = http.Header(h); return nil },
				})
				answer, body := k.ask(ctx, c.method)
				k.settled(c.settled)
				require.Len(t, body, c.body)
				if answer == nil {
					return
				}
				for _, h := range []http.Header{informed, answer.Header, answer.Trailer} {
					require.NotContains(t, h.Values("Trailer"), "X-Used")
					if c.s.HideField {
						require.NotContains(t, h, "X-Used")
					}
				}
				if strings.Contains(c.name, "hidden trailer") {
					require.Equal(t, "kept", answer.Trailer.Get("X-Other"))
				} else if strings.Contains(c.name, "trailer") {
					require.Equal(t, "42", answer.Trailer.Get("X-Used"))
				}
			})
		}
	}
}
