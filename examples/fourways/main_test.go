package main

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/pageview"
)

// The program starts itself for each limiter: so does its test.
func TestMain(m *testing.M) {
	if os.Getenv(played) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// All limiters see all requests, refuse no innocent client of so few, and with a limit
// on the /48 that is what passes.
func TestEveryLimiterPlays(t *testing.T) {
	settings, _, err := parse(strings.Fields("-limit 5 -for 3s -quiet 1s -regulars 50 -every 2s -newcomers 20 -attack 5000 -network 2001:db8::/54"), io.Discard)
	require.NoError(t, err)
	s := &state{Settings: settings}
	for _, k := range kinds {
		s.Ways = append(s.Ways, way{kind: k})
	}
	require.NoError(t, s.play(t.Context()))
	for _, w := range s.Ways {
		last := w.Samples[len(w.Samples)-1]
		require.GreaterOrEqual(t, len(w.Samples), 2, w.Name)
		require.Equal(t, 3., last.Seconds, w.Name)
		require.Equal(t, 10_000, last.Attacks, w.Name)
		require.Positive(t, last.Innocents, w.Name)
		require.Zero(t, last.InnocentsRefused, w.Name)
		if strings.Contains(w.Name, "/48") {
			require.LessOrEqual(t, last.AttacksPassed, 500, w.Name)
		} else {
			require.InDelta(t, 1024*5, last.AttacksPassed, 300, w.Name) // and what flows back into buckets
		}
	}
	var table strings.Builder
	require.NoError(t, s.print(&table))
	require.Equal(t, 1+len(kinds), strings.Count(table.String(), "\n"))

	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/status", nil))
	var shown struct{ Ways []way }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &shown))
	require.Len(t, shown.Ways, len(kinds))
	w = httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.Contains(t, w.Body.String(), "<!DOCTYPE html>")
}

// The page can be read on a telephone, in the dark and on paper.
func TestPageInABrowser(t *testing.T) {
	settings, _, err := parse(nil, io.Discard)
	require.NoError(t, err)
	s := &state{Settings: settings}
	for i, k := range kinds {
		w := way{kind: k}
		for n := range 60 {
			w.Samples = append(w.Samples, sample{
				Seconds: float64(n + 1), Bytes: (n*i + 1) << 20,
				Attacks: 1000 * n, AttacksPassed: 120 * i * n, Innocents: 100 * n, InnocentsRefused: i * n,
			})
		}
		s.Ways = append(s.Ways, w)
	}
	pageview.Check(t, s, "/")
}

// Whatever the moments at which it is sent, the traffic is the same, and goes through
// the whole network in turn.
func TestTraffic(t *testing.T) {
	s := &settings{Quiet: time.Second, Regulars: 3, Every: time.Second, Newcomers: 2, Attack: 1 << 16, Network: netip.MustParsePrefix("2001:db8:bad::/48")}
	sent := func(moments ...time.Duration) map[netip.Prefix]int {
		all := map[netip.Prefix]int{}
		traffic := traffic{settings: s}
		for _, at := range moments {
			traffic.send(at, func(client netip.Prefix, attack bool) {
				require.Equal(t, client.Bits() == 64, attack)
				all[client]++
			})
		}
		return all
	}
	all := sent(2 * time.Second)
	require.Equal(t, sent(100*time.Millisecond, 1100*time.Millisecond, 1100*time.Millisecond, 2*time.Second), all)
	require.Len(t, all, 3+4+1<<16)
	for client, n := range all {
		switch {
		case client.Bits() == 64:
			require.True(t, s.Network.Overlaps(client))
			require.Equal(t, 1, n)
		case client.Addr().As4()[0] == 10:
			require.Equal(t, 2, n)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"-limit 0":                          "-limit 0, must be 1 … 1000000",
		"-attack 9999999":                   "-attack 9999999, must be 1 … 1048576",
		"-network 192.0.2.0/24":             "-network 192.0.2.0/24, must be an IPv6 prefix of 32 … 63 bits",
		"-network 2001:db8::/64":            "-network 2001:db8::/64, must be an IPv6 prefix of 32 … 63 bits",
		"-network here":                     `-network: netip.ParsePrefix("here"): no '/'`,
		"-for 10s -quiet 10s":               "-for 10s, must be 2s … 1h and longer than -quiet 10s",
		"-every 1ms":                        "-window 1m0s and -every 1ms, must be at least 1s",
		"more":                              `unexpected argument "more"`,
		"-listen nowhere -for 2s -quiet 1s": "listen tcp: address nowhere: missing port in address",
	} {
		err := run(strings.Fields(flags), io.Discard, io.Discard)
		require.EqualError(t, err, want)
	}
	require.EqualError(t, playOne("nobody", "{}", io.Discard), `no limiter "nobody"`)
}
