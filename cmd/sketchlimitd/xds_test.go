package main

import (
	"context"
	"net"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xdsserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sketchlimit/sketchlimit/rules"
)

// management is a management server, of the kind that control planes are made of.
type management struct {
	t        *testing.T
	cache    cache.SnapshotCache
	address  string
	server   *grpc.Server
	requests chan *discoveryv3.DiscoveryRequest
	headers  sync.Map // of the streams
}

func newManagement(t *testing.T, options ...grpc.ServerOption) *management {
	m := &management{t: t, cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil), requests: make(chan *discoveryv3.DiscoveryRequest, 100)}
	m.serve("127.0.0.1:0", options...)
	t.Cleanup(func() { m.server.Stop() })
	return m
}

func (m *management) serve(address string, options ...grpc.ServerOption) {
	listener, err := net.Listen("tcp", address)
	require.NoError(m.t, err)
	m.address = listener.Addr().String()
	m.server = grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(m.server, xdsserver.NewServer(context.Background(), m.cache, xdsserver.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, _ int64, _ string) error {
			all, _ := metadata.FromIncomingContext(ctx)
			m.headers.Store("x-token", all.Get("x-token"))
			return nil
		},
		StreamRequestFunc: func(_ int64, r *discoveryv3.DiscoveryRequest) error {
			m.requests <- r
			return nil
		},
	}))
	go m.server.Serve(listener)
}

// set is the state of the world.
func (m *management) set(version string, all ...types.Resource) {
	m.t.Helper()
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: all})
	require.NoError(m.t, err)
	require.NoError(m.t, m.cache.SetSnapshot(context.Background(), "limits", snapshot))
}

// answer returns the next answer to a response: the version that is held, and what was
// wrong.
func (m *management) answer() (version, wrong string) {
	for {
		if r := <-m.requests; r.ResponseNonce != "" {
			return r.VersionInfo, r.GetErrorDetail().GetMessage()
		}
	}
}

func xdsConfig(domain string, limit uint32) *configv3.RateLimitConfig {
	return &configv3.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*configv3.RateLimitDescriptor{
		{Key: "client", RateLimit: &configv3.RateLimitPolicy{Unit: configv3.RateLimitUnit_YEAR, RequestsPerUnit: limit}},
	}}
}

func xdsEnvironment(m *management) map[string]string {
	variables := environment("/nowhere")
	variables["CONFIG_TYPE"] = "GRPC_XDS_SOTW"
	variables["CONFIG_GRPC_XDS_SERVER_URL"] = m.address
	variables["CONFIG_GRPC_XDS_NODE_ID"] = "limits"
	variables["CONFIG_GRPC_XDS_NODE_METADATA"] = "zone=a,cell=b"
	variables["CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"] = "x-token:secret"
	variables["CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL"] = "20ms"
	variables["XDS_CLIENT_BACKOFF_INITIAL_INTERVAL"] = "10ms"
	variables["XDS_CLIENT_BACKOFF_MAX_INTERVAL"] = "50ms"
	return variables
}

