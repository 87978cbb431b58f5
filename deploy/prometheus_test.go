package deploy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// program returns the path of a program of Prometheus.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("SKETCHLIMIT_PROMETHEUS_REQUIRED") == "" {
		t.Skip("no " + name + " in PATH")
	}
	require.NoError(t, err)
	return path
}

// The alerts are such as Prometheus takes, and fire when they should.
func TestAlerts(t *testing.T) {
	promtool := program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "prometheus-rules.yaml"}, {"test", "rules", "prometheus-rules-test.yaml"}} {
		out, err := exec.Command(promtool, args...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
}

// traffic lets the service have something of all that is told.
func traffic(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	send := func(key, value string) error {
		_, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}},
		}})
		return err
	}
	for i := range 20 {
		require.NoError(t, send("remote_address", "192.0.2.1"))
		require.NoError(t, send("tenant", fmt.Sprint(i%3)))
		_, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{})
		require.Error(t, err)
	}
}

// answer is one of Prometheus' API.
type answer struct {
	Status, Error string
	Data          struct {
		Result []json.RawMessage
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
}

// Every query of the dashboard, and every rule, finds something in a scrape of the
// service.
func TestDashboard(t *testing.T) {
	prometheus, promtool := program(t, "prometheus"), program(t, "promtool")
	c := manifests(t)
	c.configMap.Data = map[string]string{"api.yaml": `domain: api
descriptors:
  - {key: remote_address, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: tenant, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 2}}
`}
	service := serve(t, append(variables(t, c), "STATS_FLUSH_INTERVAL=100ms"))
	folder := t.TempDir()
	rules, err := filepath.Abs("prometheus-rules.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "prometheus.yml"), fmt.Appendf(nil,
		"global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 500ms}\nrule_files: [%s]\n"+
			"scrape_configs: [{job_name: sketchlimitd, static_configs: [{targets: [%q]}]}]\n", rules, service["Prometheus"]), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	server := exec.Command(prometheus, "--config.file="+filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path="+folder,
		"--web.listen-address="+address, "--log.level=error")
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		server.Process.Signal(os.Interrupt)
		server.Wait()
	})
	query := func(path string) (a answer) {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			return a
		}
		defer response.Body.Close()
		json.NewDecoder(response.Body).Decode(&a)
		return a
	}
	until(t, func() bool { return len(query("/api/v1/query?query=up+%3D%3D+1").Data.Result) > 0 }, "no scrape")
	traffic(t, service["gRPC"])

	text, err := os.ReadFile("grafana.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "10s", "$job", ".+").Replace(target.Expr)
			var got answer
			until(t, func() bool {
				got = query("/api/v1/query?query=" + url.QueryEscape(expr))
				return len(got.Data.Result) > 0
			}, "%s: %s: nothing found", p.Title, expr)
			require.Equal(t, "success", got.Status, got.Error)
		}
	}
	until(t, func() bool {
		rules := 0
		for _, g := range query("/api/v1/rules").Data.Groups {
			for _, r := range g.Rules {
				require.Empty(t, r.LastError, r.Name)
				if r.Health == "ok" {
					rules++
				}
			}
		}
		return rules > 5
	}, "rules are not evaluated")

	// What promtool says of names and help texts may be of the reference's names alone.
	_, scrape := get(t, "http://"+service["Prometheus"]+"/metrics")
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(scrape)
	out, _ := check.CombinedOutput() // it fails for the reference's
	require.Contains(t, string(out), "ratelimit_service_", "it has looked")
	for line := range strings.Lines(string(out)) {
		require.False(t, strings.HasPrefix(line, "sketchlimit"), line)
	}
}
