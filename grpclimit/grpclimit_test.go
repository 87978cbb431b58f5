package grpclimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/grpclimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/inflight"
)

// service counts the calls that reach it.
type service struct {
	pb.UnimplementedTestServiceServer
	calls, received atomic.Int64
	unary           func(context.Context) error // nil: succeeds
}

func (s *service) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.calls.Add(1)
	if s.unary != nil {
		if err := s.unary(ctx); err != nil {
			return nil, err
		}
	}
	return &pb.SimpleResponse{Username: "ok"}, nil
}

func (s *service) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	s.calls.Add(1)
	return stream.Send(&pb.StreamingOutputCallResponse{})
}

func (s *service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	s.calls.Add(1)
	for {
		switch _, err := stream.Recv(); err {
		case nil:
			s.received.Add(1)
		case io.EOF:
			return stream.SendAndClose(&pb.StreamingInputCallResponse{})
		default:
			return err
		}
	}
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		s.received.Add(1)
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// clock is a time that tests set; it starts at the epoch, where all windows begin.
type clock struct{ atomic.Int64 }

func (c *clock) read() time.Time { return time.Unix(0, c.Load()) }

// build returns a reproducible limiter of a fixed window of a minute that is large
// enough not to err.
func build(t testing.TB, limit int) *sketchlimit.Limiter {
	t.Helper()
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: limit, LowestLimit: 1, Window: time.Minute, Algorithm: sketchlimit.FixedWindow,
		MemoryBytes: 1 << 20, Seed: 1, Clock: new(clock).read,
	})
	require.NoError(t, err)
	return l
}

func limited(t testing.TB, limiter httplimit.Limiter, key httplimit.Key, options ...httplimit.Option) *grpclimit.Limit {
	t.Helper()
	l, err := grpclimit.New(httplimit.New(limiter, key, options...))
	require.NoError(t, err)
	return l
}

var byUser = httplimit.Header("X-User")

// user is the context of a call with this metadata.
func user(t testing.TB, name string, more ...string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), append([]string{"x-user", name}, more...)...)
}

// serve runs the service behind interceptors on loopback, or in memory, and returns a
// client.
func serve(t testing.TB, s pb.TestServiceServer, inMemory bool, options []grpc.ServerOption, dial ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, s)
	var listener net.Listener
	target := "passthrough:///memory"
	dial = append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if inMemory {
		l := bufconn.Listen(1 << 16)
		listener = l
		dial = append(dial, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listener, target = l, l.Addr().String()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
	conn, err := grpc.NewClient(target, dial...)
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-done
	})
	return pb.NewTestServiceClient(conn)
}

// both are the interceptors of calls of all kinds.
func both(l *grpclimit.Limit) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.UnaryInterceptor(l.Unary), grpc.StreamInterceptor(l.Stream)}
}

// told returns what trailers tell, "-" for what they do not.
func told(trailer metadata.MD) string {
	var parts []string
	for _, name := range []string{"ratelimit-policy", "ratelimit", "retry-after", "grpc-retry-pushback-ms"} {
		value := strings.Join(trailer[name], " + ")
		if value == "" {
			value = "-"
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, " | ")
}

// delay returns the RetryInfo of an error.
func delay(t testing.TB, err error) (wait time.Duration, ok bool) {
	t.Helper()
	s, isStatus := status.FromError(err)
	require.True(t, isStatus)
	require.Equal(t, codes.ResourceExhausted, s.Code(), "%v", err)
	for _, d := range s.Details() {
		info, isInfo := d.(*errdetails.RetryInfo)
		require.True(t, isInfo)
		require.False(t, ok, "one RetryInfo")
		wait, ok = info.RetryDelay.AsDuration(), true
	}
	return wait, ok
}

func call(ctx context.Context, c pb.TestServiceClient) (trailer, header metadata.MD, err error) {
	_, err = c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: 1}, grpc.Trailer(&trailer), grpc.Header(&header))
	return trailer, header, err
}

