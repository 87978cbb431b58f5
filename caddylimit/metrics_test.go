package caddylimit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// metrics returns lines of /metrics by what is before their values.
func (s *server) metrics() map[string]string {
	s.t.Helper()
	response, body := s.ask("GET", "/metrics")
	require.Equal(s.t, 200, response.StatusCode, body)
	values := map[string]string{}
	for line := range strings.Lines(body) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			values[line[:i]] = strings.TrimSpace(line[i+1:])
		}
	}
	return values
}

// eventually waits until metrics have these values; "" is none. Those of package
// promlimit may be old, by some times of what it takes to read them.
func (s *server) eventually(want map[string]string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		m := s.metrics()
		for name, value := range want {
			if m[name] != value {
				return false
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond, "%v", want)
}

// The cases of caddy-ratelimit's TestMetrics and TestMetricsReRegisterOnReload. No
// metric has a key.
func TestMetrics(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	config := func(zone string) string {
		return "handle /metrics {\nmetrics\n}\nhandle /a* {\n" + limit(zone) + "\n}\nhandle /b* {\n" + limit(zone) + "\n}\n"
	}
	const zone = "key {http.request.uri.path}\nwindow 1m\nevents 2\nlimit 50 1h\nkeys 1000"
	s.load(config(zone))
	s.want(200, 2, "GET", "/a")
	s.want(429, 3, "GET", "/a")
	s.want(200, 1, "GET", "/b")
	for turn := range 3 {
		m := s.metrics()
		require.Equal(t, "6", m[`caddy_rate_limit_requests_total{zone="api"}`], turn)
		require.Equal(t, "3", m[`caddy_rate_limit_declined_requests_total{zone="api"}`])
		require.Equal(t, "6", m[`caddy_rate_limit_process_time_seconds_count{zone="api"}`])
		require.NotZero(t, m[`caddy_rate_limit_process_time_seconds_sum{zone="api"}`])
		require.Equal(t, "1", m[`caddy_rate_limit_config{max_events="2",window="1m0s",zone="api"}`])
		require.Equal(t, "1", m[`caddy_rate_limit_config{max_events="50",window="1h0m0s",zone="api"}`])
		require.Contains(t, m[`caddy_rate_limit_keys_total{zone="api"}`], "2") // 2.000…: an estimate
		s.eventually(map[string]string{
			`sketchlimit_admitted_units_total{limiter="api/1m0s"}`: "3",
			`sketchlimit_denied_units_total{limiter="api/1m0s"}`:   "3",
			`sketchlimit_outside_plan{limiter="api/1h0m0s"}`:       "0",
		})
		s.load(config(zone) + fmt.Sprintln("vars turn", turn)) // all goes on
	}
	s.load(config("key a\nwindow 1m\nevents 5"))
	m := s.metrics()
	require.Equal(t, "6", m[`caddy_rate_limit_requests_total{zone="api"}`])
	s.eventually(map[string]string{
		`sketchlimit_outside_plan{limiter="api/1m0s"}`:   "0",
		`sketchlimit_outside_plan{limiter="api/1h0m0s"}`: "",
	})
	other := strings.Replace(limit("key a\nwindow 1m\nevents 5"), "api", "other", 1)
	s.load("handle /metrics {\nmetrics\n}\nhandle {\n" + other + "}")
	m = s.metrics()
	require.NotContains(t, m, `caddy_rate_limit_requests_total{zone="api"}`)
	require.Contains(t, m, `caddy_rate_limit_requests_total{zone="other"}`)
	s.eventually(map[string]string{
		`sketchlimit_outside_plan{limiter="api/1m0s"}`:   "",
		`sketchlimit_outside_plan{limiter="other/1m0s"}`: "0",
	})
}

func TestMetricsDisabled(t *testing.T) {
	s := newServer(t)
	s.load("handle /metrics {\nmetrics\n}\nhandle {\n" + limit("key a\nwindow 1h\nevents 1", "disable_metrics") + "}")
	s.want(200, 1, "GET", "/")
	s.want(429, 1, "GET", "/")
	for name := range s.metrics() {
		require.NotContains(t, name, "rate_limit_")
		require.NotContains(t, name, "sketchlimit_")
	}
}

// Another module that has the names is told of.
func TestMetricsTaken(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_requests_total", Help: "Another.",
	}, []string{"zone", "key"}))
	require.ErrorContains(t, register(registry), "set disable_metrics beside another module that has them")
	require.NoError(t, caddy.Stop())
}
