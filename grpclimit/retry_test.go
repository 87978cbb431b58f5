package grpclimit_test

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// retries is a policy by which clients retry a call four times, at once.
var retries = grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`)

// attempts counts the calls that come, those that are refused, too.
func attempts(n *atomic.Int64) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		n.Add(1)
		return h(ctx, r)
	}
}

// A client that retries waits as long as it is told, and then passes: once, and not
// five times without success.
func TestPushbackIsHonoured(t *testing.T) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 500 * time.Millisecond, Keys: 100, Algorithm: sketchlimit.TokenBucket})
	require.NoError(t, err)
	defer l.Close()
	var came atomic.Int64
	c := serve(t, &service{}, true, []grpc.ServerOption{grpc.ChainUnaryInterceptor(attempts(&came), limited(t, l, byUser).Unary)}, retries)
	for i := range int64(3) {
		_, _, err = call(user(t, "ann"), c)
		require.NoError(t, err)
		require.LessOrEqual(t, came.Load(), 2*i+1, "one refusal each at the most")
	}
	require.Greater(t, came.Load(), int64(3), "one was refused")
}

// A retry that can only fail is not made: where no wait helps, or not before the
// deadline.
func TestPushbackAgainstRetries(t *testing.T) {
	var came atomic.Int64
	cost := 1
	l := build(t, 1)
	limit := limited(t, l, byUser, httplimit.Cost(func(*http.Request) int { return cost }))
	c := serve(t, &service{}, true, []grpc.ServerOption{grpc.ChainUnaryInterceptor(attempts(&came), limit.Unary)}, retries)
	_, _, err := call(user(t, "ann"), c)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(user(t, "ann"), 30*time.Second)
	defer cancel()
	trailer, _, err := call(ctx, c)
	wait, _ := delay(t, err)
	require.Equal(t, time.Minute, wait, "which is the truth")
	require.Equal(t, []string{"-1"}, trailer["grpc-retry-pushback-ms"])
	require.EqualValues(t, 2, came.Load())

	cost = 2
	trailer, _, err = call(user(t, "ann"), c)
	_, ok := delay(t, err)
	require.False(t, ok, "no wait helps")
	require.Equal(t, `"default";q=1;w=60 | "default";r=0 | - | -1`, told(trailer))
	require.EqualValues(t, 3, came.Load())
}

// The longest wait that clients read is that of 32 bits.
func TestLongPushback(t *testing.T) {
	for window, want := range map[time.Duration]string{
		20 * 24 * time.Hour: strconv.Itoa(20 * 24 * 3600 * 1000),
		25 * 24 * time.Hour: "-1",
	} {
		l, err := sketchlimit.New(sketchlimit.Config{
			Limit: 1, Window: window, Keys: 100, Algorithm: sketchlimit.TokenBucket, Clock: new(clock).read,
		})
		require.NoError(t, err)
		c := serve(t, &service{}, true, both(limited(t, l, byUser)))
		call(user(t, "ann"), c)
		trailer, _, err := call(user(t, "ann"), c)
		wait, _ := delay(t, err)
		require.Equal(t, window, wait)
		require.Equal(t, []string{want}, trailer["grpc-retry-pushback-ms"])
	}
}

// Calls that are admitted, and fail in their handler, are retried as without a limit.
func TestAdmittedCallsAreRetried(t *testing.T) {
	s := &service{}
	s.unary = func(context.Context) error {
		if s.calls.Load() < 3 {
			return status.Error(codes.Unavailable, "not yet")
		}
		return nil
	}
	c := serve(t, s, true, both(limited(t, build(t, 9), byUser)), retries)
	trailer, _, err := call(user(t, "ann"), c)
	require.NoError(t, err)
	require.Equal(t, []string{`"default";r=6;t=60`}, trailer["ratelimit"], "each attempt counts")
}

// A call whose deadline has passed ends as it would without a limit.
func TestDeadline(t *testing.T) {
	s := &service{unary: func(ctx context.Context) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}}
	c := serve(t, s, true, both(limited(t, build(t, 9), byUser)))
	ctx, cancel := context.WithTimeout(user(t, "ann"), 50*time.Millisecond)
	defer cancel()
	_, _, err := call(ctx, c)
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
}

// An interceptor that is called without a server, as tests of services do, has nobody
// to tell, and decides.
func TestWithoutServer(t *testing.T) {
	limit := limited(t, build(t, 1), &httplimit.Clients{})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-forwarded-for", "203.0.113.9"))
	for i := range 2 {
		_, err := limit.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { return nil, nil })
		require.Equal(t, i == 1, err != nil)
	}
}
