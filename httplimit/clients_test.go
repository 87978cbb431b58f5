package httplimit_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/httplimit"
)

// prefixes parses networks that are separated by spaces.
func prefixes(s string) (list []netip.Prefix) {
	for _, f := range strings.Fields(s) {
		list = append(list, netip.MustParsePrefix(f))
	}
	return list
}

// proxies are the networks that the tests believe.
var proxies = prefixes("10.0.0.0/8 2001:db8:ff::/48")

// from returns a request of a peer with the lines of a field.
func from(peer, field string, lines ...string) *http.Request {
	return &http.Request{RemoteAddr: peer, Header: http.Header{http.CanonicalHeaderKey(field): lines}}
}

func TestPeer(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1234":             "192.0.2.1",
		"192.0.2.1":                  "192.0.2.1",
		"[2001:db8::1]:1234":         "2001:db8::1",
		"2001:db8::1":                "2001:db8::1",
		"[::ffff:192.0.2.1]:1234":    "192.0.2.1",
		"[fe80::1%eth0]:1234":        "fe80::1",
		"[::ffff:192.0.2.1%eth0]:80": "192.0.2.1",
		"":                           "invalid IP",
		"@":                          "invalid IP",
		"/run/http.sock":             "invalid IP",
		"192.0.2.1:":                 "invalid IP",
		"192.0.2.1:http":             "invalid IP",
		"192.0.2.1%eth0":             "invalid IP",
		"[192.0.2.1]:80":             "invalid IP",
		"[2001:db8::1]80":            "invalid IP",
		"[2001:db8::1":               "invalid IP",
		"2001:db8::1]":               "invalid IP",
		"]":                          "invalid IP",
		"fe80::1%":                   "invalid IP",
		"192.0.2.01":                 "invalid IP",
		"192.0.2.00":                 "invalid IP",
		"192.0.2.0":                  "192.0.2.0",
		"0.10.100.255":               "0.10.100.255",
		"192.0.2.256":                "invalid IP",
		"256.0.2.1":                  "invalid IP",
		"192.0.2.1000":               "invalid IP",
		"192.0.2":                    "invalid IP",
		"192.0.2.":                   "invalid IP",
		"192..2.1":                   "invalid IP",
		".0.2.1":                     "invalid IP",
		"192.0.2.1.1":                "invalid IP",
		"192.0.2.1 ":                 "invalid IP",
		"192.0.2.+1":                 "invalid IP",
		"192.0.2.1:_x-1.Z_":          "192.0.2.1",
		"192.0.2.1:_":                "invalid IP",
		"192.0.2.1:_x:80":            "invalid IP",
		"192.0.2.1:_x 80":            "invalid IP",
		"192.0.2.1:80:90":            "invalid IP",
		"[2001:db8::1]:_x]":          "invalid IP",
	} {
		require.Equal(t, want, new(httplimit.Clients).Addr(from(remote, "X-Forwarded-For", "203.0.113.9")).String(), remote)
	}
}