// Rules come, change and go. What is wrong is refused with the reason, and those before
// stay; so they do while the server is away.
func TestXDS(t *testing.T) {
	m := newManagement(t)
	m.set("1", xdsConfig("api", 2))
	s := start(t, xdsEnvironment(m))
	first := <-m.requests
	require.Equal(t, "limits", first.Node.Id)
	require.Equal(t, map[string]any{"zone": "a", "cell": "b"}, first.Node.Metadata.AsMap())
	token, _ := m.headers.Load("x-token")
	require.Equal(t, []string{"secret"}, token)
	version, wrong := m.answer()
	require.Equal(t, "1, ", version+", "+wrong)
	client, _ := dial(t, s.grpc)
	_, limit := allowed(t, client, "ann")
	require.EqualValues(t, 2, limit)

	m.set("2", xdsConfig("api", 3), xdsConfig("other", 1))
	version, wrong = m.answer()
	require.Equal(t, "2, ", version+", "+wrong)
	_, limit = allowed(t, client, "ann")
	require.EqualValues(t, 3, limit)

	broken := xdsConfig("api", 4)
	broken.Descriptors[0].RateLimit.Unit = configv3.RateLimitUnit_UNKNOWN
	m.set("3", broken)
	version, wrong = m.answer()
	require.Equal(t, "2", version, "still held")
	require.Contains(t, wrong, "invalid rate limit unit ''")
	_, limit = allowed(t, client, "ann")
	require.EqualValues(t, 3, limit)

	m.server.Stop()
	s.wait("no rules from the management server")
	_, limit = allowed(t, client, "ann")
	require.EqualValues(t, 3, limit)
	m.set("4", xdsConfig("api", 5))
	m.serve(m.address)
	for version != "4" {
		version, _ = m.answer()
	}
	_, limit = allowed(t, client, "ann")
	require.EqualValues(t, 5, limit)
	require.NoError(t, s.end())
}

// Without rules it does not serve, unless it is told to.
func TestXDSWithoutServer(t *testing.T) {
	m := newManagement(t) // has nothing to send
	variables := xdsEnvironment(m)
	variables["LOG_LEVEL"] = "debug"
	waiting := launch(t, variables)
	<-m.requests
	require.NotContains(t, waiting.all(), "listening")
	require.NoError(t, waiting.end())

	variables["FORCE_START_WITHOUT_INITIAL_CONFIG"] = "true"
	s := start(t, variables)
	client, _ := dial(t, s.grpc)
	_, err := client.ShouldRateLimit(t.Context(), ask("api", "client", "ann"))
	require.ErrorContains(t, err, "no rate limit configuration loaded")
	m.set("1", xdsConfig("api", 2))
	s.wait("rules loaded")
	response, err := client.ShouldRateLimit(t.Context(), ask("api", "client", "ann"))
	require.NoError(t, err)
	require.Equal(t, ratelimitv3.RateLimitResponse_OK, response.OverallCode)
}

// All that the protocol has is there in the file.
func TestXDSFile(t *testing.T) {
	data, err := structpb.NewStruct(map[string]any{"tier": map[string]any{"name": "basic"}})
	require.NoError(t, err)
	file, err := xdsFile(&configv3.RateLimitConfig{Name: "a", Domain: "api", Descriptors: []*configv3.RateLimitDescriptor{{
		Key: "yes", Value: "12", ShadowMode: true, DetailedMetric: true, Metadata: data,
		RateLimit: &configv3.RateLimitPolicy{Unit: configv3.RateLimitUnit_WEEK, RequestsPerUnit: 7, Name: "weekly", Replaces: []*configv3.RateLimitReplace{{Name: "daily"}}},
		Descriptors: []*configv3.RateLimitDescriptor{
			{Key: "free", RateLimit: &configv3.RateLimitPolicy{Unlimited: true}},
			{Key: "quota", QuotaMode: true, RateLimit: &configv3.RateLimitPolicy{Unit: configv3.RateLimitUnit_SECOND}},
		},
	}}})
	require.NoError(t, err)
	limits, err := rules.Options{MaxMemoryBytes: 64 << 20}.New(file)
	require.NoError(t, err)
	all := limits.All()
	require.Len(t, all, 3)
	require.Equal(t, "api.yes_12", all[0].String())
	require.True(t, all[0].Shadow && all[0].NamedByRequest)
	require.Equal(t, "weekly", all[0].Name)
	require.Equal(t, 7, all[0].Limit)
	require.Equal(t, data.AsMap(), all[0].Metadata)
	require.True(t, all[1].Unlimited)
	require.True(t, all[2].Quota)
	require.Zero(t, all[2].Limit)
}

func TestXDSDecodeErrors(t *testing.T) {
	_, err := decode([]*anypb.Any{{TypeUrl: "type.googleapis.com/nothing"}})
	require.Error(t, err)
}
