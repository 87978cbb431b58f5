package grpclimit_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/grpclimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// proxies are the networks that the tests believe.
var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// from is the context of a call that a peer has sent, with metadata.
func from(ctx context.Context, addr net.Addr, md ...string) context.Context {
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: addr})
	return metadata.NewIncomingContext(ctx, metadata.Pairs(md...))
}

// tcp is the address of a peer.
func tcp(addr string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)) }

// asked returns the request that a call is to the middleware.
func asked(t testing.TB, ctx context.Context) (seen *http.Request) {
	limit, err := grpclimit.New(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r })
	}, nil)
	require.NoError(t, err)
	_, err = limit.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, nil)
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "what is not passed on is refused")
	return seen
}

// Clients are found as those of HTTP are.
func TestClients(t *testing.T) {
	clients := &httplimit.Clients{Proxies: proxies}
	for _, c := range []struct {
		name string
		peer net.Addr
		md   []string
		want string // of Clients.Text
	}{
		{"a peer", tcp("192.0.2.1:80"), nil, "192.0.2.1"},
		{"IPv6 by network", tcp("[2001:db8:1:2:3:4:5:6]:80"), nil, "2001:db8:1:2::/64"},
		{"a mapped peer", tcp("[::ffff:192.0.2.1]:80"), nil, "192.0.2.1"},
		{"a peer with a zone", tcp("[fe80::1%eth0]:80"), nil, "fe80::/64"},
		{"a translated peer", tcp("[64:ff9b::192.0.2.1]:80"), nil, "192.0.2.1"},
		{"no address", &net.UnixAddr{Name: "@", Net: "unix"}, []string{"x-forwarded-for", "203.0.113.9"}, ""},
		{"no IP address", &net.TCPAddr{}, []string{"x-forwarded-for", "203.0.113.9"}, ""},
		{"a nil address", (*net.TCPAddr)(nil), nil, ""},
		{"no peer", nil, []string{"x-forwarded-for", "203.0.113.9"}, ""},
		{"a believed proxy", tcp("10.0.0.1:80"), []string{"x-forwarded-for", "203.0.113.9"}, "203.0.113.9"},
		{"a proxy that is not believed", tcp("192.0.2.1:80"), []string{"x-forwarded-for", "203.0.113.9"}, "192.0.2.1"},
		{"spoofed on the left", tcp("10.0.0.1:80"), []string{"x-forwarded-for", "1.1.1.1, 203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"spoofed on a line of its own", tcp("10.0.0.1:80"), []string{"x-forwarded-for", "1.1.1.1", "x-forwarded-for", "203.0.113.9"}, "203.0.113.9"},
		{"spoofed in other letters", tcp("10.0.0.1:80"), []string{"X-Forwarded-For", "1.1.1.1", "x-forwarded-for", "203.0.113.9"}, "203.0.113.9"},
		{"spoofed in other fields", tcp("10.0.0.1:80"), []string{"x-real-ip", "1.1.1.1", "forwarded", "for=1.1.1.1", "x_forwarded_for", "1.1.1.1"}, "10.0.0.1"},
		{"garbage", tcp("10.0.0.1:80"), []string{"x-forwarded-for", "203.0.113.9, unknown"}, "10.0.0.1"},
	} {
		require.Equal(t, c.want, clients.Text(asked(t, from(t.Context(), c.peer, c.md...))), c.name)
	}
	require.Empty(t, clients.Text(asked(t, t.Context())), "without peer and metadata")
	forwarded := &httplimit.Clients{Proxies: proxies, Header: "Forwarded"}
	require.Equal(t, "203.0.113.9", forwarded.Text(asked(t, from(t.Context(), tcp("10.0.0.1:80"), "forwarded", `for="203.0.113.9:80"`))))
}

// Over a real connection whose client names others: only where it is believed does that
// count.
func TestSpoofedMetadata(t *testing.T) {
	for _, c := range []struct {
		clients *httplimit.Clients
		want    []codes.Code
	}{
		{&httplimit.Clients{}, []codes.Code{codes.OK, codes.ResourceExhausted, codes.ResourceExhausted}},
		{&httplimit.Clients{Proxies: proxies}, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}},
	} {
		client := serve(t, &service{}, false, both(limited(t, build(t, 1), c.clients)))
		for i, forwarded := range []string{"203.0.113.1", "203.0.113.2", "203.0.113.1, 203.0.113.2"} {
			_, _, err := call(user(t, "ann", "x-forwarded-for", forwarded), client)
			require.Equal(t, c.want[i], status.Code(err), "%d", i)
		}
	}
	inMemory := serve(t, &service{}, true, both(limited(t, build(t, 1), &httplimit.Clients{Proxies: proxies})))
	_, _, err := call(user(t, "ann", "x-forwarded-for", "203.0.113.1"), inMemory)
	require.NoError(t, err)
	_, _, err = call(user(t, "ann", "x-forwarded-for", "203.0.113.2"), inMemory)
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "peers without an address share a key")
}

