package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// asCommand makes the test binary the command itself.
const asCommand = "SKETCHLIMITD_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const clients = `domain: api
descriptors:
  - {key: client, rate_limit: {unit: year, requests_per_unit: 2}}
`

// environment is what all servers of tests have: ports that are free, and rules in a
// folder that is watched.
func environment(root string) map[string]string {
	return map[string]string{
		"HOST": "127.0.0.1", "PORT": "0", "GRPC_HOST": "127.0.0.1", "GRPC_PORT": "0", "DEBUG_HOST": "127.0.0.1", "DEBUG_PORT": "0",
		"LOG_LEVEL": "info", "USE_STATSD": "false", "DISABLE_STATS": "true", "MEMORY": "4MiB",
		"RUNTIME_ROOT": root, "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_WATCH_ROOT": "false",
	}
}

// written writes files below a new folder, and returns it.
func written(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(root, name), text)
	}
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// log is what a server logs.
type log struct {
	t     *testing.T
	mu    sync.Mutex
	lines []string
	next  int // of lines that have not been waited for
	more  chan struct{}
}

func newLog(t *testing.T, r io.Reader) *log {
	l := &log{t: t, more: make(chan struct{}, 1)}
	go func() {
		scanner := bufio.NewScanner(r)
		for scanner.Scan() {
			l.mu.Lock()
			l.lines = append(l.lines, scanner.Text())
			l.mu.Unlock()
			select {
			case l.more <- struct{}{}:
			default:
			}
		}
	}()
	return l
}

// wait returns the next line that has the part.
func (l *log) wait(part string) string {
	l.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		l.mu.Lock()
		for l.next < len(l.lines) {
			line := l.lines[l.next]
			l.next++
			if strings.Contains(line, part) {
				l.mu.Unlock()
				return line
			}
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-deadline:
			l.mu.Lock()
			require.FailNow(l.t, "not logged: "+part, strings.Join(l.lines, "\n"))
		}
	}
}

func (l *log) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

var addressOf = regexp.MustCompile(`address=(\S+)`)

// address waits until something is listened for.
func (l *log) address(what string) string {
	l.t.Helper()
	return addressOf.FindStringSubmatch(l.wait("listening for=" + what))[1]
}

// running is a server of a test.
type running struct {
	*log
	stop            context.CancelFunc
	done            chan error
	grpc, http, ops string // addresses
}

// start runs a server with these variables until the test ends.
func start(t *testing.T, variables map[string]string) *running {
	t.Helper()
	r := launch(t, variables)
	r.grpc, r.http, r.ops = r.address("gRPC"), r.address("HTTP"), r.address("debugging")
	return r
}

// launch is start without waiting.
func launch(t *testing.T, variables map[string]string) *running {
	t.Helper()
	for name, value := range variables {
		t.Setenv(name, value)
	}
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	r := &running{log: newLog(t, reader), stop: cancel, done: make(chan error, 1)}
	go func() {
		err := run(ctx, writer)
		writer.Close()
		r.done <- err
	}()
	t.Cleanup(func() { cancel(); r.end() })
	return r
}

// end stops the server, and returns what it says in the end.
func (r *running) end() error {
	r.stop()
	err := <-r.done
	r.done <- err
	return err
}

// dial returns a client of the service.
func dial(t *testing.T, address string, options ...grpc.DialOption) (ratelimitv3.RateLimitServiceClient, *grpc.ClientConn) {
	t.Helper()
	if len(options) == 0 {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn, err := grpc.NewClient(address, options...)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return ratelimitv3.NewRateLimitServiceClient(conn), conn
}

// ask asks for a request of a client.
func ask(domain, key, value string) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: domain, Descriptors: []*commonv3.RateLimitDescriptor{
		{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}},
	}}
}

// allowed returns whether a client's request is admitted, and the limit.
func allowed(t *testing.T, c ratelimitv3.RateLimitServiceClient, client string) (bool, uint32) {
	t.Helper()
	response, err := c.ShouldRateLimit(t.Context(), ask("api", "client", client))
	require.NoError(t, err)
	return response.OverallCode == ratelimitv3.RateLimitResponse_OK, response.Statuses[0].GetCurrentLimit().GetRequestsPerUnit()
}

// get returns the status and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}
