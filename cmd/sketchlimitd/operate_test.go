package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// printed runs the command to its end, and returns what it prints, and its status.
func printed(t *testing.T, variables map[string]string, args ...string) (out string, status int) {
	t.Helper()
	c := process(t, variables, args...)
	text, err := c.CombinedOutput()
	require.NotNil(t, c.ProcessState, "%v", err)
	return string(text), c.ProcessState.ExitCode()
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--version"}, 0, "sketchlimitd "},
		{[]string{"--help"}, 0, "SHUTDOWN_DELAY"},
		{[]string{"serve"}, exitUsage, `unknown argument "serve"`},
		{[]string{"rules.yaml"}, exitUsage, `unknown argument "rules.yaml": settings are variables, and files go with --check`},
		{[]string{"--port=8080"}, exitUsage, "unknown flag: --port"},
	} {
		out, status := printed(t, nil, c.args...)
		require.Equal(t, c.status, status, "%v: %s", c.args, out)
		require.Contains(t, out, c.want)
	}
	help, _ := printed(t, nil, "--help")
	fields(reflect.TypeFor[settings](), func(f reflect.StructField) {
		require.Contains(t, help, "  "+f.Tag.Get("envconfig")+" ")
	})
}

// --check prints what the service would: for these files, or for those that it would
// read.
func TestCheck(t *testing.T) {
	root := written(t, map[string]string{
		"ratelimit/config/api.yaml": clients, "ratelimit/config/..data/api.yaml": clients,
		"wrong.yaml": "domain: api\ndescriptors:\n  - {key: client, rate_limit: {unit: fortnight, requests_per_unit: 2}}\n",
		"large.yaml": "domain: api\ndescriptors: [{key: client, rate_limit: {unit: day, requests_per_unit: 2, memory: 1GiB}}]\n",
		"empty.yaml": "domain: api\n",
		"none.yaml":  "domain: none\ndescriptors:\n  - key: client\n    rate_limit:\n",
		"block.yaml": "domain: block\ndescriptors: [{key: client, rate_limit: {unit: day}}]\n",
	})
	at := func(name string) string { return filepath.Join(root, name) }
	variables := environment(root)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 0, "ok: 1 files, 1 domains, 1 rules, "},
		{[]string{at("ratelimit/config")}, 0, "ok: 1 files, 1 domains, 1 rules, "},
		{[]string{at("ratelimit/config/api.yaml"), at("block.yaml")}, 0, "block.yaml:2: no requests_per_unit, blocks all requests"},
		{[]string{at("wrong.yaml")}, exitFailure, at("wrong.yaml:3") + ": invalid rate limit unit 'fortnight'"},
		{[]string{at("ratelimit/config/api.yaml"), at("none.yaml")}, 0, "warning: " + at("none.yaml:4") + ": empty rate_limit, limits nothing"},
		{[]string{at("large.yaml")}, exitFailure, "bytes in all, must be at most MEMORY, 4194304"},
		{[]string{at("ratelimit/config/api.yaml"), at("ratelimit/config")}, exitFailure, "duplicate domain 'api'"},
		{[]string{at("empty.yaml")}, exitFailure, "no rules: nothing would be limited"},
		{[]string{at("away.yaml")}, exitFailure, "away.yaml: no such file"},
	} {
		out, status := printed(t, variables, append([]string{"--check"}, c.args...)...)
		require.Equal(t, c.status, status, "%v: %s", c.args, out)
		require.Contains(t, out, c.want)
	}
	variables["MEMORY"] = "none"
	out, status := printed(t, variables, "--check")
	require.Equal(t, exitFailure, status)
	require.Contains(t, out, `MEMORY "none", must be`)
}

// serving returns what those who look at the health over gRPC are told.
func serving(t *testing.T, conn *grpc.ClientConn) healthv1.HealthCheckResponse_ServingStatus {
	t.Helper()
	h, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "ratelimit"})
	require.NoError(t, err)
	return h.Status
}

// code returns the status of a page.
func code(t *testing.T, url string) int {
	t.Helper()
	status, _ := get(t, url)
	return status
}

