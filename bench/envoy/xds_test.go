package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// controlPlane gives rules to services by xDS.
type controlPlane struct {
	t         testing.TB
	addr      string
	snapshots cache.SnapshotCache
	version   int
}

const nodeID = "a-node"

func newControlPlane(t testing.TB) *controlPlane {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &controlPlane{t: t, addr: l.Addr().String(), snapshots: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	ctx, cancel := context.WithCancel(context.Background())
	s := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(s, server.NewServer(ctx, p.snapshots, nil))
	go s.Serve(l)
	t.Cleanup(func() { cancel(); s.Stop() })
	return p
}

// gives sets what the services are to serve from now on.
func (p *controlPlane) gives(configs ...*config.RateLimitConfig) error {
	p.version++
	resources := map[resource.Type][]types.Resource{resource.RateLimitConfigType: {}}
	for _, c := range configs {
		resources[resource.RateLimitConfigType] = append(resources[resource.RateLimitConfigType], c)
	}
	snapshot, err := cache.NewSnapshot(fmt.Sprint(p.version), resources)
	require.NoError(p.t, err)
	return p.snapshots.SetSnapshot(context.Background(), nodeID, snapshot)
}

// rule is a configuration of one key.
func rule(domain, key string, unit config.RateLimitUnit, requests uint32) *config.RateLimitConfig {
	return &config.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*config.RateLimitDescriptor{
		{Key: key, RateLimit: &config.RateLimitPolicy{Unit: unit, RequestsPerUnit: requests}}}}
}

func TestReloadByXDS(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		awayFromTurns(10*time.Second, day)
		p := newControlPlane(t)
		first := rule("first", "daily", config.RateLimitUnit_DAY, 20)
		require.NoError(t, p.gives(first))
		s := kind.New(t, nil, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_ID="+nodeID, "CONFIG_GRPC_XDS_SERVER_URL="+p.addr)
		c := dial(t, s.GRPC, nil)
		equal(t, answer(ok, status(ok, 20, day, 19)), c.ask("first", "daily=foo"))
		equal(t, answer(ok, none), c.ask("second", "block=foo"))

		second := rule("second", "block", config.RateLimitUnit_HOUR, 0)
		s.Reloads(t, func() error { return p.gives(first, second) }, "second.block:", true)
		equal(t, answer(over, status(over, 0, hour, 0)), c.ask("second", "block=foo"))
		equal(t, answer(ok, status(ok, 20, day, 18)), c.ask("first", "daily=foo"))

		s.Reloads(t, func() error { return p.gives(first) }, "second.block:", false)
		equal(t, answer(ok, none), c.ask("second", "block=foo"))

		// A wrong configuration changes nothing.
		require.NoError(t, p.gives(first, rule("second", "", config.RateLimitUnit_HOUR, 0)))
		require.NoError(t, servers.Eventually(10*time.Second, func() error {
			refused, err := s.Metric("ratelimit_service_config_load_error")
			if err == nil && refused == 0 { // the control plane sends it again and again
				err = errors.New("not refused yet")
			}
			return err
		}))
		equal(t, answer(ok, status(ok, 20, day, 17)), c.ask("first", "daily=foo"))
	})
}