func TestUnary(t *testing.T) {
	s := &service{}
	c := serve(t, s, true, both(limited(t, build(t, 2), byUser)))
	for i, want := range []string{
		`"default";q=2;w=60 | "default";r=1;t=60 | - | -`,
		`"default";q=2;w=60 | "default";r=0;t=60 | - | -`,
		`"default";q=2;w=60 | "default";r=0;t=60 | 60 | 60000`,
		`"default";q=2;w=60 | "default";r=0;t=60 | 60 | 60000`,
	} {
		trailer, header, err := call(user(t, "ann"), c)
		require.Equal(t, want, told(trailer))
		require.Equal(t, "- | - | - | -", told(header))
		if i < 2 {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, "rpc error: code = ResourceExhausted desc = too many requests: default")
		wait, ok := delay(t, err)
		require.True(t, ok)
		require.Equal(t, time.Minute, wait)
	}
	_, _, err := call(user(t, "bob"), c)
	require.NoError(t, err)
	require.EqualValues(t, 3, s.calls.Load())
}

// A stream counts once, whatever its kind; a stream that is refused never reaches the
// service.
func TestStreams(t *testing.T) {
	l := build(t, 1)
	s := &service{}
	c := serve(t, s, true, both(limited(t, l, byUser)))
	open := map[string]func(ctx context.Context) (grpc.ClientStream, error){
		"output": func(ctx context.Context) (grpc.ClientStream, error) {
			return c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		},
		"input": func(ctx context.Context) (grpc.ClientStream, error) {
			stream, err := c.StreamingInputCall(ctx)
			if err == nil {
				stream.CloseSend()
			}
			return stream, err
		},
		"duplex": func(ctx context.Context) (grpc.ClientStream, error) {
			stream, err := c.FullDuplexCall(ctx)
			if err == nil {
				stream.CloseSend()
			}
			return stream, err
		},
	}
	for name, open := range open {
		for i, want := range []string{`"default";q=1;w=60 | "default";r=0;t=60 | - | -`, `"default";q=1;w=60 | "default";r=0;t=60 | 60 | 60000`} {
			stream, err := open(user(t, name))
			require.NoError(t, err)
			for err == nil {
				err = stream.RecvMsg(new(pb.StreamingOutputCallResponse))
			}
			if i == 0 {
				require.Equal(t, io.EOF, err)
			} else {
				wait, _ := delay(t, err)
				require.Equal(t, time.Minute, wait)
			}
			require.Equal(t, want, told(stream.Trailer()), name)
		}
	}
	require.EqualValues(t, 3, s.calls.Load())
	require.EqualValues(t, 3, l.Stats().Admitted)
}

// Each message counts, the opening does not. The stream ends with the first message
// that is not admitted.
func TestMessages(t *testing.T) {
	s := &service{}
	limit := limited(t, build(t, 5), byUser, httplimit.Cost(func(r *http.Request) int {
		return len(grpclimit.Message(r).(*pb.StreamingOutputCallRequest).Payload.GetBody())
	}))
	c := serve(t, s, true, []grpc.ServerOption{grpc.StreamInterceptor(limit.Messages)})
	stream, err := c.FullDuplexCall(user(t, "ann"))
	require.NoError(t, err)
	for i, bytes := range []int{2, 0, 2, 2} {
		require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, bytes)}}))
		_, err = stream.Recv()
		require.Equal(t, i == 3, err != nil, "%v", err)
	}
	wait, _ := delay(t, err)
	require.Equal(t, time.Minute, wait)
	require.Equal(t, `"default";q=5;w=60 | "default";r=1;t=60 | 60 | 60000`, told(stream.Trailer()))
	require.EqualValues(t, 3, s.received.Load())

	stream, err = c.FullDuplexCall(user(t, "ann"))
	require.NoError(t, err)
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.Equal(t, io.EOF, err, "streams without messages pass")
	require.Equal(t, "- | - | - | -", told(stream.Trailer()))
}

