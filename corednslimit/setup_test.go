package corednslimit

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/sketchlimit/sketchlimit/internal/machine"
	"github.com/stretchr/testify/require"
)

func setupBlock(block string) (*Handler, error) {
	c := caddy.NewTestController("dns", block)
	c.ServerBlockKeys = []string{"dns://example.net.:53"}
	return Parse(c)
}

// A block of rrl with all its options is read as it stands.
func TestSetup(t *testing.T) {
	said := new(strings.Builder)
	clog.SetOutput(said)
	defer clog.SetOutput(os.Stdout)
	h, err := setupBlock(`sketch_rrl example.org 10.0.0.0/24 {
		window 5
		ipv4-prefix-length 20
		ipv6-prefix-length 48
		responses-per-second 10
		nodata-per-second 9
		nxdomains-per-second 8.5
		referrals-per-second 7
		errors-per-second 0
		slip-ratio 3
		requests-per-second 100
		max-table-size 5000
		report-only
	}`)
	require.NoError(t, err)
	defer h.Close()
	require.Equal(t, []string{"example.org.", "0.0.10.in-addr.arpa."}, h.zones)
	require.Equal(t, prefixes{20, 48}, h.prefixes)
	require.Equal(t, 3, h.slipRatio)
	require.True(t, h.reportOnly)
	require.Equal(t, [categories]account{{100, 50}, {90, 45}, {85, 43}, {70, 35}, {}, {1000, 500}}, h.accounts.of)
	require.Equal(t, 1, strings.Count(said.String(), "max-table-size does nothing"))
}

func TestSetupDefaults(t *testing.T) {
	h, err := setupBlock("sketch_rrl {\nresponses-per-second 10\n}")
	require.NoError(t, err)
	defer h.Close()
	require.Equal(t, []string{"example.net."}, h.zones)
	require.Equal(t, prefixes{24, 56}, h.prefixes)
	require.Zero(t, h.slipRatio)
	require.False(t, h.reportOnly)
	each := account{10, 150}
	require.Equal(t, [categories]account{each, each, each, each, each, {}}, h.accounts.of)
	require.InDelta(t, 16<<20, h.MemoryBytes(), 1<<18)

	h, err = setupBlock("sketch_rrl")
	require.NoError(t, err)
	require.Zero(t, h.MemoryBytes())
}

// What limits nothing, or not what it seems to, is told.
func TestSetupWarnings(t *testing.T) {
	said := new(strings.Builder)
	clog.SetOutput(said)
	defer clog.SetOutput(os.Stdout)
	for block, want := range map[string]string{
		"sketch_rrl 20":                 "20 is taken for a zone: an allowance is an option of the block",
		"sketch_rrl":                    "limits nothing: set responses-per-second",
		"sketch_rrl {\nslip-ratio 2\n}": ":3: limits nothing: set responses-per-second",
		"sketch_rrl example.org {\nresponses-per-second 5\n}":               "zone example.org is not of this server block (example.net.): it limits nothing",
		"sketch_rrl {\nresponses-per-second 5\nresponses-per-second 7\n}":   ":3: responses-per-second twice: the last one counts",
		"sketch_rrl {\nrequests-per-second 5\n}":                            "",
		"sketch_rrl example.net a.example.net {\nresponses-per-second 5\n}": "",
		"sketch_rrl net {\nerrors-per-second 5\n}":                          "", // more than is served
	} {
		said.Reset()
		h, err := setupBlock(block)
		require.NoError(t, err)
		h.Close()
		if want == "" {
			require.Empty(t, said.String(), block)
		} else {
			require.Contains(t, said.String(), "[WARNING] plugin/sketch_rrl: ", block)
			require.Contains(t, said.String(), want)
		}
	}
}

func TestSetupMemory(t *testing.T) {
	for text, want := range map[string]int{"memory 65536": 64 << 10, "memory 64KiB": 64 << 10, "memory 3MiB": 3 << 20, "keys 1000000": 20_300_000} {
		h, err := setupBlock("sketch_rrl {\nresponses-per-second 100\n" + text + "\n}")
		require.NoError(t, err, text)
		require.InEpsilon(t, want, h.MemoryBytes(), 0.1, text)
		h.Close()
	}
}

// A zone that nobody can ask for would limit nothing.
func TestSetupZones(t *testing.T) {
	for _, zone := range []string{"example..org", "example.org:", "::/0"} {
		_, err := setupBlock("sketch_rrl " + zone)
		require.ErrorContains(t, err, "zone "+zone+", must be a name or a network")
	}
	h, err := setupBlock("sketch_rrl example.org 10.0.0.0/8")
	require.NoError(t, err)
	require.Equal(t, []string{"example.org.", "10.in-addr.arpa."}, h.zones)
}

// Allowances are rounded down to whole responses in 1000 seconds.
func TestSetupRounding(t *testing.T) {
	h, err := setupBlock("sketch_rrl {\nresponses-per-second 0.0019\n}")
	require.NoError(t, err)
	defer h.Close()
	require.Equal(t, 1, h.accounts.of[response].limit)
}

