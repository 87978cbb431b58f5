package caddylimit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The cases of caddy-ratelimit's TestApplyNetworkPrefix, and more.
func TestNetworks(t *testing.T) {
	for _, c := range []struct {
		key    string
		v4, v6 int
		want   string
	}{
		{"2001:db8:1234:5678:9abc:def0:1234:5678", 0, 64, "2001:db8:1234:5678::/64"},
		{"2001:db8:1234:5678:ffff:ffff:ffff:ffff", 0, 64, "2001:db8:1234:5678::/64"},
		{"2001:db8:1234:5678::1", 0, 64, "2001:db8:1234:5678::/64"},
		{"2001:db8:1234:5678::1", 0, 48, "2001:db8:1234::/48"},
		{"2001:db8:1234:5678::1", 0, 128, "2001:db8:1234:5678::1/128"},
		{"192.168.1.100", 24, 0, "192.168.1.0/24"},
		{"10.0.0.50", 8, 0, "10.0.0.0/8"},
		{"172.16.5.4", 32, 0, "172.16.5.4/32"},
		{"2001:db8::1", 24, 64, "2001:db8::/64"},
		{"192.168.1.100", 24, 64, "192.168.1.0/24"},
		{"192.168.1.100", 0, 64, "192.168.1.100"},
		{"2001:db8::1", 24, 0, "2001:db8::1"},
		{"2001:db8::1", 0, 0, "2001:db8::1"},
		{"192.168.1.100", 0, 0, "192.168.1.100"},
		{"static", 0, 64, "static"},
		{"{http.request.uri}", 0, 64, "{http.request.uri}"},
		{"", 0, 64, ""},
		{"::ffff:192.168.1.100", 24, 64, "192.168.1.0/24"}, // an IPv4 client of a socket for both
		{"fe80::1%eth0", 24, 64, "fe80::/64"},
		{"192.168.1.100:80", 24, 64, "192.168.1.100:80"},
	} {
		z := Zone{IPv4Prefix: c.v4, IPv6Prefix: c.v6}
		require.Equal(t, c.want, z.text(c.key), "%+v", c)
		request := z.request(c.key)
		if network := z.network(c.key); network.IsValid() {
			require.Equal(t, network.Addr(), request.Addr)
		} else {
			require.Equal(t, c.key, request.Key)
			require.False(t, request.Addr.IsValid())
		}
	}
}