// A handler that goes on after a refusal gets the next message when there is quota
// again, and clients are told once.
func TestHandlersMayGoOn(t *testing.T) {
	limit := limited(t, build(t, 1), byUser)
	var errs []error
	swallow := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		for {
			err := stream.RecvMsg(new(pb.StreamingOutputCallRequest))
			if err == io.EOF {
				return nil
			}
			errs = append(errs, err)
		}
	}
	c := serve(t, &service{}, true, []grpc.ServerOption{grpc.ChainStreamInterceptor(limit.Messages, swallow)})
	stream, err := c.FullDuplexCall(user(t, "ann"))
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{}))
	}
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.Equal(t, io.EOF, err)
	require.Len(t, errs, 3)
	require.NoError(t, errs[0])
	require.Equal(t, []codes.Code{codes.ResourceExhausted, codes.ResourceExhausted}, []codes.Code{status.Code(errs[1]), status.Code(errs[2])})
	require.Equal(t, `"default";q=1;w=60 | "default";r=0;t=60 | 60 | 60000`, told(stream.Trailer()))
}

func TestInFlight(t *testing.T) {
	in, err := inflight.New(inflight.Config{Limit: 1, Requests: 10})
	require.NoError(t, err)
	limit, err := grpclimit.New(httplimit.NewAll([]httplimit.Quota{{Name: "at once", InFlight: in, Key: byUser}}))
	require.NoError(t, err)
	entered := make(chan struct{})
	s := &service{unary: func(ctx context.Context) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	recover := func(ctx context.Context, r any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if recover() != nil {
				err = status.Error(codes.Internal, "panic")
			}
		}()
		return h(ctx, r)
	}
	c := serve(t, s, true, []grpc.ServerOption{grpc.ChainUnaryInterceptor(recover, limit.Unary), grpc.StreamInterceptor(limit.Stream)})
	ctx, cancel := context.WithCancel(user(t, "ann"))
	first := make(chan error)
	go func() {
		_, _, err := call(ctx, c)
		first <- err
	}()
	<-entered
	trailer, _, err := call(user(t, "ann"), c)
	_, ok := delay(t, err)
	require.False(t, ok, "nobody knows when another call ends")
	require.Equal(t, `"at once";q=1;qu="concurrent-requests" | "at once";r=0 | - | -`, told(trailer))
	stream, err := c.FullDuplexCall(user(t, "bob"))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	require.NoError(t, err)
	require.Equal(t, 1, in.Held("bob"), "a stream is in flight until it ends")
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.Equal(t, io.EOF, err)
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-first))
	require.Eventually(t, func() bool { return in.Stats().Units == 0 }, time.Minute, time.Millisecond, "the handler ends after its client")

	s.unary = func(context.Context) error { panic("as it happens") }
	for range 2 {
		_, _, err = call(user(t, "ann"), c)
		require.Equal(t, codes.Internal, status.Code(err))
	}
	require.Zero(t, in.Stats().Units)
}

// Several limits are one decision, with keys of the metadata, the method and the address.
func TestQuotas(t *testing.T) {
	perUser, perMethod := build(t, 3), build(t, 2)
	limit, err := grpclimit.New(httplimit.NewAll([]httplimit.Quota{
		{Name: "user", Limiter: perUser, Key: byUser},
		{Name: "method", Limiter: perMethod, Key: httplimit.Join{byUser, httplimit.Pattern{}}},
	}))
	require.NoError(t, err)
	c := serve(t, &service{}, true, both(limit))
	for i, want := range []string{`"method";r=1;t=60`, `"method";r=0;t=60`, `"method";r=0;t=60`} {
		trailer, _, err := call(user(t, "ann"), c)
		require.Equal(t, []string{want}, trailer["ratelimit"])
		require.Equal(t, i == 2, err != nil)
	}
	_, err = c.EmptyCall(user(t, "ann"), &pb.Empty{})
	require.Equal(t, codes.Unimplemented, status.Code(err), "of another method")
	_, err = c.EmptyCall(user(t, "ann"), &pb.Empty{})
	require.ErrorContains(t, err, "too many requests: user")
	require.EqualValues(t, 3, perUser.Stats().Admitted)
	require.EqualValues(t, 3, perMethod.Stats().Admitted)
}