func TestSetupErrors(t *testing.T) {
	for lines, want := range map[string]string{
		"window":                      "window with 0 values, must have one",
		"window 1 2":                  "window with 2 values, must have one",
		"window -5":                   "window -5, must be a number of 0 … 3600",
		"window NaN":                  "window NaN, must be a number of",
		"window 15s":                  "window 15s, must be a number of",
		"ipv4-prefix-length 0":        "ipv4-prefix-length 0, must be a whole number of 1 … 32",
		"ipv4-prefix-length 33":       "ipv4-prefix-length 33, must be",
		"ipv6-prefix-length 129":      "ipv6-prefix-length 129, must be a whole number of 1 … 128",
		"ipv6-prefix-length a":        "ipv6-prefix-length a, must be",
		"responses-per-second":        "responses-per-second with 0 values",
		"responses-per-second -1":     "responses-per-second -1, must be 0 or a number of 0.001 … 500000",
		"nodata-per-second 500001":    "nodata-per-second 500001, must be 0 or",
		"nxdomains-per-second NaN":    "nxdomains-per-second NaN, must be 0 or",
		"referrals-per-second a":      "referrals-per-second a, must be 0 or",
		"errors-per-second Inf":       "errors-per-second Inf, must be 0 or",
		"requests-per-second 0.0001":  "requests-per-second 0.0001, must be 0 or",
		"slip-ratio 11":               "slip-ratio 11, must be a whole number of 0 … 10",
		"slip-ratio -1":               "slip-ratio -1, must be",
		"max-table-size -1":           "max-table-size -1, must be a whole number of 0 …",
		"max-table-size many":         "max-table-size many, must be",
		"report-only yes":             "report-only with 1 values, must have none",
		"keys 0":                      "keys 0, must be a whole number of 1 …",
		"memory 1":                    "memory 1, must be 64KiB … 64GiB",
		"memory 63KiB":                "memory 63KiB, must be 64KiB … 64GiB",
		"memory 0MiB":                 "memory 0MiB, must be 64KiB … 64GiB",
		"memory 0GiB":                 "memory 0GiB, must be 64KiB … 64GiB",
		"memory 65GiB":                "memory 65GiB, must be",
		"memory 16MB":                 "memory 16MB, must be",
		"keys 1000\nmemory 1MiB":      "keys and memory, only one of them may be set",
		"slip 2":                      "unknown option slip",
		"}\nsketch_rrl {\n window 15": "can only be used once",
	} {
		_, err := setupBlock("sketch_rrl {\nresponses-per-second 5\n" + lines + "\n}")
		require.ErrorContains(t, err, want, lines)
	}
}

// A Corefile that asks for more memory than the machine has is refused.
func TestSetupRefusesMoreMemoryThanThereIs(t *testing.T) {
	most, _, ok := machine.Memory()
	if !ok || most >= 64<<30 {
		t.Skip("the machine does not say, or has enough")
	}
	_, err := setupBlock("sketch_rrl {\nresponses-per-second 5\nmemory 64GiB\n}")
	require.ErrorContains(t, err, "must be at most")
}

// Blocks must fit into the memory together, beside those of the server that runs.
func TestRoom(t *testing.T) {
	most, _, ok := machine.Memory()
	if !ok {
		t.Skip("the machine does not say")
	}
	var r room
	third := int(most / 3)
	one, two := new(int), new(int)
	require.NoError(t, r.take(one, third, 0))
	require.NoError(t, r.take(one, third, 0))
	require.ErrorContains(t, r.take(one, third+10, 0), "must be at most")
	require.NoError(t, r.take(two, third, third), "another Corefile")
	require.ErrorContains(t, r.take(two, third+10, third), "with those of all blocks and of the server that runs: ")
}

// The largest and the smallest values work together.
func TestSetupExtremes(t *testing.T) {
	for _, lines := range []string{
		"window 3600\nresponses-per-second 500000\nnodata-per-second 0.001",
		"window 0.001\nresponses-per-second 0.001",
		"window 3600\nresponses-per-second 0.001\nmemory 64KiB",
	} {
		h, err := setupBlock("sketch_rrl {\n" + lines + "\n}")
		require.NoError(t, err, lines)
		h.Close()
	}
}

func TestDirectives(t *testing.T) {
	place := slices.Index(dnsserver.Directives, name)
	require.Equal(t, "local", dnsserver.Directives[place+1])
	require.Less(t, slices.Index(dnsserver.Directives, "errors"), place)
	for _, answers := range []string{"dns64", "any", "chaos", "tsig", "rewrite", "acl", "header", "minimal", "cache", "template", "hosts", "file", "forward"} {
		require.Greater(t, slices.Index(dnsserver.Directives, answers), place, answers)
	}
	require.Less(t, slices.Index(dnsserver.Directives, "metadata"), place, "names from wildcards")
}

// The Corefile of the page for users is one that CoreDNS takes.
func TestCorefileOfThePage(t *testing.T) {
	if _, err := os.Stat("../docs"); err != nil {
		t.Skip("the module is not in its repository, and has no page")
	}
	page, err := os.ReadFile("../docs/coredns.md")
	require.NoError(t, err)
	_, corefile, _ := strings.Cut(string(page), "```corefile\n")
	corefile, _, _ = strings.Cut(corefile, "```")
	_, block, found := strings.Cut(corefile, "sketch_rrl {")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "}")
	h, err := setupBlock("sketch_rrl {" + block + "}")
	require.NoError(t, err)
	require.True(t, h.accounts.limits(response))
	h.Close()
}