func TestXForwardedFor(t *testing.T) {
	clients := &httplimit.Clients{Proxies: proxies}
	for _, c := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"a peer that is not believed", "192.0.2.1:1", []string{"203.0.113.9"}, "192.0.2.1"},
		{"no field", "10.0.0.1:1", nil, "10.0.0.1"},
		{"one hop", "10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"spoofed on the left", "10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"spoofed as a proxy", "10.0.0.1:1", []string{"10.9.9.9, 203.0.113.9"}, "203.0.113.9"},
		{"spoofed on a line of its own", "10.0.0.1:1", []string{"1.1.1.1", "203.0.113.9"}, "203.0.113.9"},
		{"two proxies", "10.0.0.1:1", []string{"1.1.1.1,203.0.113.9 ,\t10.0.0.2"}, "203.0.113.9"},
		{"two proxies, two lines", "10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9", "10.0.0.2"}, "203.0.113.9"},
		{"proxies all the way", "10.0.0.1:1", []string{"10.0.0.3", "10.0.0.2"}, "10.0.0.3"},
		{"a proxy that is IPv6", "[2001:db8:ff::1]:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"a proxy that is mapped", "[::ffff:10.0.0.1]:1", []string{"203.0.113.9, ::ffff:10.0.0.2"}, "203.0.113.9"},
		{"a client that is mapped", "10.0.0.1:1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"a client with a zone", "10.0.0.1:1", []string{"fe80::1%eth0"}, "fe80::1"},
		{"a client with a port", "10.0.0.1:1", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"a client in brackets", "10.0.0.1:1", []string{"[2001:db8::9]"}, "2001:db8::9"},
		{"a client in brackets with a port", "10.0.0.1:1", []string{"[2001:db8::9]:4711"}, "2001:db8::9"},
		{"unknown", "10.0.0.1:1", []string{"203.0.113.9, unknown"}, "10.0.0.1"},
		{"unknown behind the second proxy", "10.0.0.1:1", []string{"203.0.113.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"an empty entry", "10.0.0.1:1", []string{"203.0.113.9,"}, "10.0.0.1"},
		{"an empty entry further left", "10.0.0.1:1", []string{"203.0.113.9,,10.0.0.2"}, "10.0.0.2"},
		{"an empty line", "10.0.0.1:1", []string{"203.0.113.9", ""}, "10.0.0.1"},
		{"a port that is none", "10.0.0.1:1", []string{"203.0.113.9:x"}, "10.0.0.1"},
		{"garbage to the left is not read", "10.0.0.1:1", []string{"\x00\"[,", ", ,%%, 203.0.113.9"}, "203.0.113.9"},
	} {
		r := from(c.peer, "X-Forwarded-For", c.lines...)
		require.Equal(t, c.want, clients.Addr(r).String(), c.name)
		require.Equal(t, clients.KeyText(clients.AppendKey(nil, r)), clients.Text(r), c.name)
	}
}

func TestForwarded(t *testing.T) {
	clients := &httplimit.Clients{Proxies: proxies, Header: "forwarded"}
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"no field", nil, "10.0.0.1"},
		{"bare", []string{"for=203.0.113.9"}, "203.0.113.9"},
		{"quoted, IPv6, port, any case", []string{`For="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::17"},
		{"among others", []string{`proto=http;for=203.0.113.9;by=10.0.0.1`}, "203.0.113.9"},
		{"a port that is hidden", []string{`for="203.0.113.9:_x"`}, "203.0.113.9"},
		{"spoofed on the left", []string{`for=1.1.1.1, for=203.0.113.9`}, "203.0.113.9"},
		{"spoofed on a line of its own", []string{`for=1.1.1.1`, `for=203.0.113.9`}, "203.0.113.9"},
		{"two proxies", []string{`for=203.0.113.9, for="10.0.0.2:80"`}, "203.0.113.9"},
		{"separators in quotes", []string{`for=203.0.113.9;host="a,b;for=1.1.1.1"`}, "203.0.113.9"},
		{"escaped quotes in quotes", []string{`for=203.0.113.9;host="a\",for=1.1.1.1\\"`}, "203.0.113.9"},
		{"a quote left open by the client", []string{`for=1.1.1.1;x=", for=203.0.113.9;by="p", for="10.0.0.2"`}, "203.0.113.9"},
		{"an escape left open by the client", []string{`for=1.1.1.1;x="\, for=203.0.113.9;by="p"`}, "203.0.113.9"},
		{"spaces around semicolons", []string{`for=203.0.113.9 ; proto=http`}, "203.0.113.9"},
		{"empty pairs", []string{`;for=203.0.113.9;;`}, "203.0.113.9"},
		{"unknown", []string{`for=203.0.113.9, for=unknown`}, "10.0.0.1"},
		{"hidden", []string{`for=203.0.113.9, for=_hidden, for=10.0.0.2`}, "10.0.0.2"},
		{"no for", []string{`for=203.0.113.9, proto=http`}, "10.0.0.1"},
		{"no value", []string{`for=203.0.113.9, for`}, "10.0.0.1"},
		{"two for", []string{`for=203.0.113.9;for=203.0.113.8`}, "10.0.0.1"},
		{"an escape in an address", []string{`for="203.0.113.\9"`}, "10.0.0.1"},
		{"a quote that does not close", []string{`for="203.0.113.9`}, "10.0.0.1"},
		{"a quote inside a token", []string{`for=203.0.113.9;by=a"b"`}, "10.0.0.1"},
		{"something after a quote", []string{`for="203.0.113.9"x`}, "10.0.0.1"},
		{"an empty element", []string{`for=203.0.113.9,`}, "10.0.0.1"},
		{"a list without names", []string{`203.0.113.9`}, "10.0.0.1"},
	} {
		r := from("10.0.0.1:1", "Forwarded", c.lines...)
		require.Equal(t, c.want, clients.Addr(r).String(), c.name)
		require.Equal(t, clients.KeyText(clients.AppendKey(nil, r)), clients.Text(r), c.name)
		require.Equal(t, "192.0.2.1", clients.Addr(from("192.0.2.1:1", "Forwarded", c.lines...)).String(), c.name)
	}
}

func TestNamedHeader(t *testing.T) {
	clients := &httplimit.Clients{Proxies: proxies, Header: "X-Real-IP"}
	for _, c := range []struct {
		peer  string
		lines []string
		want  string
	}{
		{"10.0.0.1:1", []string{" 203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9", "203.0.113.9"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9, 203.0.113.9"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"somebody"}, "10.0.0.1"},
		{"192.0.2.1:1", []string{"203.0.113.9"}, "192.0.2.1"},
	} {
		require.Equal(t, c.want, clients.Addr(from(c.peer, "X-Real-Ip", c.lines...)).String(), c.lines)
	}
	r := from("10.0.0.1:1", "X-Real-Ip", "somebody")
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	require.Equal(t, "10.0.0.1", clients.Addr(r).String(), "no other field is read")
}

func TestClientKeys(t *testing.T) {
	key := func(bits int, addr string) string {
		return string((&httplimit.Clients{IPv6Bits: bits}).AppendKey(nil, from(addr, "X")))
	}
	require.Equal(t, "\xc0\x00\x02\x01", key(0, "192.0.2.1:80"))
	require.Equal(t, "\xc0\x00\x02\x01", key(0, "::ffff:192.0.2.1"))
	require.Equal(t, "\x20\x01\x0d\xb8\x00\x01\x00\x02", key(0, "2001:db8:1:2:a:b:c:d"))
	require.Equal(t, key(64, "2001:db8:1:2::"), key(0, "2001:db8:1:2:a:b:c:d"))
	require.NotEqual(t, key(0, "2001:db8:1:3::"), key(0, "2001:db8:1:2::"))
	require.Equal(t, key(56, "2001:db8:1:300::"), key(56, "2001:db8:1:3ff::1"))
	require.NotEqual(t, key(57, "2001:db8:1:300::"), key(57, "2001:db8:1:3ff::1"))
	require.NotEqual(t, key(65, "2001:db8:1:2::"), key(65, "2001:db8:1:2:8000::"))
	require.NotEqual(t, key(128, "2001:db8::1"), key(128, "2001:db8::2"))
	require.NotEqual(t, key(32, "2001:db8::1"), key(32, "32.1.13.184"), "4 bytes are IPv4")
	require.Equal(t, key(0, "fe80::1%eth0"), key(0, "fe80::2%eth1"))
	require.Empty(t, key(0, "@"))
}