// A call without the key that is required is unauthenticated, and counts nothing.
func TestRequireKey(t *testing.T) {
	l, key := build(t, 1), httplimit.Header("X-Api-Key")
	limit := limited(t, l, key, httplimit.RequireKey(key, "Bearer"))
	c := serve(t, &service{}, false, []grpc.ServerOption{grpc.UnaryInterceptor(limit.Unary)})
	_, _, err := call(user(t, "ann"), c)
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.ErrorContains(t, err, "lacks the key")
	_, _, err = call(user(t, "ann", "x-api-key", "secret"), c)
	require.NoError(t, err)
	_, _, err = call(user(t, "ann", "x-api-key", "secret"), c)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.EqualValues(t, 1, l.Stats().Admitted)
}

// What functions of options and keys find in a request.
func TestRequest(t *testing.T) {
	type tenant struct{}
	authenticate := func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		return h(context.WithValue(ctx, tenant{}, "acme"), r)
	}
	var seen *http.Request
	limit := limited(t, build(t, 9), httplimit.KeyFunc(func(dst []byte, r *http.Request) []byte {
		seen = r
		return append(dst, r.Context().Value(tenant{}).(string)...)
	}), httplimit.Limit(func(r *http.Request) int {
		return int(grpclimit.Message(r).(*pb.SimpleRequest).ResponseSize)
	}))
	c := serve(t, &service{}, false, []grpc.ServerOption{grpc.ChainUnaryInterceptor(authenticate, limit.Unary)}, grpc.WithAuthority("api.example"))
	_, _, err := call(user(t, "ann", "x-user", "bob", "x-bytes-bin", "\x00\xff"), c)
	require.NoError(t, err)
	_, _, err = call(user(t, "ann"), c)
	require.Error(t, err, "a limit of 1, by the message")
	require.Equal(t, []any{"POST", "/grpc.testing.TestService/UnaryCall", "/grpc.testing.TestService/UnaryCall", "api.example", 2},
		[]any{seen.Method, seen.URL.Path, seen.Pattern, seen.Host, seen.ProtoMajor})
	require.True(t, netip.MustParseAddrPort(seen.RemoteAddr).Addr().IsLoopback())
	require.Equal(t, []string{"application/grpc"}, seen.Header["Content-Type"])
	require.Equal(t, []string{"ann"}, seen.Header["X-User"])
	require.NotContains(t, seen.Header, ":authority")
	b, err := io.ReadAll(seen.Body)
	require.NoError(t, err)
	require.Empty(t, b)
	require.NoError(t, seen.Body.Close())
	require.Nil(t, grpclimit.Message(&http.Request{}))
}

// A dry run passes and tells nothing; what is skipped is neither counted nor told.
func TestOptions(t *testing.T) {
	var refused []string
	l := build(t, 1)
	limit := limited(t, l, byUser, httplimit.Shadow(),
		httplimit.Skip(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/grpc.health.v1.") }),
		httplimit.OnRefusal(func(r *http.Request, p httplimit.Policy) { refused = append(refused, r.URL.Path+" "+string(p.Key)) }))
	c := serve(t, &service{}, true, both(limit))
	for range 2 {
		trailer, _, err := call(user(t, "ann"), c)
		require.NoError(t, err)
		require.Equal(t, "- | - | - | -", told(trailer))
	}
	require.Equal(t, []string{"/grpc.testing.TestService/UnaryCall ann"}, refused)
	_, err := limit.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/grpc.health.v1.Health/Check"},
		func(context.Context, any) (any, error) { return nil, nil })
	require.NoError(t, err)
	require.EqualValues(t, 1, l.Stats().Admitted)

	// A Refusal cannot answer a gRPC call, but refuses it.
	limit = limited(t, build(t, 1), byUser, httplimit.Refusal(func(w http.ResponseWriter, _ *http.Request, _ []httplimit.Policy) {
		http.Error(w, "no", http.StatusServiceUnavailable)
	}))
	c = serve(t, &service{}, true, both(limit))
	_, _, err = call(user(t, "ann"), c)
	require.NoError(t, err)
	_, _, err = call(user(t, "ann"), c)
	require.EqualError(t, err, "rpc error: code = ResourceExhausted desc = too many requests")
}

func TestErrors(t *testing.T) {
	_, err := grpclimit.New(httplimit.New(nil, byUser))
	require.EqualError(t, err, "httplimit: limiter nil, must be one")
	_, err = grpclimit.New(nil, nil)
	require.EqualError(t, err, "grpclimit: middleware nil, must be one")
}
