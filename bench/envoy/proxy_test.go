package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// proxied are the rules for what Envoy asks.
var proxied = servers.Rules{"proxied.yaml": `
domain: proxied
descriptors:
  - key: remote_address
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
  - key: user
    value: shadowed
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: user
    value: many
    rate_limit: {unit: hour, requests_per_unit: 1000000}
  - key: tenant
    value: small
    descriptors:
      - key: path
        value: /tenant/reports
        rate_limit: {unit: hour, requests_per_unit: 2}
      - key: path
        rate_limit: {unit: hour, requests_per_unit: 4}
`}

// envoyConfig limits requests by their client's address, by a header, or by a header
// and the path, as the path says.
func envoyConfig(upstream, service string, failureModeDeny bool) func(listener, admin string) string {
	return func(listener, admin string) string {
		return fmt.Sprintf(`
admin: {address: %s}
static_resources:
  listeners:
  - address: %s
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress
          use_remote_address: true
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /address}
                route: {cluster: upstream, rate_limits: [{actions: [{remote_address: {}}]}]}
              - match: {prefix: /user}
                route: {cluster: upstream, rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}]}
              - match: {prefix: /tenant}
                route:
                  cluster: upstream
                  rate_limits:
                  - actions:
                    - request_headers: {header_name: x-tenant, descriptor_key: tenant}
                    - request_headers: {header_name: ":path", descriptor_key: path}
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: proxied
              timeout: 5s
              failure_mode_deny: %t
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {envoy_grpc: {cluster_name: ratelimit}}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: upstream
    load_assignment: {cluster_name: upstream, endpoints: [{lb_endpoints: [{endpoint: {address: %s}}]}]}
  - name: ratelimit
    load_assignment: {cluster_name: ratelimit, endpoints: [{lb_endpoints: [{endpoint: {address: %s}}]}]}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`, address(admin), address(listener), failureModeDeny, address(upstream), address(service))
	}
}

// address is one in Envoy's words.
func address(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
}

// proxy is an Envoy before an upstream that answers every request.
type proxy struct {
	*servers.Envoy
	t       testing.TB
	service *servers.Service
}

func newProxy(t *testing.T, kind servers.Kind, failureModeDeny bool) *proxy {
	servers.NeedEnvoy(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "upstream") }))
	t.Cleanup(upstream.Close)
	p := &proxy{t: t, service: kind.New(t, proxied, "LIMIT_RESPONSE_HEADERS_ENABLED=true")}
	p.Envoy = servers.NewEnvoy(t, envoyConfig(upstream.Listener.Addr().String(), p.service.GRPC, failureModeDeny))
	return p
}

// get sends a request with a header, as in "x-user=alice", or none, and returns the
// answer's status and headers.
func (p *proxy) get(client *http.Client, path, header string) (int, http.Header, error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+p.Listener+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if name, value, found := strings.Cut(header, "="); found {
		r.Header.Set(name, value)
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Header, err
}

// gets fails the test unless the answers to n requests have the status, and returns the
// headers of the last.
func (p *proxy) gets(code, n int, client *http.Client, path, header string) (headers http.Header) {
	p.t.Helper()
	for range n {
		got, h, err := p.get(client, path, header)
		require.NoError(p.t, err)
		require.Equal(p.t, code, got)
		headers = h
	}
	return headers
}

// clientFrom returns a client with this address.
func clientFrom(t *testing.T, ip string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

const (
	fine    = http.StatusOK
	refused = http.StatusTooManyRequests
	failed  = http.StatusInternalServerError
)

func TestEnvoyLimits(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		awayFromTurns(20*time.Second, hour)
		p, one, two := newProxy(t, kind, true), clientFrom(t, "127.0.0.1"), clientFrom(t, "127.0.0.2")

		p.gets(fine, 3, one, "/address", "")
		p.gets(refused, 2, one, "/address", "")
		p.gets(fine, 3, two, "/address", "")
		p.gets(refused, 1, two, "/address", "")

		p.gets(fine, 5, one, "/user", "x-user=alice")
		p.gets(refused, 1, two, "/user", "x-user=alice")
		p.gets(fine, 1, two, "/user", "x-user=bob")
		p.gets(fine, 9, one, "/user", "")

		p.gets(fine, 2, one, "/tenant/reports", "x-tenant=small")
		p.gets(refused, 1, one, "/tenant/reports", "x-tenant=small")
		p.gets(fine, 4, one, "/tenant/other", "x-tenant=small")
		p.gets(refused, 1, one, "/tenant/other", "x-tenant=small")
		p.gets(fine, 9, one, "/tenant/other", "x-tenant=large")

		p.gets(fine, 9, one, "/user", "x-user=shadowed")
		requireMetric(t, p.service, `ratelimit_service_rate_limit_shadow_mode{domain="proxied",key1="user_shadowed"`, 7)
	})
}

