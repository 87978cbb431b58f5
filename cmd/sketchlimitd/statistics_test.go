package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
)

const counted = `domain: api
descriptors:
  - {key: client, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: watched, value: "192.0.2.1:80", shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: tenant, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: a, value: b, descriptors: [{key: c, descriptors: [{key: d, rate_limit: {unit: year, requests_per_unit: 9}}]}]}
`

// counting starts a server that tells its statistics, and sends it requests.
func counting(t *testing.T, variables map[string]string) *running {
	t.Helper()
	root := written(t, map[string]string{"ratelimit/config/api.yaml": counted})
	all := environment(root)
	all["DISABLE_STATS"], all["STATS_FLUSH_INTERVAL"] = "false", "20ms"
	for name, value := range variables {
		all[name] = value
	}
	s := start(t, all)
	client, _ := dial(t, s.grpc)
	send := func(domain string, hits uint32, entries ...string) {
		r := ask(domain, entries[0], entries[1])
		for i := 2; i < len(entries); i += 2 {
			r.Descriptors[0].Entries = append(r.Descriptors[0].Entries, &commonv3.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
		}
		r.HitsAddend = hits
		_, err := client.ShouldRateLimit(t.Context(), r)
		require.NoError(t, err)
	}
	send("api", 9, "client", "ann")
	send("api", 3, "client", "ann")
	send("api", 2, "watched", "192.0.2.1:80")
	send("api", 1, "tenant", "acme")
	send("api", 1, "a", "b", "c", "x", "d", "y")
	send("nowhere", 1, "client", "ann")
	negative := ask("api", "client", "bob")
	negative.Descriptors[0].IsNegativeHits = true
	_, err := client.ShouldRateLimit(t.Context(), negative)
	require.NoError(t, err)
	_, err = client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{})
	require.Error(t, err)
	return s
}

// told are the counters as statsd has them, for the requests of counting.
var told = map[string]int{
	"ratelimit.service.rate_limit.api.client.total_hits":                12,
	"ratelimit.service.rate_limit.api.client.within_limit":              9,
	"ratelimit.service.rate_limit.api.client.near_limit":                2, // the ninth, and of the three that are refused one
	"ratelimit.service.rate_limit.api.client.over_limit":                2,
	"ratelimit.service.rate_limit.api.watched_192_0_2_1_80.total_hits":  2,
	"ratelimit.service.rate_limit.api.watched_192_0_2_1_80.over_limit":  1,
	"ratelimit.service.rate_limit.api.watched_192_0_2_1_80.shadow_mode": 1,
	"ratelimit.service.rate_limit.api.tenant_acme.total_hits":           1,
	"ratelimit.service.rate_limit.api.a_b.c.d.within_limit":             1,
	"ratelimit.service.rate_limit.nowhere.domain_not_found":             1,
	"ratelimit.service.config_load_success":                             1,
	"ratelimit.service.negative_hits":                                   1,
	"ratelimit.service.call.should_rate_limit.service_error":            1,
	"ratelimit_server.ShouldRateLimit.total_requests":                   8,
}

// A statsd gets the names of envoyproxy/ratelimit, with tags, over TCP.
func TestStatsd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	lines := make(chan string, 10_000)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for scanner := bufio.NewScanner(conn); scanner.Scan(); {
			lines <- scanner.Text()
		}
		close(lines)
	}()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	counting(t, map[string]string{"USE_STATSD": "true", "STATSD_HOST": host, "STATSD_PORT": port, "EXTRA_TAGS": "zone:a"})
	got := map[string]int{}
	times := 0
	line := regexp.MustCompile(`^(.+)\.__zone=a:(\d+(?:\.\d+)?)\|(c|g|ms)$`)
	deadline := time.After(30 * time.Second)
	for !contains(got, told) || times < 8 {
		select {
		case l := <-lines:
			m := line.FindStringSubmatch(l)
			require.NotNil(t, m, l)
			switch m[3] {
			case "c":
				var n int
				fmt.Sscan(m[2], &n)
				got[m[1]] += n
			case "ms":
				require.Equal(t, "ratelimit_server.ShouldRateLimit.response_time", m[1])
				times++
			}
		case <-deadline:
			require.Equal(t, told, got)
		}
	}
}

func contains(got, want map[string]int) bool {
	for name, n := range want {
		if got[name] != n {
			return false
		}
	}
	return true
}

