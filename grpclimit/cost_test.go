package grpclimit_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/sketchlimit/sketchlimit/httplimit"
)

// stream is the transport of a call that keeps nothing.
type stream struct{}

func (stream) Method() string                 { return "/a/b" }
func (stream) SetHeader(metadata.MD) error    { return nil }
func (stream) SendHeader(metadata.MD) error   { return nil }
func (stream) SetTrailer(_ metadata.MD) error { return nil }

// What an admitted call allocates in the interceptor, with the metadata that every call
// has and a field of the client's. docs/grpc.md states it.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools forget")
	}
	ctx := from(t.Context(), tcp("192.0.2.1:80"), ":authority", "localhost", "content-type", "application/grpc", "user-agent", "grpc-go/1.85.0", "x-user", "ann")
	ctx = grpc.NewContextWithServerTransportStream(ctx, stream{})
	info := &grpc.UnaryServerInfo{FullMethod: "/a/b"}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	for name, c := range map[string]struct {
		options []httplimit.Option
		most    float64
	}{
		"fields":    {nil, 23},
		"no fields": {[]httplimit.Option{httplimit.Headers(0)}, 17},
	} {
		limit := limited(t, build(t, 1<<30), &httplimit.Clients{}, c.options...)
		got := testing.AllocsPerRun(1000, func() { limit.Unary(ctx, nil, info, handler) })
		t.Log(name, got)
		require.LessOrEqual(t, got, c.most, name)
	}
}

// Calls over a connection in memory, with the interceptor and without.
func BenchmarkUnary(b *testing.B) {
	for _, c := range []struct {
		name    string
		options []grpc.ServerOption
	}{
		{"alone", nil},
		{"limited", both(limited(b, build(b, 1<<30), &httplimit.Clients{}))},
		{"no-fields", both(limited(b, build(b, 1<<30), &httplimit.Clients{}, httplimit.Headers(0)))},
	} {
		b.Run("server="+c.name, func(b *testing.B) {
			client := serve(b, &service{}, false, c.options)
			request := &pb.SimpleRequest{}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.UnaryCall(b.Context(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The interceptor alone.
func BenchmarkInterceptor(b *testing.B) {
	limit := limited(b, build(b, 1<<30), &httplimit.Clients{})
	ctx := from(b.Context(), tcp("192.0.2.1:80"), ":authority", "localhost", "content-type", "application/grpc", "user-agent", "grpc-go/1.85.0", "x-user", "ann")
	ctx = grpc.NewContextWithServerTransportStream(ctx, stream{})
	info := &grpc.UnaryServerInfo{FullMethod: "/a/b"}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	b.ReportAllocs()
	for b.Loop() {
		limit.Unary(ctx, nil, info, handler)
	}
}
