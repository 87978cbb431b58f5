package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestServer(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	variables["DEBUG_SHOW_KEYS"] = "true"
	s := start(t, variables)
	client, conn := dial(t, s.grpc)
	for _, want := range []bool{true, true, false} {
		got, limit := allowed(t, client, "ann")
		require.Equal(t, want, got)
		require.EqualValues(t, 2, limit)
	}
	_, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{})
	require.Equal(t, codes.Unknown, status.Code(err))
	require.ErrorContains(t, err, "rate limit domain must not be empty")
	for _, name := range []string{"", "ratelimit"} {
		h, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
		require.NoError(t, err)
		require.Equal(t, healthv1.HealthCheckResponse_SERVING, h.Status)
	}

	code, body := get(t, "http://"+s.http+"/healthcheck")
	require.Equal(t, "200 OK", fmt.Sprint(code, " ", body))
	response, err := http.Post("http://"+s.http+"/json", "", strings.NewReader(`{"domain":"api","descriptors":[{"entries":[{"key":"client","value":"ann"}]}]}`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)

	for path, want := range map[string]string{
		"/":                   "/rlconfig: ",
		"/rlconfig":           "api.client: unit=YEAR requests_per_unit=2, shadow_mode: false, quota_mode: false\n",
		"/stats":              "memstats: ",
		"/metrics":            `sketchlimit_admitted_units_total{limiter="api.client"} 2` + "\n",
		"/debug/pprof/":       "goroutine",
		"/debug/pprof/symbol": "", // not there: the index
		"/limits/":            "<title>Limits</title>",
		"/limits/status":      `"top":{"since":`,
	} {
		code, body := get(t, "http://"+s.ops+path)
		if path == "/debug/pprof/symbol" {
			require.Equal(t, http.StatusNotFound, code)
			continue
		}
		require.Equal(t, http.StatusOK, code)
		require.Contains(t, body, want)
	}
	_, body = get(t, "http://"+s.ops+"/limits/status")
	require.Contains(t, body, `"requests":4,"refused":2`)
	require.Eventually(t, func() bool { // the keys are those of the present minute, which may have just begun
		allowed(t, client, "ann")
		_, body = get(t, "http://"+s.ops+"/limits/status")
		return strings.Contains(body, `{"policy":"api.client","key":"client=ann","count":`)
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, s.end())
}

// What changes in the folder is loaded. What is wrong is told, and counts stay.
func TestReload(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	s := start(t, environment(root))
	client, _ := dial(t, s.grpc)
	allowed(t, client, "ann")
	config := filepath.Join(root, "ratelimit/config")

	write(t, filepath.Join(config, "other.yaml"), "domain: other")
	s.wait("rules loaded")
	write(t, filepath.Join(config, "wrong.yaml"), "domain: other")
	require.Contains(t, s.wait("rules stay as they are"), "wrong.yaml: duplicate domain 'other' in config file")
	require.NoError(t, os.Remove(filepath.Join(config, "wrong.yaml")))
	s.wait("rules loaded")
	ok, _ := allowed(t, client, "ann")
	require.True(t, ok)
	ok, _ = allowed(t, client, "ann")
	require.False(t, ok, "the first one counts")

	write(t, filepath.Join(config, "below/more.yml"), "domain: more\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]")
	s.wait("rules loaded")
	write(t, filepath.Join(config, "below/more.yml"), "domain: more\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 7}}]")
	require.Eventually(t, func() bool {
		_, body := get(t, "http://"+s.ops+"/rlconfig")
		return strings.Contains(body, "more.a: unit=DAY requests_per_unit=7")
	}, 30*time.Second, 10*time.Millisecond, "folders below are watched, too")

	write(t, filepath.Join(config, "most.yaml"), "domain: most\ndescriptors: [{key: a, value: b, rate_limit: {unit: day, requests_per_unit: 4000000000}}]")
	require.Contains(t, s.wait("a rule is not as its file says"), "most.yaml:2: requests_per_unit 4000000000, is held to 2147483647")
}

// RUNTIME_ROOT is a link that is put in the place of the one before, as deployments do;
// no other change is heeded.
func TestReloadByLink(t *testing.T) {
	root := written(t, map[string]string{
		"one/ratelimit/config/api.yaml": clients,
		"two/ratelimit/config/api.yaml": strings.ReplaceAll(clients, "requests_per_unit: 2", "requests_per_unit: 3"),
	})
	link := filepath.Join(root, "current")
	swap := func(target string) {
		require.NoError(t, os.Symlink(filepath.Join(root, target), link+".new"))
		require.NoError(t, os.Rename(link+".new", link))
	}
	swap("one")
	variables := environment(link)
	variables["RUNTIME_WATCH_ROOT"] = "true"
	s := start(t, variables)
	client, _ := dial(t, s.grpc)
	_, limit := allowed(t, client, "ann")
	require.EqualValues(t, 2, limit)
	swap("two")
	s.wait("rules loaded")
	_, limit = allowed(t, client, "ann")
	require.EqualValues(t, 3, limit)
}

// A ConfigMap: links to a folder that is replaced as a whole.
func TestReloadOfConfigMap(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/..1/api.yaml": clients})
	config := filepath.Join(root, "ratelimit/config")
	require.NoError(t, os.Symlink("..1", filepath.Join(config, "..data")))
	require.NoError(t, os.Symlink("..data/api.yaml", filepath.Join(config, "api.yaml")))
	s := start(t, environment(root))
	write(t, filepath.Join(config, "..2/api.yaml"), strings.ReplaceAll(clients, "requests_per_unit: 2", "requests_per_unit: 3"))
	require.NoError(t, os.Symlink("..2", filepath.Join(config, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(config, "..data_tmp"), filepath.Join(config, "..data")))
	require.NoError(t, os.RemoveAll(filepath.Join(config, "..1")))
	client, _ := dial(t, s.grpc)
	require.Eventually(t, func() bool {
		_, limit := allowed(t, client, "ann")
		return limit == 3
	}, 30*time.Second, 10*time.Millisecond)
}

// Wrong rules at the start: it serves, and says with each request that there are none.
func TestStartWithWrongRules(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": "doman: api"})
	s := start(t, environment(root))
	client, _ := dial(t, s.grpc)
	_, err := client.ShouldRateLimit(t.Context(), ask("api", "client", "ann"))
	require.ErrorContains(t, err, "no rate limit configuration loaded")
	code, _ := get(t, "http://"+s.http+"/healthcheck")
	require.Equal(t, http.StatusInternalServerError, code)

	write(t, filepath.Join(root, "ratelimit/config/api.yaml"), clients)
	s.wait("rules loaded")
	ok, _ := allowed(t, client, "ann")
	require.True(t, ok)
	code, _ = get(t, "http://"+s.http+"/healthcheck")
	require.Equal(t, http.StatusOK, code)

	require.NoError(t, os.Remove(filepath.Join(root, "ratelimit/config/api.yaml")))
	s.wait("there are none")
	code, _ = get(t, "http://"+s.http+"/healthcheck")
	require.Equal(t, http.StatusInternalServerError, code)
	response, err := client.ShouldRateLimit(t.Context(), ask("api", "client", "ann"))
	require.NoError(t, err)
	require.Equal(t, ratelimitv3.RateLimitResponse_OK, response.OverallCode)
	require.Contains(t, s.wait("no file has the domain"), "domain=api")
}

// Rules change all the time, some are wrong, and no request has an error or an answer
// of half of them.
func TestReloadUnderLoad(t *testing.T) {
	both := func(n int) string {
		return fmt.Sprintf("domain: api\ndescriptors:\n- {key: client, rate_limit: {unit: year, requests_per_unit: %d}}\n- {key: twin, rate_limit: {unit: year, requests_per_unit: %d}}\n", n, n)
	}
	root := written(t, map[string]string{"ratelimit/config/api.yaml": both(1000)})
	s := start(t, environment(root))
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var requests atomic.Int64
	for range 4 {
		client, _ := dial(t, s.grpc)
		wait.Go(func() {
			r := ask("api", "client", "ann")
			r.Descriptors = append(r.Descriptors, ask("api", "twin", "ann").Descriptors...)
			for ctx.Err() == nil {
				response, err := client.ShouldRateLimit(context.Background(), r)
				if err != nil || response.Statuses[0].GetCurrentLimit().GetRequestsPerUnit() != response.Statuses[1].GetCurrentLimit().GetRequestsPerUnit() {
					t.Errorf("%v, %v", response, err)
					return
				}
				requests.Add(1)
			}
		})
	}
	path := filepath.Join(root, "ratelimit/config/api.yaml")
	for i := range 20 {
		before := requests.Load()
		if i%5 == 4 {
			write(t, path, "domain: [")
			s.wait("rules stay as they are")
		} else {
			write(t, path, both(1001+i))
			s.wait("rules loaded")
		}
		require.Eventually(t, func() bool { return requests.Load() > before+10 }, 30*time.Second, time.Millisecond)
	}
	cancel()
	wait.Wait()
}

// Who watches the health hears of the end before the port closes.
func TestGracefulStop(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	s := start(t, environment(root))
	client, conn := dial(t, s.grpc)
	allowed(t, client, "ann")
	watch, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "ratelimit"})
	require.NoError(t, err)
	h, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, h.Status)
	s.stop()
	h, err = watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, h.Status)
	require.NoError(t, watch.CloseSend())
	conn.Close() // who watches would hold up the end for its time
	require.NoError(t, s.end())
	_, err = net.Dial("tcp", s.grpc)
	require.Error(t, err)
}

