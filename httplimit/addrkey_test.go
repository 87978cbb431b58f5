package httplimit_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// The key of a request is the key of its client's address, as those make it who have no
// request.
func TestKeyOfAnAddress(t *testing.T) {
	for _, c := range []struct {
		clients         httplimit.Clients
		addr, key, text string
	}{
		{httplimit.Clients{}, "192.0.2.1", "\xc0\x00\x02\x01", "192.0.2.1"},
		{httplimit.Clients{}, "::ffff:192.0.2.1", "\xc0\x00\x02\x01", "192.0.2.1"},
		{httplimit.Clients{}, "64:ff9b::192.0.2.1", "\xc0\x00\x02\x01", "192.0.2.1"},
		{httplimit.Clients{IPv4Bits: 32}, "192.0.2.1", "\xc0\x00\x02\x01", "192.0.2.1"},
		{httplimit.Clients{IPv4Bits: 24}, "192.0.2.1", "\xc0\x00\x02\x00\x18", "192.0.2.0/24"},
		{httplimit.Clients{IPv4Bits: 1}, "192.0.2.1", "\x80\x00\x00\x00\x01", "128.0.0.0/1"},
		{httplimit.Clients{}, "2001:db8:1:2:3:4:5:6", "\x20\x01\x0d\xb8\x00\x01\x00\x02", "2001:db8:1:2::/64"},
		{httplimit.Clients{IPv6Bits: 64}, "2001:db8:1:2::%eth0", "\x20\x01\x0d\xb8\x00\x01\x00\x02", "2001:db8:1:2::/64"},
		{httplimit.Clients{IPv6Bits: 48}, "2001:db8:1:2::", "\x20\x01\x0d\xb8\x00\x01\x00\x00\x30", "2001:db8:1::/48"},
		{httplimit.Clients{IPv6Bits: 65}, "2001:db8:1:2:8000::1", "\x20\x01\x0d\xb8\x00\x01\x00\x02\x80\x00\x00\x00\x00\x00\x00\x00\x41", "2001:db8:1:2:8000::/65"},
		{httplimit.Clients{IPv6Bits: 128}, "::1", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x80", "::1/128"},
	} {
		addr := netip.MustParseAddr(c.addr)
		require.Equal(t, c.key, c.clients.Key(addr), c.addr)
		require.Equal(t, "x"+c.key, string(c.clients.AppendAddr([]byte("x"), addr)))
		r := from(c.addr, "X")
		require.Equal(t, c.key, string(c.clients.AppendKey(nil, r)))
		require.Equal(t, c.text, c.clients.Text(r))
		require.Equal(t, c.text, new(httplimit.Clients).KeyText([]byte(c.key)), "of any Clients")
	}
	require.Empty(t, new(httplimit.Clients).Key(netip.Addr{}))
	for _, odd := range []string{"odd", "\xc0\x00\x02\x01\x21", "\x20\x01\x0d\xb8\x00\x01\x00\x00\x81", "0123456789abcdef"} {
		require.Contains(t, new(httplimit.Clients).KeyText([]byte(odd)), `"`)
	}
}

func TestAddrKeysAllocateNothing(t *testing.T) {
	clients, addr := &httplimit.Clients{IPv6Bits: 128}, netip.MustParseAddr("2001:db8::1")
	l := build(t, sketchlimit.Config{Limit: 1}, newClock())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var key [17]byte
		l.Do(sketchlimit.Request{Bytes: clients.AppendAddr(key[:0], addr)})
	}))
}

// The prefixes of RFC 6052, table in section 2.4: 192.0.2.33 in prefixes of several
// lengths.
func TestTranslatedClients(t *testing.T) {
	for addr, want := range map[string]string{
		"64:ff9b::192.0.2.33":           "192.0.2.33",
		"64:ff9b::0.0.0.0":              "0.0.0.0",
		"64:ff9b:1::192.0.2.33":         "192.0.2.33", // /96
		"64:ff9b:1:fffe::192.0.2.33":    "192.0.2.33",
		"64:ff9b:1:abcd:2:3:c000:221":   "192.0.2.33",
		"64:ff9b:1:0:c0:2:2100:0":       "192.0.2.33", // /64
		"64:ff9b:1:ffff:c0:2:2100:0":    "192.0.2.33",
		"64:ff9b:1:3c0:0:221::":         "192.0.2.33", // /56
		"64:ff9b:1:c000:2:2100::":       "192.0.2.33", // /48
		"64:ff9b:1:c000:102:2100::":     "64:ff9b:1:c000:102:2100::",
		"64:ff9b:0:0:0:1:c000:221":      "64:ff9b::1:c000:221",
		"64:ff9b:2::192.0.2.33":         "64:ff9b:2::c000:221",
		"64:ff9a::192.0.2.33":           "64:ff9a::c000:221",
		"2001:db8::192.0.2.33":          "2001:db8::c000:221",
		"::192.0.2.33":                  "::c000:221",
		"64:ff9b:1:c000:2:2100:0:0%eth": "192.0.2.33",
	} {
		clients := &httplimit.Clients{Proxies: proxies}
		require.Equal(t, want, clients.Addr(from("["+addr+"]:80", "X")).String(), addr)
		require.Equal(t, want, clients.Addr(from("10.0.0.1:80", "X-Forwarded-For", addr)).String(), addr)
		require.Equal(t, clients.Key(netip.MustParseAddr(want)), clients.Key(netip.MustParseAddr(addr)), addr)
	}
}

// Who is a proxy is known of its own address: not of what anybody has put into an IPv6
// one.
func TestTranslatedProxies(t *testing.T) {
	r := from("[64:ff9b::10.0.0.1]:80", "X-Forwarded-For", "203.0.113.9")
	require.Equal(t, "10.0.0.1", (&httplimit.Clients{Proxies: proxies}).Addr(r).String())
	require.Equal(t, "203.0.113.9", (&httplimit.Clients{Proxies: prefixes("64:ff9b::10.0.0.0/104")}).Addr(r).String())
}
