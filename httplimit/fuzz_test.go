package httplimit_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Whatever a client writes into the fields, its key is its own address: as its proxies
// wrote it behind that, on the same line or on the next, or as the connection has it.
func FuzzClients(f *testing.F) {
	for _, s := range []string{
		"", ",", "203.0.113.9", "10.0.0.9", "for=203.0.113.9", `for="[2001:db8::9]:80"`, `for=10.0.0.9;x="`, `x="\`, `"`,
		`\"`, `for=10.0.0.9;by="a,b", for=_x`, "unknown", "64:ff9b::1", "64:ff9b:1::1", "[::1", "1:2", "%", "for", "=", ";", `for="`, "\x00",
	} {
		f.Add(s)
	}
	hops := map[string]string{
		"":          "198.51.100.7, 10.0.0.2",
		"Forwarded": `for=198.51.100.7;by="a,b;c\"=";proto=http, proto=http;for="10.0.0.2:_x"`,
	}
	f.Fuzz(func(t *testing.T, s string) {
		for header, hops := range hops {
			field := header
			if field == "" {
				field = "X-Forwarded-For"
			}
			clients := &httplimit.Clients{Proxies: proxies, Header: header}
			require.Equal(t, "192.0.2.1", clients.Addr(from("192.0.2.1:1", field, s, hops)).String())
			require.Equal(t, "198.51.100.7", clients.Addr(from("10.0.0.1:1", field, s, hops)).String())
			require.Equal(t, "198.51.100.7", clients.Addr(from("10.0.0.1:1", field, s+","+hops)).String())
			require.Equal(t, "198.51.100.7", clients.Addr(from("10.0.0.1:1", field, s, s+", "+hops)).String())

			alone := clients.Addr(from("10.0.0.1:1", field, s)) // of a proxy that wrote it all
			require.True(t, alone.IsValid() && alone.Zone() == "" && !alone.Is4In6())
			key := clients.AppendKey(nil, from("10.0.0.1:1", field, s))
			require.True(t, len(key) == 4 && alone.Is4() || len(key) == 8 && alone.Is6())
			require.Equal(t, clients.KeyText(key), clients.Text(from("10.0.0.1:1", field, s)))
		}
		named := &httplimit.Clients{Proxies: proxies, Header: "X-Real-IP"}
		require.Equal(t, "192.0.2.1", named.Addr(from("192.0.2.1:1", "X-Real-Ip", s)).String())
		require.Equal(t, "10.0.0.1", named.Addr(from("10.0.0.1:1", "X-Real-Ip", s, "203.0.113.9")).String())
		require.True(t, named.Addr(from("10.0.0.1:1", "X-Real-Ip", s)).IsValid())
		peer := new(httplimit.Clients).Addr(from(s, "X"))
		if want, err := netip.ParseAddr(s); err == nil {
			require.Equal(t, new(httplimit.Clients).Key(want), new(httplimit.Clients).Key(peer))
			require.True(t, peer == want.WithZone("").Unmap() || peer.Is4() && strings.HasPrefix(want.String(), "64:ff9b:"))
		} else if !strings.Contains(s, ":") {
			require.False(t, peer.IsValid())
		}
	})
}

// A client that rules out problems does not get one, whatever else it accepts; one that
// names neither JSON nor any type does not either.
func FuzzAccept(f *testing.F) {
	for _, s := range []string{"", "*/*", "a/b;q=0.5,*/*;q=0", `a;x="\",";q=1,application/json`, "application/json;q=", "\x00", ";;,,=", `"`} {
		f.Add(s)
	}
	h := front(f, build(f, sketchlimit.Config{Limit: 1}, newClock()), byUser)
	get(h, user("ann"))
	f.Fuzz(func(t *testing.T, s string) {
		isProblem := func(lines ...string) bool {
			r := user("ann")
			r.Header["Accept"] = lines
			w := get(h, r)
			require.Equal(t, 429, w.Code)
			return w.Header().Get("Content-Type") == "application/problem+json"
		}
		lower := strings.ToLower(s)
		if isProblem(s) {
			require.True(t, strings.Contains(lower, "application/") || strings.Contains(lower, "*/*"))
		}
		if !strings.Contains(lower, "problem+json") {
			require.False(t, isProblem("application/problem+json;q=0", s))
			require.True(t, isProblem("application/problem+json", "text/plain;q=0.5") && isProblem("application/problem+json", s))
		}
	})
}
