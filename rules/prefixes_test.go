package rules_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// Addresses are counted by their networks, however they are written.
func TestPrefixes(t *testing.T) {
	_, match, err := rules.Parse("file.yaml", []byte(`
domain: api
descriptors:
  - {key: site, prefixes: {ipv4: 24, ipv6: 48}, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: some, value: 192.*, prefixes: {ipv4: 8, ipv6: 8}, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: "any*", prefixes: {ipv4: 32, ipv6: 128}, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: outer
    prefixes: {ipv4: 16, ipv6: 32}
    descriptors: [{key: path, rate_limit: {unit: minute, requests_per_unit: 1}}]
`))
	require.NoError(t, err)
	for d, want := range map[string]string{
		"site=192.0.2.1":               "192.0.2.0/24",
		"site=192.0.2.255":             "192.0.2.0/24",
		"site=::ffff:192.0.2.1":        "192.0.2.0/24",
		"site=192.0.2.1/32":            "192.0.2.0/24",
		"site=192.0.3.1":               "192.0.3.0/24",
		"site=2001:db8:1:2::3":         "2001:db8:1::/48",
		"site=2001:db8:1:ffff::/64":    "2001:db8:1::/48",
		"site=2001:db8:1:ffff::1%eth0": "2001:db8:1::/48",
		"site=2001:db8:2::":            "2001:db8:2::/48",
		"site=":                        "",
		"site=somebody":                "",
		"site=192.0.2.1:80":            "",
		"site=/":                       "",
		"some=192.0.2.1":               "192.0.0.0/8",
		"any1=192.0.2.1":               "any1 192.0.2.1/32",
		"any1=2001:db8::1":             "any1 2001:db8::1/128",
		"outer=192.0.2.1 path=/":       "192.0.0.0/16 /",
		"outer=2001:db8:1:: path=/":    "2001:db8::/32 /",
	} {
		rule, key := match(descriptor(d))
		require.NotNil(t, rule, d)
		require.Equal(t, want, rules.KeyText(key), d)
	}
}

// A change of the prefixes makes a rule begin anew.
func TestReloadOfPrefixes(t *testing.T) {
	const file = `
domain: api
descriptors:
  - {key: site, prefixes: {ipv4: 24, ipv6: 48}, rate_limit: {unit: hour, requests_per_unit: 3}}
`
	l := load(t, file)
	for _, c := range []struct{ text, want string }{
		{file, "admitted 2"},
		{file, "admitted 1"},
		{strings.Replace(file, "24", "16", 1), "admitted 2"},
		{strings.Replace(file, "24", "16", 1), "admitted 1"},
		{strings.Replace(file, "prefixes: {ipv4: 24, ipv6: 48}, ", "", 1), "admitted 2"},
	} {
		l.write(t, c.text)
		require.NoError(t, l.Reload())
		require.Equal(t, c.want, l.take("api", "site=192.0.2.1"))
	}
}

// A ladder of prefixes in front of handlers: a flood from one network takes from its
// addresses what the network may, and nothing from others. The file is that of
// docs/prefixes.md.
func TestPrefixLadder(t *testing.T) {
	testkit.OneGoroutine(t)
	page, err := os.ReadFile("../docs/prefixes.md")
	require.NoError(t, err)
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	l := load(t, file)
	clients := &httplimit.Clients{}
	decider, err := l.HTTP("api", func(d *rules.Descriptors, r *http.Request) {
		for _, key := range []string{"client", "site", "provider"} {
			d.Add(rules.Entry{Key: key, Value: clients.Text(r)})
		}
	})
	require.NoError(t, err)
	limit, err := httplimit.NewPolicies(decider)
	require.NoError(t, err)
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	admitted := func(format string, n int) (admitted int) {
		for i := range n {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, &http.Request{RemoteAddr: fmt.Sprintf(format, i), Header: http.Header{}})
			if w.Code == http.StatusOK {
				admitted++
			}
		}
		return admitted
	}
	require.Equal(t, 1000, admitted("[2001:db8:1:%x::1]:80", 2000), "the limit of the site")
	require.Equal(t, 19_000, admitted("[2001:db8:%x:1::1]:80", 30_000), "what it left to the provider")
	require.Equal(t, 100, admitted("[2002:%x::1]:80", 100), "other providers")
	require.Equal(t, 200, admitted("192.0.2.%d:80", 200))
	for _, rule := range l.All() {
		require.EqualValues(t, 20_300, rule.Stats().Admitted, rule.Path)
	}
}

func TestPrefixesAllocateNothing(t *testing.T) {
	l := load(t, "domain: api\ndescriptors: [{key: site, prefixes: {ipv4: 24, ipv6: 48}, rate_limit: {unit: hour, requests_per_unit: 1}}]")
	for _, address := range []string{"192.0.2.1", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/64", "fe80::1%eth0"} {
		decider, err := l.HTTP("api", func(d *rules.Descriptors, _ *http.Request) { d.Add(rules.Entry{Key: "site", Value: address}) })
		require.NoError(t, err)
		var a httplimit.Answer
		require.Zero(t, testing.AllocsPerRun(100, func() {
			a.Policies, a.Keys = a.Policies[:0], a.Keys[:0]
			decider.Decide(&a, nil, 1)
		}), address)
	}
}