// Many calls at once, unary ones and streams, over several connections: exactly the
// limit is admitted.
func TestConcurrently(t *testing.T) {
	const limit, callers, each = 150, 8, 40
	l := build(t, limit)
	s := &service{}
	options := both(limited(t, l, byUser))
	var group sync.WaitGroup
	for range callers / 4 {
		c := serve(t, s, false, options)
		for i := range 4 {
			group.Go(func() {
				for range each {
					var err error
					if i%2 == 0 {
						_, _, err = call(user(t, "ann"), c)
					} else {
						stream, opened := c.FullDuplexCall(user(t, "ann"))
						if assert.NoError(t, opened) {
							stream.CloseSend()
							if _, err = stream.Recv(); err.Error() == "EOF" {
								err = nil
							}
						}
					}
					if err != nil {
						assert.Equal(t, codes.ResourceExhausted, status.Code(err))
					}
				}
			})
		}
	}
	group.Wait()
	require.EqualValues(t, limit, s.calls.Load())
	require.EqualValues(t, limit, l.Stats().Admitted)
	require.EqualValues(t, callers*each-limit, l.Stats().Denied)
}

// Whatever a client writes into its metadata, its key is its own address: as the
// connection has it, or as its proxy wrote it behind that.
func FuzzMetadata(f *testing.F) {
	for _, s := range []string{"", ",", "203.0.113.9", "10.0.0.9", "unknown", "[::1", "\x00", "a b", ":authority", "x-forwarded-for", "X-FORWARDED-FOR"} {
		f.Add(s, s)
		f.Add("x-forwarded-for", s)
	}
	clients := &httplimit.Clients{Proxies: proxies}
	f.Fuzz(func(t *testing.T, name, value string) {
		stranger := asked(t, from(t.Context(), tcp("192.0.2.1:80"), name, value))
		require.Equal(t, "192.0.2.1", clients.Text(stranger))
		proxied := asked(t, from(t.Context(), tcp("10.0.0.1:80"), name, value, "x-forwarded-for", "198.51.100.7, 10.0.0.2"))
		require.Equal(t, "198.51.100.7", clients.Text(proxied))
		for name := range stranger.Header {
			require.NotEmpty(t, name)
			require.NotEqual(t, ':', rune(name[0]))
		}
	})
}

// A million clients with a call each, of a limit of 1, and a second one of every tenth:
// all first calls pass, and no second one.
func TestManyClients(t *testing.T) {
	n := 1_000_000
	if testing.Short() || raceEnabled {
		n = 30_000
	}
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * 3600e9, Keys: n, Algorithm: sketchlimit.FixedWindow, Clock: new(clock).read, Seed: 1})
	require.NoError(t, err)
	limit := limited(t, l, &httplimit.Clients{})
	before := l.MemoryBytes()
	info := &grpc.UnaryServerInfo{FullMethod: "/a/b"}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	addr := &net.TCPAddr{Port: 80}
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: addr})
	admitted := func(step int) (sum int) {
		for i := 0; i < n; i += step {
			addr.IP = net.IPv4(10, byte(i>>16), byte(i>>8), byte(i))
			if _, err := limit.Unary(ctx, nil, info, handler); err == nil {
				sum++
			}
		}
		return sum
	}
	first := admitted(1)
	require.GreaterOrEqual(t, first, n-max(5, n/20_000), "false denials, of 1e-5 expected")
	require.LessOrEqual(t, first+admitted(10), n)
	require.Equal(t, before, l.MemoryBytes())
	t.Log(first, "of", n, "clients admitted")
}
