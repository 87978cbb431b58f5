package corednslimit

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/any"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/chaos"
	_ "github.com/coredns/coredns/plugin/local"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	_ "github.com/coredns/coredns/plugin/template"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

func TestMain(m *testing.M) {
	caddy.Quiet, dnsserver.Quiet = true, true
	clog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// corefile is a server of its own zone with sketch_rrl, and one of another zone without.
const corefile = `
example.org:0 {
	bind 127.0.0.1
	prometheus 127.0.0.1:0
	sketch_rrl {
		responses-per-second 20
		nxdomains-per-second 5
		slip-ratio 2
		%s
	}
	cache
	template ANY ANY {
		match "^no"
		rcode NXDOMAIN
		authority "example.org. 60 IN SOA ns.example.org. mail.example.org. (1 60 60 60 60)"
		fallthrough
	}
	template ANY ANY servfail.example.org {
		rcode SERVFAIL
	}
	template IN A {
		answer "{{ .Name }} 60 IN A 192.0.2.1"
	}
}`

type input string

func (i input) Body() []byte       { return []byte(i) }
func (i input) Path() string       { return "Corefile" }
func (i input) ServerType() string { return "dns" }

func serve(t *testing.T, corefile string) *caddy.Instance {
	server, err := caddy.Start(input(corefile))
	require.NoError(t, err)
	return server
}

func stop(t *testing.T, server *caddy.Instance) {
	server.ShutdownCallbacks()
	require.NoError(t, server.Stop())
}

func query(name string) *dns.Msg { return new(dns.Msg).SetQuestion(name, dns.TypeA) }

// counts sends queries from one address without waiting for answers, and counts these
// until none has come for a while.
func counts(t *testing.T, server *caddy.Instance, times int, name string) (whole, truncated int) {
	return flood(t, "127.0.0.1", server.Servers()[0].LocalAddr().String(), query(name), times)
}

// A real CoreDNS over UDP and TCP: a burst of queries gets its allowance, some
// truncated answers, and no more. TCP gets all. What the cache answers is limited too.
// After a reload the allowance is there again.
func TestCoreDNS(t *testing.T) {
	server := serve(t, fmt.Sprintf(corefile, "memory 1MiB"))
	whole, truncated := counts(t, server, 200, "www.example.org.")
	require.InDelta(t, 21, whole, 3) // and what flows in while the queries come
	require.InDelta(t, (200-whole)/2, truncated, 2)
	whole, truncated = counts(t, server, 30, "no1.example.org.")
	require.InDelta(t, 5, whole, 1)
	require.InDelta(t, (30-whole)/2, truncated, 2)
	// An error that CoreDNS writes for a plugin slips through as it is: it has nothing
	// to truncate.
	whole, truncated = counts(t, server, 60, "mail.servfail.example.org.")
	require.InDelta(t, 20+40/2, whole, 3)
	require.Zero(t, truncated)

	tcp := &dns.Client{Net: "tcp"}
	for range 50 {
		m, _, err := tcp.Exchange(query("www.example.org."), server.Servers()[0].Addr().String())
		require.NoError(t, err)
		require.Len(t, m.Answer, 1)
	}

	reloaded, err := server.Restart(input(fmt.Sprintf(corefile, "memory 2MiB")))
	require.NoError(t, err)
	live.mu.Lock()
	require.Len(t, live.of, 1)
	for of, h := range live.of {
		require.Equal(t, "dns://example.org.:0", of.keys)
		require.InDelta(t, 2<<20, h.handler.MemoryBytes(), 1<<17)
	}
	live.mu.Unlock()
	families, err := testutil.GatherAndCount(prometheus.DefaultGatherer, "coredns_sketch_rrl_false_denial_rate",
		"coredns_sketch_rrl_outside_plan", "coredns_sketch_rrl_memory_bytes")
	require.NoError(t, err)
	require.Equal(t, 3, families)
	whole, _ = counts(t, reloaded, 10, "www.example.org.")
	require.Equal(t, 10, whole)
	stop(t, reloaded)
	live.mu.Lock()
	defer live.mu.Unlock()
	require.Empty(t, live.of)
}

// Plugins that answer by themselves are limited as well: chaos, whose answers are many
// times their queries, any, acl and local.
func TestPluginsThatAnswer(t *testing.T) {
	server := serve(t, `.:0 {
	bind 127.0.0.1
	sketch_rrl {
		responses-per-second 5
		errors-per-second 5
	}
	chaos
	any
	local
	acl example.net {
		block
	}
	template IN A {
		answer "{{ .Name }} 60 IN A 192.0.2.1"
	}
}`)
	defer stop(t, server)
	for what, m := range map[string]*dns.Msg{
		"chaos": authors(), "any": new(dns.Msg).SetQuestion("example.org.", dns.TypeANY),
		"local": query("localhost."), "acl": query("www.example.net."),
	} {
		answered, _ := flood(t, "127.0.0.1", server.Servers()[0].LocalAddr().String(), m, 60)
		require.InDelta(t, 6, answered, 4, what) // and what flows in while the queries come
	}
}

// authors asks chaos for what is many times as long as the question.
func authors() *dns.Msg {
	m := new(dns.Msg).SetQuestion("authors.bind.", dns.TypeTXT)
	m.Question[0].Qclass = dns.ClassCHAOS
	return m.SetEdns0(4096, false)
}

// flood sends a query from an address so many times without waiting, and counts the
// answers until none has come for a while.
func flood(t *testing.T, from, address string, m *dns.Msg, times int) (whole, truncated int) {
	dialed, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}).Dial("udp", address)
	require.NoError(t, err)
	conn := &dns.Conn{Conn: dialed, UDPSize: 4096}
	defer conn.Close()
	for range times {
		require.NoError(t, conn.WriteMsg(m))
	}
	for {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
		answer, err := conn.ReadMsg()
		switch {
		case err != nil:
			return whole, truncated
		case answer.Truncated:
			truncated++
			require.Empty(t, answer.Answer)
		default:
			whole++
		}
	}
}

