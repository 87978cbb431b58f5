package grpclimit_test

import (
	"log"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/grpclimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// The first example of docs/grpc.md.
func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 1_000_000})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := grpclimit.New(httplimit.New(limiter, &httplimit.Clients{}))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream))
	server.Stop()
}

// The second example of docs/grpc.md.
func Example_options() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1 << 20, Window: time.Minute, Keys: 100_000})
	if err != nil {
		log.Fatal(err)
	}
	clients := &httplimit.Clients{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
	limit, err := grpclimit.New(httplimit.New(limiter, httplimit.Join{clients, httplimit.Pattern{}},
		httplimit.Cost(func(r *http.Request) int { return proto.Size(grpclimit.Message(r).(proto.Message)) }),
		httplimit.Skip(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/grpc.health.v1.") }),
	))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Messages))
	server.Stop()
}

func TestDocsShowTheExamples(t *testing.T) {
	own, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/grpc.md")
	require.NoError(t, err)
	shown := strings.Split(string(page), "```go\n")
	require.Greater(t, len(shown), 2)
	for i, begin := range []string{"func Example() {\n", "func Example_options() {\n"} {
		_, code, found := strings.Cut(string(own), begin)
		require.True(t, found)
		code, _, _ = strings.Cut(code, "\tserver.Stop()\n")
		text, _, _ := strings.Cut(shown[i+1], "```")
		require.Contains(t, strings.ReplaceAll("\n"+code, "\n\t", "\n"), text)
	}
}
