package caddylimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	_ "github.com/caddyserver/caddy/v2/modules/metrics"
	"github.com/stretchr/testify/require"
)

// TestMain keeps the number of the instance out of the user's own folder.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "caddylimit")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_DATA_HOME", dir)
	os.Setenv("XDG_CONFIG_HOME", dir)
	caddy.RegisterModule(new(logs))
	caddy.RegisterModule(new(listener))
	caddy.RegisterModule(new(closing))
	httpcaddyfile.RegisterGlobalOption("listener", func(*caddyfile.Dispenser, any) (any, error) {
		return httpcaddyfile.App{Name: "events", Value: []byte(
			`{"subscriptions": [{"events": ["rate_limit_exceeded"], "handlers": [{"handler": "caddylimit"}]}]}`)}, nil
	})
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// server is Caddy, until the test ends. It listens at a socket in a folder: a port of
// TCP has one socket for each config, and connections that wait at that of the former
// config are lost.
type server struct {
	t       *testing.T
	storage string
	bind    string // and port
	client  *http.Client
	turn    int // of configs
	own     int // connections in turn that say which config serves
}

func newServer(t *testing.T) *server {
	dir, err := os.MkdirTemp("", "caddylimit") // a short name, as sockets need it
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	s := start(t, "http://", "unix/"+path)
	s.own = 2 // both servers wait for them in one queue
	s.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return s
}

// newTCPServer is one at a free port of the loopback.
func newTCPServer(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	s := start(t, fmt.Sprintf("http://:%d", l.Addr().(*net.TCPAddr).Port), "127.0.0.1")
	s.own = 30 // Linux chooses one of the servers for each at random
	s.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
	return s
}

func start(t *testing.T, site, bind string) *server {
	s := &server{t: t, storage: t.TempDir(), bind: site + " {\n\tbind " + bind}
	s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	written.Reset()
	t.Cleanup(func() { require.NoError(t, caddy.Stop()) })
	return s
}

// adapt returns the config of a site with these directives.
func (s *server) adapt(directives string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(fmt.Appendf(nil, `{
	admin off
	persist_config off
	auto_https off
	grace_period 10s
	storage file_system %s
	listener
	log {
		output caddylimit
	}
	servers {
		protocols h1 h2c
	}
}
%s
	redir /turn /%d 302
	%s
	respond ok
}
`, s.storage, s.bind, s.turn, directives), nil)
	return config, err
}

// try loads a config, and returns what is wrong with it.
func (s *server) try(directives string) error {
	config, err := s.adapt(directives)
	if err == nil {
		err = caddy.Load(config, true)
	}
	return err
}

// load loads a config, and waits until the server of the former one accepts nothing: it
// ends some time after Load. By then several connections in turn are the new one's.
func (s *server) load(directives string) {
	s.t.Helper()
	s.turn++
	require.NoError(s.t, s.try(directives))
	for own := 0; own < s.own; own++ {
		r, err := http.NewRequest("GET", "http://caddy/turn", nil)
		require.NoError(s.t, err)
		response, closed, err := s.do(r)
		require.NoError(s.t, err)
		response.Body.Close()
		if closed > 0 || response.Header.Get("Location") != fmt.Sprint("/", s.turn) {
			own = -1
		}
	}
}

// limit is a handler with one zone.
func limit(zone string, handler ...string) string {
	return fmt.Sprintf("sketch_rate_limit {\nzone api {\n%s\n}\n%s\n}\n", zone, strings.Join(handler, "\n"))
}

// ask sends a request, and returns the response and its body.
func (s *server) ask(method, path string, header ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, "http://caddy"+path, nil)
	require.NoError(s.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, _, err := s.do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response, string(body)
}

// do sends a request, again if its connection was closed: when another config comes,
// the server of the former one closes connections whose first request it has not begun.
// It also returns how often that was so.
func (s *server) do(r *http.Request) (response *http.Response, closed int, err error) {
	for ; closed < 1000; closed++ {
		response, err = s.client.Do(r)
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			break
		}
	}
	return response, closed, err
}

// want sends requests, each of which is to have the status.
func (s *server) want(status, times int, method, path string, header ...string) {
	s.t.Helper()
	for i := range times {
		response, _ := s.ask(method, path, header...)
		require.Equal(s.t, status, response.StatusCode, "request %d of %d", i+1, times)
	}
}

// setTime sets the clock of limiters that are made from now on, until the test ends.
func setTime(t *testing.T, start time.Time) (advance func(time.Duration)) {
	var now atomic.Int64
	now.Store(start.UnixNano())
	clock = func() time.Time { return time.Unix(0, now.Load()) }
	t.Cleanup(func() { clock = nil })
	return func(d time.Duration) { now.Add(int64(d)) }
}

// minute is when a window of a minute or an hour begins.
var minute = time.Unix(1_000_000*3600, 0)

// written is what Caddy has logged.
var written buffer

type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) Close() error { return nil }

func (b *buffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// logs is where Caddy logs to.
type logs struct{}

func (*logs) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.caddylimit", New: func() caddy.Module { return new(logs) }}
}
func (*logs) String() string                                { return "caddylimit" }
func (*logs) WriterKey() string                             { return "caddylimit" }
func (*logs) OpenWriter() (io.WriteCloser, error)           { return &written, nil }
func (*logs) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// listener collects events.
type listener struct{}

var heard struct {
	sync.Mutex
	events []map[string]any
}

func (*listener) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.caddylimit", New: func() caddy.Module { return new(listener) }}
}

func (*listener) Handle(_ context.Context, e caddy.Event) error {
	heard.Lock()
	defer heard.Unlock()
	heard.events = append(heard.events, e.Data)
	return nil
}
