package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Clean()
	os.Exit(code)
}

// kinds are the services that must answer alike.
var kinds = []servers.Kind{servers.Reference, servers.Sketchlimit}

// each runs a test against each of the services.
func each(t *testing.T, test func(*testing.T, servers.Kind)) {
	for _, kind := range kinds {
		t.Run(kind.Name, func(t *testing.T) { t.Parallel(); test(t, kind) })
	}
}

// client asks a service.
type client struct {
	t   testing.TB
	rls rls.RateLimitServiceClient
}

// dial returns a client of the service at addr, without TLS if credentials are nil.
func dial(t testing.TB, addr string, creds credentials.TransportCredentials) client {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return client{t, rls.NewRateLimitServiceClient(conn)}
}

func (c client) try(request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return c.rls.ShouldRateLimit(ctx, request)
}

// ask sends a request of one hit for descriptors as in "key=value,key=value", and
// returns the answer without the times until limits are reset, which are checked by the
// clock.
func (c client) ask(domain string, descriptors ...string) *rls.RateLimitResponse {
	c.t.Helper()
	began := time.Now()
	answer, err := c.try(request(domain, descriptors...))
	require.NoError(c.t, err)
	for _, status := range answer.Statuses {
		if status.CurrentLimit != nil {
			require.NoError(c.t, checkReset(status, began, time.Now()))
			status.DurationUntilReset = nil
		}
	}
	return answer
}

func request(domain string, descriptors ...string) *rls.RateLimitRequest {
	r := &rls.RateLimitRequest{Domain: domain, HitsAddend: 1}
	for _, d := range descriptors {
		r.Descriptors = append(r.Descriptors, descriptor(d))
	}
	return r
}

func descriptor(entries string) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{}
	for entry := range strings.SplitSeq(entries, ",") {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// equal fails the test if two messages differ.
func equal(t testing.TB, want, got proto.Message) {
	t.Helper()
	require.Truef(t, proto.Equal(want, got), "want %v\n got %v", want, got)
}

const (
	ok   = rls.RateLimitResponse_OK
	over = rls.RateLimitResponse_OVER_LIMIT
)

// answer is one with the overall code and the statuses.
func answer(code rls.RateLimitResponse_Code, statuses ...*rls.RateLimitResponse_DescriptorStatus) *rls.RateLimitResponse {
	return &rls.RateLimitResponse{OverallCode: code, Statuses: statuses}
}

// status is one of a limit. Without a limit it is
// &rls.RateLimitResponse_DescriptorStatus{Code: ok}.
func status(code rls.RateLimitResponse_Code, limit uint32, unit rls.RateLimitResponse_RateLimit_Unit, remaining uint32) *rls.RateLimitResponse_DescriptorStatus {
	return &rls.RateLimitResponse_DescriptorStatus{Code: code, LimitRemaining: remaining,
		CurrentLimit: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: limit, Unit: unit}}
}
