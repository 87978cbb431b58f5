package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGenerate(t *testing.T) {
	var clients sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clients.Store(r.Header.Get("X-Forwarded-For"), true)
	}))
	defer server.Close()
	rate, err := generate(t.Context(), server.Listener.Addr().String(), 100*time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, rate)
	n := 0
	clients.Range(func(any, any) bool { n++; return true })
	require.Greater(t, n, 1)

	server.Config.Handler = http.NotFoundHandler()
	_, err = generate(t.Context(), server.Listener.Addr().String(), time.Minute)
	require.ErrorContains(t, err, "answered 404 Not Found")
}

func TestRate(t *testing.T) {
	const out = "  40 requests in 1.00s, 1MB read\nRequests/sec:  12345.67\nTransfer/sec: 1MB\n"
	got, err := rate(out)
	require.NoError(t, err)
	require.Equal(t, 12345.67, got)
	for _, bad := range []string{"", "  Non-2xx or 3xx responses: 7\n" + out, "  Socket errors: connect 1, read 0, write 0, timeout 0\n" + out} {
		_, err := rate(bad)
		require.ErrorContains(t, err, "wrk: "+bad)
	}
}

func TestResult(t *testing.T) {
	r := result{
		sides: []*side{
			{name: "handler alone", runs: []speed{{100, 5e-6}, {90, 3e-6}, {110, 4e-6}, {400, 1e-6}, {1, 9e-6}}},
			{name: "behind its limits", runs: []speed{{96, 7e-6}, {95, 7e-6}, {97, 1e-6}, {300, 6e-6}, {2, 6e-6}}},
		},
		heap: 3 << 20,
	}
	r.status.Requests, r.status.MemoryBytes = 7, 3<<20
	text := r.markdown("wrk", 4*time.Second)
	require.Contains(t, text, "| requests a second | | | | | | median | cost | CPU |\n|---|---|---|---|---|---|---|---|---|\n"+
		"| handler alone | 100 | 90 | 110 | 400 | 1 | 100 | 0.0 % | 4.0 µs |\n"+
		"| behind its limits | 96 | 95 | 97 | 300 | 2 | 96 | 4.0 % | 6.0 µs |\n")
	require.Contains(t, text, "They state 3.00 MiB, and the heap of the service has\n3.00 MiB more than")

	file := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(file, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600))
	require.NoError(t, insert(file, "new\n"))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before\n"+begin+"new\n"+end+"after\n", string(got))
	require.NoError(t, os.WriteFile(file, []byte(end+begin), 0o600))
	require.ErrorContains(t, insert(file, "new\n"), "no ")
}
