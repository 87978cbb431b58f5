package main

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkLimits measures what the limits cost a request: time, bytes and allocations
// of a server with them less those of one without, which take turns. The requests are
// those of bench, over connections in memory: the operating system's part is not in it.
func BenchmarkLimits(b *testing.B) {
	alone, behind := newServer(b, true), newServer(b, false)
	alone.serve(2000)
	behind.serve(2000)
	const n = 500 // requests a turn
	var extra []float64
	var mallocs, bytes uint64
	b.ResetTimer()
	for range max(b.N/n, 1) {
		without, with := alone.serve(n), behind.serve(n)
		extra = append(extra, float64(with.time-without.time)/n)
		mallocs += with.mallocs - without.mallocs
		bytes += with.bytes - without.bytes
	}
	slices.Sort(extra)
	requests := float64(n * len(extra))
	b.ReportMetric(extra[len(extra)/2], "ns/limits")
	b.ReportMetric(float64(mallocs)/requests, "allocs/limits")
	b.ReportMetric(float64(bytes)/requests, "B/limits")
	require.Zero(b, behind.service.requests.Load()-behind.service.passed.Load())
}

// server is an HTTP server without a network.
type server struct {
	service *service
	wires   chan net.Conn
}

func newServer(b *testing.B, unlimited bool) *server {
	file := "rules.yaml"
	if unlimited {
		file = filepath.Join(b.TempDir(), "none.yaml")
		require.NoError(b, os.WriteFile(file, []byte("domain: none\n"), 0o600))
	}
	s, err := newService(config{
		file: file, bytes: 64 << 20, proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, unlimited: unlimited, top: time.Hour,
	}, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	server := &server{s, make(chan net.Conn)}
	go (&http.Server{Handler: s.api}).Serve(server)
	b.Cleanup(func() { close(server.wires) })
	return server
}

func (s *server) Accept() (net.Conn, error) {
	if conn, ok := <-s.wires; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (s *server) Close() error   { return nil }
func (s *server) Addr() net.Addr { return &net.TCPAddr{} }

// spent is what requests took.
type spent struct {
	time           time.Duration
	mallocs, bytes uint64
}

// serve answers n requests.
func (s *server) serve(n int) spent {
	var before, after runtime.MemStats
	w := &wire{left: n, closed: make(chan struct{})}
	runtime.ReadMemStats(&before)
	start := time.Now()
	s.wires <- w
	<-w.closed
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return spent{took, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}

// wire is a connection on which a request is there whenever one is read.
type wire struct {
	net.Conn
	left   int    // requests
	next   []byte // what is left of one
	memory []byte
	closed chan struct{}
}

func (w *wire) Read(p []byte) (n int, err error) {
	if len(w.next) == 0 {
		if w.left == 0 {
			return 0, io.EOF
		}
		w.left--
		client := rand.Uint32N(1 << 20)
		b := append(w.memory[:0], "GET /items/1 HTTP/1.1\r\nHost: service\r\nX-Forwarded-For: 11."...)
		b = append(strconv.AppendUint(b, uint64(client>>16), 10), '.')
		b = append(strconv.AppendUint(b, uint64(client>>8&255), 10), '.')
		b = append(strconv.AppendUint(b, uint64(client&255), 10), "\r\n\r\n"...)
		w.memory, w.next = b, b
	}
	n = copy(p, w.next)
	w.next = w.next[n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error)      { return len(p), nil }
func (w *wire) Close() error                     { close(w.closed); return nil }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
func (w *wire) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (w *wire) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000} }
