package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

var errorWriter = connect.NewErrorWriter()

// refuse answers in the protocol of the client: Connect, gRPC or gRPC-Web.
func refuse(w http.ResponseWriter, r *http.Request, refusing []httplimit.Policy) {
	err := connect.NewError(connect.CodeResourceExhausted, errors.New("too many requests"))
	if wait := refusing[0].RetryAfter; wait != sketchlimit.Never { // the longest
		if detail, e := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); e == nil {
			err.AddDetail(detail)
		}
	}
	errorWriter.Write(w, r, err)
}

const procedure = "/example.Greeter/Greet"

// greeter is a server of Connect services, two calls a minute and client, by the
// middleware.
func greeter(options ...httplimit.Option) *httptest.Server {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 2, Window: time.Minute, Keys: 1000, Algorithm: sketchlimit.FixedWindow,
		Clock: func() time.Time { return time.Unix(0, 0) },
	})
	if err != nil {
		panic(err)
	}
	limit, err := httplimit.New(limiter, &httplimit.Clients{}, append(options, httplimit.Refusal(refuse))...)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle(procedure, limit(connect.NewUnaryHandler(procedure,
		func(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
			return connect.NewResponse(&emptypb.Empty{}), nil
		})))
	mux.Handle(procedure+"s", limit(connect.NewServerStreamHandler(procedure+"s",
		func(_ context.Context, _ *connect.Request[emptypb.Empty], stream *connect.ServerStream[emptypb.Empty]) error {
			return stream.Send(&emptypb.Empty{})
		})))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	return server
}

func Example_connect() {
	server := greeter()
	defer server.Close()
	client := connect.NewClient[emptypb.Empty, emptypb.Empty](server.Client(), server.URL+procedure)
	for range 3 {
		_, err := client.CallUnary(context.Background(), connect.NewRequest(&emptypb.Empty{}))
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// resource_exhausted: too many requests
}

// Clients of all three protocols get the code, the RetryInfo and the fields, of unary
// calls and of streams.
func TestConnect(t *testing.T) {
	for name, options := range map[string][]connect.ClientOption{
		"Connect":  nil,
		"JSON":     {connect.WithProtoJSON()},
		"gRPC":     {connect.WithGRPC()},
		"gRPC-Web": {connect.WithGRPCWeb()},
	} {
		for _, streams := range []bool{false, true} {
			server := greeter()
			url := server.URL + procedure
			if streams {
				url += "s"
			}
			client := connect.NewClient[emptypb.Empty, emptypb.Empty](server.Client(), url, options...)
			call := func() error {
				if !streams {
					_, err := client.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
					return err
				}
				stream, err := client.CallServerStream(t.Context(), connect.NewRequest(&emptypb.Empty{}))
				require.NoError(t, err)
				for stream.Receive() {
				}
				return errors.Join(stream.Err(), stream.Close())
			}
			for range 2 {
				require.NoError(t, call(), name)
			}
			err := call()
			var refused *connect.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, connect.CodeResourceExhausted, refused.Code(), name)
			require.Len(t, refused.Details(), 1, name)
			info, err := refused.Details()[0].Value()
			require.NoError(t, err)
			require.Equal(t, time.Minute, info.(*errdetails.RetryInfo).RetryDelay.AsDuration())
			require.Equal(t, "60", refused.Meta().Get("Retry-After"), name)
			require.Equal(t, `"default";r=0;t=60`, refused.Meta().Get("RateLimit"), name)
			server.Close()
		}
	}
}

func TestDocsShowConnect(t *testing.T) {
	own, err := os.ReadFile("connect_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/grpc.md")
	require.NoError(t, err)
	_, shown, found := strings.Cut(string(own), "var errorWriter")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "\n}\n")
	require.Contains(t, string(page), "```go\nvar errorWriter"+shown+"\n}\n")
}