func TestSocket(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	variables["GRPC_UDS"] = filepath.Join(root, "socket")
	start(t, variables)
	client, _ := dial(t, "unix:"+variables["GRPC_UDS"])
	ok, _ := allowed(t, client, "ann")
	require.True(t, ok)
}

func TestStartErrors(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	_, port, err := net.SplitHostPort(busy.Addr().String())
	require.NoError(t, err)
	for variable, want := range map[string]string{
		"DEBUG_PORT=" + port:                                  "debugging: listen tcp",
		"RUNTIME_SUBDIRECTORY=nowhere":                        `RUNTIME_SUBDIRECTORY "nowhere", RUNTIME_WATCH_ROOT false: watch `,
		"SNAPSHOT_DIR=" + root + "/ratelimit/config/api.yaml": "SNAPSHOT_DIR",
		"GRPC_PORT=-1":                                        "GRPC_PORT -1, must be 0 … 65535",
		"LOG_LEVEL=loud":                                      `LOG_LEVEL "loud", must be trace`,
		"OVERRIDE_MEMORY=5MiB":                                "OVERRIDE_MEMORY 5242880, must be 65536 … 4194304",
	} {
		t.Run(variable, func(t *testing.T) {
			variables := environment(root)
			name, value, _ := strings.Cut(variable, "=")
			variables[name] = value
			for name, value := range variables {
				t.Setenv(name, value)
			}
			require.ErrorContains(t, run(t.Context(), io.Discard), want)
		})
	}
}

