package httplimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func TestLogRefusals(t *testing.T) {
	clock := newClock()
	lines := build(t, sketchlimit.Config{Limit: 2, Window: time.Minute, Algorithm: sketchlimit.FixedWindow}, clock)
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	hide := func(key []byte) string { return string(key[:1]) + "…" }
	h := front(t, build(t, sketchlimit.Config{Limit: 1, Window: time.Hour, Algorithm: sketchlimit.FixedWindow}, clock), byUser, httplimit.Name("hourly"), httplimit.LogRefusals(logger, lines, hide))
	ann := httptest.NewRequest("GET", "/search?q=secret", nil)
	ann.Header.Set("X-User", "ann")
	statuses(h, 9, ann)
	clock.advance(time.Minute)
	statuses(h, 1, ann)
	shadow := front(t, build(t, sketchlimit.Config{Limit: 1}, clock), byUser, httplimit.Shadow(), httplimit.LogRefusals(logger, lines, nil),
		httplimit.Cost(func(*http.Request) int { return 2 }))
	statuses(shadow, 1, ann)
	require.Equal(t, strings.TrimLeft(`
level=WARN msg="request over its limit" policy=hourly method=GET path=/search key=a… retry_after=1h0m0s shadow=false unlogged=0
level=WARN msg="request over its limit" policy=hourly method=GET path=/search key=a… retry_after=1h0m0s shadow=false unlogged=0
level=WARN msg="request over its limit" policy=hourly method=GET path=/search key=a… retry_after=59m0s shadow=false unlogged=6
level=WARN msg="request over its limit" policy=default method=GET path=/search shadow=true unlogged=0
`, "\n"), out.String())
	for _, option := range []httplimit.Option{httplimit.LogRefusals(nil, lines, nil), httplimit.LogRefusals(logger, nil, nil)} {
		_, err := httplimit.New(lines, byUser, option)
		require.EqualError(t, err, "httplimit: LogRefusals nil, must be a logger and a limiter")
	}
}

// A limit below the lowest denies by mistake: that is logged once a policy, though the
// limiter of lines admits none. No access is no mistake, and leaves the limiter inside
// its plan.
func TestLogTellsOnceOfLimitsBelowTheLowest(t *testing.T) {
	clock, plan := newClock(), 0
	own := func(*http.Request) int { return plan }
	var out bytes.Buffer
	lines := build(t, sketchlimit.Config{Limit: 1}, clock)
	lines.Allow("hour")
	log := httplimit.LogRefusals(slog.New(slog.NewTextHandler(&out, nil)), lines, nil)
	l := build(t, sketchlimit.Config{Limit: 9, LowestLimit: 5, Window: time.Hour}, clock)
	limit, err := httplimit.NewAll([]httplimit.Quota{{Name: "hour", Limiter: l, Key: byUser, Limit: own}}, log)
	require.NoError(t, err)
	quotas := limit(http.NotFoundHandler())
	require.Equal(t, 429, get(quotas, user("ann")).Code)
	require.Empty(t, out.String())
	require.Zero(t, l.Stats().TooLow)
	require.False(t, l.Stats().OutsidePlan)
	b, err := budget.New(budget.Config{InFlight: 1, HoldFor: time.Hour, Limits: []sketchlimit.Config{
		{Limit: 9, LowestLimit: 5, Window: time.Minute, Keys: 1, Clock: clock.read},
	}})
	require.NoError(t, err)
	lines.Allow("tokens")
	s := httplimit.Spending{Budget: b, Names: []string{"tokens"}, Key: byUser, AtMost: atMost(1), Limit: own}
	spending, err := httplimit.NewBudget(s, log)
	require.NoError(t, err)
	tokens := spending(http.NotFoundHandler())
	require.Equal(t, 429, get(tokens, user("ann")).Code)
	require.Zero(t, b.Stats().Limits[0].TooLow)
	lines.Allow("default")
	single := front(t, l, byUser, httplimit.Limit(own), log)
	plan = 4
	for _, h := range []http.Handler{quotas, tokens, single, quotas, tokens, single} {
		require.Equal(t, 429, get(h, user("ann")).Code)
	}
	for _, policy := range []string{"hour", "tokens", "default"} {
		require.Equal(t, 1, strings.Count(out.String(), "LowestLimit of the limiter, which denies all such requests\" policy="+policy+" limit=4\n"))
	}
	require.EqualValues(t, 4, l.Stats().TooLow)
	require.EqualValues(t, 2, b.Stats().Limits[0].TooLow)
}

// A client may choose a megabyte of path, method and key: it does not get them into a
// log.
func TestLogLinesAreShort(t *testing.T) {
	clock := newClock()
	var out bytes.Buffer
	lines := build(t, sketchlimit.Config{Limit: 9}, clock)
	show := func(key []byte) string { return string(key) }
	h := front(t, build(t, sketchlimit.Config{Limit: 1}, clock), byUser, httplimit.LogRefusals(slog.New(slog.NewTextHandler(&out, nil)), lines, show))
	r := httptest.NewRequest("GET", "/"+strings.Repeat("é", 1<<19), nil)
	r.Method = strings.Repeat("M", 1<<20)
	r.Header.Set("X-User", strings.Repeat("u", 1<<20))
	statuses(h, 2, r)
	require.Contains(t, out.String(), " path=/"+strings.Repeat("é", 127)+"… key="+strings.Repeat("u", 256)+"… ")
	require.Less(t, out.Len(), 1000)
}

// The text of a key is the client's address, or its network.
func TestKeyText(t *testing.T) {
	for _, c := range []struct {
		bits         int
		client, want string
	}{
		{0, "203.0.113.9", "203.0.113.9"},
		{0, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{56, "2001:db8:1:2ff:3:4:5:6", "2001:db8:1:200::/56"},
		{128, "2001:db8::7", "2001:db8::7/128"},
		{96, "2001:db8::7:0:7", "2001:db8::7:0:0/96"},
	} {
		clients := &httplimit.Clients{IPv6Bits: c.bits}
		r := from(netip.AddrPortFrom(netip.MustParseAddr(c.client), 80).String(), "X")
		require.Equal(t, c.want, clients.KeyText(clients.AppendKey(nil, r)))
		require.Equal(t, c.want, clients.Text(r))
	}
	require.Equal(t, "", new(httplimit.Clients).KeyText(nil))
	require.Equal(t, `"anna\xff"`, new(httplimit.Clients).KeyText([]byte("anna\xff")), "no key of clients")
}