// Without rules it is alive and not ready, and SIGHUP reads the file that has been
// mended.
func TestReadyWithRulesAlone(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config.api.yaml": "doman: api"})
	variables := environment(root)
	variables["RUNTIME_WATCH_ROOT"] = "true" // of a folder in which nothing happens
	l, c := command(t, variables)
	client, conn := dial(t, l.address("gRPC"))
	page := "http://" + l.address("HTTP")
	ops := "http://" + l.address("debugging")
	require.Equal(t, http.StatusInternalServerError, code(t, page+"/healthcheck"))
	require.Equal(t, http.StatusOK, code(t, page+"/livez"))
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, serving(t, conn))
	_, metrics := get(t, ops+"/metrics")
	require.Contains(t, metrics, "\nsketchlimitd_ready 0\n")
	require.Contains(t, metrics, "\nsketchlimitd_rules_current 0\n")
	require.Contains(t, metrics, "\nsketchlimitd_rules_failed_loads_total 1\n")

	for _, limit := range []int{2, 3} {
		write(t, filepath.Join(root, "ratelimit/config.api.yaml"), strings.ReplaceAll(clients, "requests_per_unit: 2", fmt.Sprintf("requests_per_unit: %d", limit)))
		require.NoError(t, c.Process.Signal(syscall.SIGHUP))
		l.wait("rules loaded")
		require.Equal(t, http.StatusOK, code(t, page+"/healthcheck"))
		require.Equal(t, healthv1.HealthCheckResponse_SERVING, serving(t, conn))
		_, got := allowed(t, client, "ann")
		require.EqualValues(t, limit, got)
	}
	_, metrics = get(t, ops+"/metrics")
	require.Contains(t, metrics, "\nsketchlimitd_ready 1\n")
	require.Contains(t, metrics, "\nsketchlimitd_rules_current 1\n")
	require.Contains(t, metrics, "\nsketchlimitd_rules_loads_total 2\n")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())
}

// Who asks to start without rules, or to be ready without, is.
func TestReadyWithoutRules(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": "domain: api"})
	for variable, want := range map[string]int{
		"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=false": http.StatusOK,
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true":       http.StatusOK,
		"SHADOW_MODE=false":                             http.StatusInternalServerError,
	} {
		t.Run(variable, func(t *testing.T) {
			variables := environment(root)
			name, value, _ := strings.Cut(variable, "=")
			variables[name] = value
			s := start(t, variables)
			require.Equal(t, want, code(t, "http://"+s.http+"/healthcheck"))
		})
	}
}

// A start with wrong rules goes on with the last good ones, and with what was counted.
func TestLastGoodRules(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	path := filepath.Join(root, "ratelimit/config/api.yaml")
	variables := environment(root)
	variables["SNAPSHOT_DIR"] = filepath.Join(root, "counts")
	l, c := command(t, variables)
	client, _ := dial(t, l.address("gRPC"))
	allowed(t, client, "ann")
	require.NoError(t, os.Rename(path, path+".away"))
	require.NoError(t, os.Rename(path+".away", filepath.Join(root, "away")))
	l.wait("there are none") // which is no good set
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())

	write(t, path, "domain: [")
	l, c = command(t, variables)
	l.wait("rules stay as they are")
	l.wait("using the last good rules")
	client, conn := dial(t, l.address("gRPC"))
	page := "http://" + l.address("HTTP")
	require.Equal(t, http.StatusOK, code(t, page+"/healthcheck"))
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, serving(t, conn))
	_, limit := allowed(t, client, "ann")
	require.EqualValues(t, 2, limit)

	write(t, path, strings.ReplaceAll(clients, "requests_per_unit: 2", "requests_per_unit: 7"))
	l.wait("rules loaded")
	_, limit = allowed(t, client, "ann")
	require.EqualValues(t, 7, limit)
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())

	// The same if a management server is away.
	variables["CONFIG_TYPE"], variables["CONFIG_GRPC_XDS_SERVER_URL"] = "GRPC_XDS_SOTW", "127.0.0.1:1"
	l, c = command(t, variables)
	l.wait("using the last good rules")
	client, _ = dial(t, l.address("gRPC"))
	_, limit = allowed(t, client, "ann")
	require.EqualValues(t, 7, limit)
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())

	variables["CONFIG_TYPE"] = "FILE"
	write(t, filepath.Join(root, "counts/rules.json"), "{")
	write(t, path, "domain: [")
	l, c = command(t, variables)
	l.wait("good rules not read")
	l.wait("listening")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())
}