// process returns the command as a process that has not started.
func process(t *testing.T, variables map[string]string, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	for name, value := range variables {
		c.Env = append(c.Env, name+"="+value)
	}
	return c
}

// command starts the command as a process of its own.
func command(t *testing.T, variables map[string]string) (*log, *exec.Cmd) {
	t.Helper()
	c := process(t, variables)
	stderr, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	return newLog(t, stderr), c
}

// Counts survive the end of a process, also where it is killed, and another file of
// rules with another limit.
func TestSnapshots(t *testing.T) {
	const gone = "domain: gone\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]"
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients, "ratelimit/config/gone.yaml": gone})
	folder := filepath.Join(root, "counts")
	variables := environment(root)
	maps.Copy(variables, map[string]string{"SNAPSHOT_DIR": folder, "SNAPSHOT_INTERVAL": "50ms"})

	l, c := command(t, variables)
	client, _ := dial(t, l.address("gRPC"))
	allowed(t, client, "ann")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())
	require.NoError(t, os.Remove(filepath.Join(root, "ratelimit/config/gone.yaml")))
	write(t, filepath.Join(root, "ratelimit/config/api.yaml"), "domain: api\ndescriptors:\n  - {key: more, rate_limit: {unit: day, requests_per_unit: 1}}\n"+strings.TrimPrefix(strings.ReplaceAll(clients, "requests_per_unit: 2", "requests_per_unit: 3"), "domain: api\ndescriptors:\n"))
	l, c = command(t, variables)
	l.wait("counts restored")
	client, _ = dial(t, l.address("gRPC"))
	allowed(t, client, "bob")
	saved := func() time.Time {
		info, err := os.Stat(filepath.Join(folder, "index.json"))
		require.NoError(t, err)
		return info.ModTime()
	}
	for range 2 { // the second one has begun after bob
		before := saved()
		require.Eventually(t, func() bool { return saved().After(before) }, 30*time.Second, 5*time.Millisecond)
	}
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())

	l, c = command(t, variables)
	client, _ = dial(t, l.address("gRPC"))
	for _, name := range []string{"ann", "bob"} {
		for _, want := range []bool{true, true, false} { // one of three is spent
			ok, _ := allowed(t, client, name)
			require.Equal(t, want, ok, name)
		}
	}
	require.NoError(t, c.Process.Signal(os.Interrupt)) // stops as well
	require.NoError(t, c.Wait())
}