// Too little memory is one line in the log.
func TestTooLittleMemoryIsLogged(t *testing.T) {
	said := new(strings.Builder)
	clog.SetOutput(said)
	defer clog.SetOutput(io.Discard)
	h, err := setupBlock("sketch_rrl {\nresponses-per-second 1\nmemory 64KiB\nipv4-prefix-length 32\n}")
	require.NoError(t, err)
	defer h.Close()
	all, key := handlers{}, make([]byte, 8)
	now := map[block]*served{{keys: "dns://example.net.:53"}: {handler: h}}
	all.look(now)
	require.Empty(t, said.String())
	require.Eventually(t, func() bool {
		for range 10_000 {
			rand.Read(key)
			h.accounts.debit(response, key)
		}
		all.look(now)
		return said.String() != ""
	}, 30*time.Second, time.Millisecond)
	for range 20 {
		all.look(now)
	}
	require.Equal(t, 1, strings.Count(said.String(), "more networks"), said.String())
	require.Contains(t, said.String(), "dns://example.net.:53")
}

// Blocks of a Corefile that could not be served are not told of: the former ones go on.
func TestFailedReload(t *testing.T) {
	server := serve(t, fmt.Sprintf(corefile, ""))
	const elsewhere = "example.net:0 {\nbind 192.0.2.1\nsketch_rrl\n}\n" // an address that no machine has
	_, err := server.Restart(input(fmt.Sprintf(corefile, "memory 2MiB") + "\n" + elsewhere))
	require.Error(t, err)
	if sketchlimit.CheckMemory(mostMemory) != nil { // or it would be taken
		_, err = server.Restart(input(fmt.Sprintf(corefile, "memory 64GiB")))
		require.ErrorContains(t, err, "bytes of accounts, with those of all blocks and of the server that runs")
	}
	whole, _ := counts(t, server, 10, "www.example.org.")
	require.Equal(t, 10, whole)
	live.mu.Lock()
	require.Len(t, live.of, 1)
	for of, h := range live.of {
		require.Equal(t, "dns://example.org.:0", of.keys)
		require.InDelta(t, defaultMemory, h.handler.MemoryBytes(), defaultMemory/10)
	}
	live.mu.Unlock()
	stop(t, server)
	live.mu.Lock()
	defer live.mu.Unlock()
	require.Empty(t, live.of)
}