// After SIGTERM it is not ready and answers on, for as long as it is told or until the
// next signal.
func TestShutdownDelay(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	variables["SHUTDOWN_DELAY"] = "1h"
	variables["SNAPSHOT_DIR"] = filepath.Join(root, "counts")
	l, c := command(t, variables)
	client, conn := dial(t, l.address("gRPC"))
	page := "http://" + l.address("HTTP")
	allowed(t, client, "ann")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	l.wait("stopping")
	require.Equal(t, http.StatusInternalServerError, code(t, page+"/healthcheck"))
	require.Equal(t, http.StatusOK, code(t, page+"/livez"))
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, serving(t, conn))
	ok, _ := allowed(t, client, "bob")
	require.True(t, ok)
	conn.Close()
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())
	require.FileExists(t, filepath.Join(root, "counts/index.json"))
}

// Whatever is wrong, every line is JSON if the log is to be so.
func TestEveryLineIsJSON(t *testing.T) {
	root := written(t, map[string]string{
		"ratelimit/config/api.yaml": strings.ReplaceAll(clients, "year", "day") + "  - {key: path, overload: x}\n",
		"ratelimit/config/b.yaml":   "domain: b\ndescriptors: [{key: bucket, rate_limit: {unit: day, requests_per_unit: 2, algorithm: token_bucket}}]\n",
	})
	variables := environment(root)
	delete(variables, "DISABLE_STATS")
	for name, value := range map[string]string{
		"LOG_FORMAT": "json", "LOG_LEVEL": "debug", "USE_STATSD": "true", "STATSD_PORT": "1", "STATS_FLUSH_INTERVAL": "20ms",
		"REDIS_URL": "127.0.0.1:1", "SHARED_SEED": "7", "SHARED_INTERVAL": "10ms", "TRACING_ENABLED": "true",
		"GRPC_GO_LOG_SEVERITY_LEVEL": "info", "GRPC_GO_LOG_FORMATTER": "json",
	} {
		variables[name] = value
	}
	l, c := command(t, variables)
	l.wait("no effect")
	l.wait("rules stay as they are")
	write(t, filepath.Join(root, "ratelimit/config/api.yaml"), clients)
	l.wait("rules loaded")
	listening := struct{ Address string }{}
	require.NoError(t, json.Unmarshal([]byte(regexp.MustCompile(`\{.*"for":"HTTP".*\}`).FindString(l.all())), &listening))
	conn, err := net.Dial("tcp", listening.Address)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "no HTTP\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	l.wait(`"@message":"redis"`)
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())
	for _, line := range strings.Split(l.all(), "\n") {
		require.True(t, json.Valid([]byte(line)), line)
	}

	variables["PORT"] = "none"
	out, status := printed(t, variables)
	require.Equal(t, exitFailure, status)
	require.True(t, json.Valid([]byte(out)), out)
	require.Contains(t, out, `PORT \"none\", must be a whole number`)
}