func TestEnvoyHeaders(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		awayFromTurns(20*time.Second, hour)
		p, one := newProxy(t, kind, true), clientFrom(t, "127.0.0.1")
		tells := func(headers http.Header, remaining string) {
			t.Helper()
			require.Equal(t, "5, 5;w=3600", headers.Get("x-ratelimit-limit"))
			require.Equal(t, remaining, headers.Get("x-ratelimit-remaining"))
			require.Equal(t, "5", headers.Get("RateLimit-Limit"))
			require.Equal(t, remaining, headers.Get("RateLimit-Remaining"))
			for _, name := range []string{"x-ratelimit-reset", "RateLimit-Reset"} {
				told, err := strconv.ParseInt(headers.Get(name), 10, 64)
				require.NoError(t, err)
				require.NoError(t, checkSeconds(told, hour, time.Now().Add(-5*time.Second), time.Now()))
			}
		}
		tells(p.gets(fine, 1, one, "/user", "x-user=alice"), "4")
		tells(p.gets(fine, 4, one, "/user", "x-user=alice"), "0")
		headers := p.gets(refused, 1, one, "/user", "x-user=alice")
		tells(headers, "0")
		require.Equal(t, "true", headers.Get("x-envoy-ratelimited"))
	})
}

func TestEnvoyFailureModes(t *testing.T) {
	for code, deny := range map[int]bool{fine: false, failed: true} {
		t.Run(fmt.Sprint("deny ", deny), func(t *testing.T) {
			each(t, func(t *testing.T, kind servers.Kind) {
				p, one := newProxy(t, kind, deny), clientFrom(t, "127.0.0.1")
				p.gets(fine, 1, one, "/user", "x-user=alice")
				require.NoError(t, p.service.Stop())
				p.gets(code, 9, one, "/user", "x-user=alice")
			})
		})
	}
}

// TestEnvoyReload changes rules while requests come: none may fail, and none may be
// refused or admitted wrongly.
func TestEnvoyReload(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		awayFromTurns(20*time.Second, hour)
		p := newProxy(t, kind, true)
		p.gets(fine, 5, clientFrom(t, "127.0.0.1"), "/user", "x-user=alice")
		ended := make(chan struct{})
		var all sync.WaitGroup
		for range 4 {
			client := clientFrom(t, "127.0.0.1")
			all.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
					}
					for header, want := range map[string]int{"x-user=many": fine, "x-user=alice": refused} {
						if code, _, err := p.get(client, "/user", header); err != nil || code != want {
							t.Errorf("%s: status %d, want %d, %v", header, code, want, err)
							return
						}
					}
				}
			})
		}
		for i := range 20 {
			limit := fmt.Sprint(1000001 + i)
			content := strings.Replace(proxied["proxied.yaml"], "1000000", limit, 1)
			p.service.Reloads(t, func() error { return p.service.Write("proxied.yaml", content) }, "requests_per_unit="+limit, true)
		}
		close(ended)
		all.Wait()
		admitted, err := p.Stat("cluster.upstream.ratelimit.ok")
		require.NoError(t, err)
		require.Positive(t, admitted)
		failures, err := p.Stat("cluster.upstream.ratelimit.error")
		require.NoError(t, err)
		require.Zero(t, failures)
	})
}