// Prometheus gets the same under the names of envoyproxy/ratelimit, beside ours.
func TestPrometheus(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	s := counting(t, map[string]string{"USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": address, "PROMETHEUS_PATH": "/stats/prometheus"})
	lines := []string{
		`ratelimit_service_rate_limit_total_hits{domain="api",key1="client"} 12`,
		`ratelimit_service_rate_limit_over_limit{domain="api",key1="client"} 2`,
		`ratelimit_service_rate_limit_shadow_mode{domain="api",key1="watched_192_0_2_1_80"} 1`,
		`ratelimit_service_rate_limit_total_hits{domain="api",key1="tenant_acme"} 1`,
		`ratelimit_service_rate_limit_within_limit{domain="api",key1="a_b",key2="c"} 1`,
		`ratelimit_service_should_rate_limit_error{err_type="service_error"} 1`,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 8`,
		`ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 8`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="10"} 8`, // not milliseconds
		`ratelimit_service_config_load_success 1`,
		`sketchlimit_admitted_units_total{limiter="api.client"} 9`,
	}
	var body string
	require.Eventually(t, func() bool {
		_, body = get(t, "http://"+address+"/stats/prometheus")
		for _, line := range lines {
			if !strings.Contains(body, line+"\n") {
				return false
			}
		}
		return true
	}, 30*time.Second, 100*time.Millisecond, "%s", lines)
	_, page := get(t, "http://"+s.ops+"/metrics")
	require.Contains(t, page, lines[0])
}

// A mapping of the operator's own is taken in place of ours.
func TestPrometheusMapping(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "mapping.yaml")
	write(t, path, `mappings:
- {match: "ratelimit.service.rate_limit.*.*.total_hits", name: hits, labels: {which: "$2"}}
- {match: "ratelimit_server.*.response_time", name: time, observer_type: histogram, histogram_options: {buckets: [1, 1000]}}
- {match: ".", match_type: regex, action: drop, name: dropped}
`)
	s := counting(t, map[string]string{"USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": "127.0.0.1:0", "PROMETHEUS_MAPPER_YAML": path})
	require.Eventually(t, func() bool {
		_, body := get(t, "http://"+s.ops+"/metrics")
		return strings.Contains(body, `hits{which="client"} 12`+"\n") && strings.Contains(body, `time_bucket{le="1000"} 8`+"\n") && !strings.Contains(body, "over_limit")
	}, 30*time.Second, 100*time.Millisecond)

	write(t, path, "mappings: 7")
	for name, value := range environment(root) {
		t.Setenv(name, value)
	}
	t.Setenv("DISABLE_STATS", "false")
	set, err := readSettings()
	require.NoError(t, err)
	_, err = newServer(t.Context(), set, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "PROMETHEUS_MAPPER_YAML")
}

// DogStatsD gets tags, those of the names' patterns first.
func TestDogStatsd(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer conn.Close()
	host, port, err := net.SplitHostPort(conn.LocalAddr().String())
	require.NoError(t, err)
	counting(t, map[string]string{
		"USE_DOG_STATSD": "true", "STATSD_HOST": host, "STATSD_PORT": port, "EXTRA_TAGS": "zone:a", "USE_DOG_STATSD_MOGRIFIERS": "HITS",
		"DOG_STATSD_MOGRIFIER_HITS_PATTERN": `^ratelimit\.service\.rate_limit\.(.*)\.(.*)\.total_hits$`,
		"DOG_STATSD_MOGRIFIER_HITS_NAME":    "hits.$9", "DOG_STATSD_MOGRIFIER_HITS_TAGS": "domain:$1,rule:$2",
	})
	want := regexp.MustCompile(`(?m)^hits\.\$9:12\|c\|#(domain:api,rule:client|rule:client,domain:api),zone:a`)
	buffer := make([]byte, 64<<10)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	for {
		n, _, err := conn.ReadFrom(buffer)
		require.NoError(t, err)
		if want.Match(buffer[:n]) {
			return
		}
	}
}

func TestMogrifierErrors(t *testing.T) {
	for text, want := range map[string]string{
		"(|a|":   "DOG_STATSD_MOGRIFIER_X_PATTERN: error parsing regexp",
		"|a|":    `DOG_STATSD_MOGRIFIER_X_PATTERN "", DOG_STATSD_MOGRIFIER_X_NAME "a", must both be set`,
		"a||":    `DOG_STATSD_MOGRIFIER_X_NAME "", must both be set`,
		"a|a|b:": `DOG_STATSD_MOGRIFIER_X_TAGS "b":"", must have a name and a value`,
	} {
		parts := strings.Split(text, "|")
		t.Setenv("DOG_STATSD_MOGRIFIER_X_PATTERN", parts[0])
		t.Setenv("DOG_STATSD_MOGRIFIER_X_NAME", parts[1])
		t.Setenv("DOG_STATSD_MOGRIFIER_X_TAGS", parts[2])
		_, err := readMogrifiers([]string{"X"})
		require.ErrorContains(t, err, want)
	}
}