// USE_CALENDAR_MONTH_RATE_LIMIT is that of envoyproxy/ratelimit.
func TestCalendarMonths(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": strings.ReplaceAll(clients, "year", "month")})
	variables := environment(root)
	variables["USE_CALENDAR_MONTH_RATE_LIMIT"] = "true"
	l, _ := command(t, variables)
	client, _ := dial(t, l.address("gRPC"))
	before := time.Now()
	response, err := client.ShouldRateLimit(t.Context(), ask("api", "client", "ann"))
	require.NoError(t, err)
	after := time.Now().UTC()
	ends := time.Date(after.Year(), after.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if before.UTC().Month() != after.Month() {
		t.Skip("the month has just ended")
	}
	reset := response.Statuses[0].DurationUntilReset.AsDuration()
	require.LessOrEqual(t, ends.Sub(after).Truncate(time.Second), reset)
	require.GreaterOrEqual(t, ends.Sub(before)+time.Second, reset)
	require.Equal(t, "MONTH", response.Statuses[0].CurrentLimit.Unit.String())
	_, page := get(t, "http://"+l.address("debugging")+"/rlconfig")
	require.Contains(t, page, "api.client: unit=MONTH requests_per_unit=2")
}

// An operator forgives a client, by a call and by the command line; nobody else does.
func TestForgive(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	variables["OPERATOR_TOKEN"] = "a secret"
	l, _ := command(t, variables)
	client, _ := dial(t, l.address("gRPC"))
	ops := "http://" + l.address("debugging")
	spend := func() (admitted int) {
		for range 9 {
			if ok, _ := allowed(t, client, "ann"); ok {
				admitted++
			}
		}
		return admitted
	}
	require.Equal(t, 2, spend())
	post := func(token, body string) (int, string) {
		r, err := http.NewRequest("POST", ops+"/forgive", strings.NewReader(body))
		require.NoError(t, err)
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	const ann = `{"domain":"api","entries":[{"key":"client","value":"ann"}]}`
	for _, token := range []string{"", "Bearer ", "Bearer wrong", "a secret", "Basic a secret"} {
		code, _ := post(token, ann)
		require.Equal(t, http.StatusUnauthorized, code, token)
	}
	require.Zero(t, spend())
	for body, want := range map[string]int{
		"": http.StatusBadRequest, `{"domain":7}`: http.StatusBadRequest, `{"client":"ann"}`: http.StatusBadRequest,
		`{"domain":"api"}`: http.StatusUnprocessableEntity, `{"domain":"nowhere","entries":[{"key":"client"}]}`: http.StatusUnprocessableEntity,
	} {
		code, text := post("Bearer a secret", body)
		require.Equal(t, want, code, "%s: %s", body, text)
	}
	require.Equal(t, http.StatusMethodNotAllowed, code(t, ops+"/forgive"))

	status, text := post("Bearer a secret", ann)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"rule":"api.client","units":2,`)
	require.Contains(t, l.wait("a key is forgiven"), "client=#")
	require.Equal(t, 2, spend())
	_, metrics := get(t, ops+"/metrics")
	require.Contains(t, metrics, "\nsketchlimitd_forgiven_keys 1\n")
	require.Contains(t, metrics, "\nsketchlimitd_forgiven_units_total 2\n")

	out, status := printed(t, variables, "forgive", "--server", ops, "api", "client=ann")
	require.Zero(t, status, out)
	require.Contains(t, out, "api.client: 2 units once more, until ")
	require.Equal(t, 2, spend())
	out, status = printed(t, variables, "forgive", "--server", ops, "api", "client=new")
	require.Zero(t, status)
	require.Equal(t, "api.client: nothing was used\n", out)
	out, status = printed(t, variables, "forgive", "--server", ops, "api", "nobody=ann")
	require.Equal(t, exitFailure, status)
	require.Contains(t, out, "no rule applies")
	for _, args := range [][]string{{"forgive"}, {"forgive", "api"}, {"forgive", "api", "ann"}, {"refused", "api"}} {
		_, status = printed(t, variables, args...)
		require.Equal(t, exitUsage, status, args)
	}

	// The list shows values to operators alone.
	require.Eventually(t, func() bool { // it is of the present minute, which may have just begun
		spend()
		out, status = printed(t, variables, "refused", "--server", ops)
		return status == 0 && strings.Contains(out, "client=ann")
	}, 30*time.Second, time.Millisecond)
	require.Contains(t, out, "api.client")
	variables["OPERATOR_TOKEN"] = ""
	out, _ = printed(t, variables, "refused", "--server", ops)
	require.NotContains(t, out, "ann")
	out, status = printed(t, variables, "forgive", "--server", ops, "api", "client=ann")
	require.Equal(t, exitFailure, status)
	require.Contains(t, out, "401 Unauthorized")

	s := start(t, environment(root)) // without a token
	response, err := http.Post("http://"+s.ops+"/forgive", "", strings.NewReader(ann))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusForbidden, response.StatusCode)
}
