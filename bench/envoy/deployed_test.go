package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// The configuration that users start from is one by which a real Envoy limits.
func TestDeployedEnvoy(t *testing.T) {
	servers.NeedEnvoy(t)
	text, err := os.ReadFile("../../deploy/envoy.yaml")
	require.NoError(t, err)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "upstream") }))
	t.Cleanup(upstream.Close)
	service := servers.Sketchlimit.New(t, servers.Rules{"api.yaml": "domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 100}}]"})
	envoy := servers.NewEnvoy(t, func(listener, admin string) string {
		config := string(text)
		for in, here := range map[string]string{
			"{socket_address: {address: 127.0.0.1, port_value: 9901}}": admin, "{socket_address: {address: 0.0.0.0, port_value: 10000}}": listener,
			"{socket_address: {address: upstream, port_value: 80}}":    upstream.Listener.Addr().String(),
			"{socket_address: {address: ratelimit, port_value: 8081}}": service.GRPC,
		} {
			require.Equal(t, 1, strings.Count(config, in), in)
			config = strings.Replace(config, in, address(here), 1)
		}
		return strings.Replace(config, "timeout: 0.25s", "timeout: 5s", 1) // on a busy machine
	})
	status := func() int {
		response, err := http.Get("http://" + envoy.Listener)
		require.NoError(t, err)
		defer response.Body.Close()
		return response.StatusCode
	}
	require.Eventually(t, func() bool { // until the service has passed its first health check
		status()
		asked, err := envoy.Stat("cluster.upstream.ratelimit.ok")
		return err == nil && asked > 0
	}, 30*time.Second, 50*time.Millisecond)
	limited := 0
	for range 150 {
		if status() == http.StatusTooManyRequests {
			limited++
		}
	}
	require.GreaterOrEqual(t, limited, 50)
	require.Less(t, limited, 150)
}
