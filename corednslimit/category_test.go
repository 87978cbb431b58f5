package corednslimit

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

func message(rcode int, answer, authority []dns.RR) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion("www.Example.org.", dns.TypeA)
	m.Rcode, m.Answer, m.Ns = rcode, answer, authority
	return m
}

var (
	a   = []dns.RR{test.A("www.example.org. 5 IN A 192.0.2.1")}
	ns  = []dns.RR{test.NS("sub.Example.org. 5 IN NS ns.sub.example.org.")}
	soa = []dns.RR{test.SOA("example.org. 5 IN SOA ns.example.org. mail.example.org. 1 2 3 4 5")}
	// What a signed zone may put before them.
	proof = []dns.RR{test.NSEC("www.example.org. 5 IN NSEC x.example.org. A"), test.RRSIG("x.example.org. 5 IN RRSIG NSEC 8 3 5 20300101000000 20200101000000 1 example.org. AA==")}
)

func TestResponseType(t *testing.T) {
	for _, c := range []struct {
		m    *dns.Msg
		want category
	}{
		{message(dns.RcodeSuccess, a, nil), response},
		{message(dns.RcodeSuccess, a, ns), response},
		{message(dns.RcodeNameError, a, soa), response}, // an alias of what does not exist
		{message(dns.RcodeSuccess, nil, nil), nodata},
		{message(dns.RcodeSuccess, nil, soa), nodata},
		{message(dns.RcodeSuccess, nil, ns), referral},
		{message(dns.RcodeSuccess, nil, slices.Concat(proof, ns, proof)), referral},
		{message(dns.RcodeSuccess, nil, slices.Concat(proof, soa, ns)), nodata},
		{message(dns.RcodeSuccess, nil, proof), nodata},
		{message(dns.RcodeNameError, nil, soa), nxdomain},
		{message(dns.RcodeNameError, nil, nil), nxdomain},
		{message(dns.RcodeServerFailure, nil, nil), failure},
		{message(dns.RcodeRefused, nil, ns), failure},
		{message(dns.RcodeFormatError, nil, nil), failure},
	} {
		require.Equal(t, c.want, categoryOf(c.m), c.m.String())
	}
}

// What an account is of: what is alike has one key, and what differs where it counts
// has another.
func TestBuildToken(t *testing.T) {
	client := netip.MustParseAddr("192.0.2.0")
	key := func(c category, network netip.Addr, qtype uint16, name string) string {
		return string(c.key(nil, network, qtype, name))
	}
	seen := make(map[string]category)
	for c := range categories {
		base := key(c, client, dns.TypeA, "example.org.")
		require.NotContains(t, seen, base)
		seen[base] = c
		require.Equal(t, base, key(c, client, dns.TypeA, "eXample.ORG."))
		require.NotEqual(t, base, key(c, netip.MustParseAddr("192.0.3.0"), dns.TypeA, "example.org."))
		require.NotEqual(t, base, key(c, netip.MustParseAddr("c000:200::"), dns.TypeA, "example.org."))
		byType := c == response || c == referral
		require.Equal(t, byType, base != key(c, client, dns.TypeAAAA, "example.org."), options[c])
	}
	// An address is no part of a name, nor a type.
	require.NotEqual(t, key(nodata, client, 0, "a"), key(nodata, netip.Addr{}, 0, "\xc0\x00\x02\x00a"))
	six := netip.MustParseAddr("c000:200:6161:6161:6161:6161:6161:6161")
	require.NotEqual(t, key(nodata, client, 0, "aaaaaaaaaaaab"), key(nodata, six, 0, "b"))
	require.Equal(t, key(nodata, client, 0, "az@[._09-"), key(nodata, client, 0, "AZ@[._09-"))
	require.NotEqual(t, key(response, client, 0x6161, "a"), key(nodata, client, 0, "aaa"))
	require.Len(t, key(response, netip.MustParseAddr("2001:db8::"), 1, string(make([]byte, 255))), 1+16+2+255)
}

func TestNames(t *testing.T) {
	ctx := metadata.ContextWithMetadata(context.Background())
	require.Equal(t, "www.Example.org.", nameOf(ctx, response, message(dns.RcodeSuccess, a, nil)))
	require.Equal(t, "www.Example.org.", nameOf(ctx, nodata, message(dns.RcodeSuccess, nil, soa)))
	require.Equal(t, "example.org.", nameOf(ctx, nxdomain, message(dns.RcodeNameError, nil, soa)))
	require.Equal(t, "example.org.", nameOf(ctx, nxdomain, message(dns.RcodeNameError, nil, slices.Concat(proof, soa))))
	require.Equal(t, "", nameOf(ctx, nxdomain, message(dns.RcodeNameError, nil, nil)))
	require.Equal(t, "", nameOf(ctx, nxdomain, message(dns.RcodeNameError, nil, proof)))
	require.Equal(t, "sub.Example.org.", nameOf(ctx, referral, message(dns.RcodeSuccess, nil, slices.Concat(proof, ns))))
	require.Equal(t, "", nameOf(ctx, failure, nil))
	require.Equal(t, "", nameOf(ctx, response, new(dns.Msg)))

	wildcard := "*.example.org."
	metadata.SetValueFunc(ctx, "zone/wildcard", func() string { return wildcard })
	require.Equal(t, "example.org.", nameOf(ctx, response, message(dns.RcodeSuccess, a, nil)))
	require.Equal(t, "example.org.", nameOf(ctx, nodata, message(dns.RcodeSuccess, nil, soa)))
	wildcard = "none"
	require.Equal(t, "www.Example.org.", nameOf(ctx, response, message(dns.RcodeSuccess, a, nil)))
}

type text string

func (t text) Network() string { return "test" }
func (t text) String() string  { return string(t) }

func TestAddrPrefix(t *testing.T) {
	for _, c := range []struct {
		v4, v6 int
		client string
		want   string
	}{
		{24, 56, "192.0.2.77:53", "192.0.2.0"},
		{8, 56, "192.0.2.77:53", "192.0.0.0"},
		{32, 56, "192.0.2.77:53", "192.0.2.77"},
		{24, 56, "[2001:db8:1:2ff::1]:53", "2001:db8:1:200::"},
		{24, 16, "[2001:db8:1:2ff::1]:53", "2001::"},
		{24, 128, "[2001:db8:1:2ff::1]:53", "2001:db8:1:2ff::1"},
		{24, 56, "[::ffff:192.0.2.77]:53", "192.0.2.0"},
		{24, 56, "[fe80::1%eth0]:53", "fe80::"},
	} {
		p := prefixes{c.v4, c.v6}
		at := netip.MustParseAddrPort(c.client)
		for _, addr := range []net.Addr{net.UDPAddrFromAddrPort(at), net.TCPAddrFromAddrPort(at), text(c.client)} {
			require.Equal(t, c.want, p.of(addr).String(), c.client)
		}
	}
	require.False(t, prefixes{24, 56}.of(text("nowhere")).IsValid())
}
