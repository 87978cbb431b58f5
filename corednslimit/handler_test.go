package corednslimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// bench is a handler of a block, with what comes after it and its time.
type bench struct {
	*Handler
	*clock
	t testing.TB
}

// newBench returns a handler of a block, before a plugin that answers by the name: with
// an address, or as its first label says.
func newBench(t testing.TB, block string) *bench {
	c := newClock()
	controller := caddy.NewTestController("dns", "sketch_rrl example.org {\nmemory 1MiB\n"+block+"\n}")
	h, err := parse(controller, c.read)
	require.NoError(t, err)
	t.Cleanup(func() { h.Close() })
	h.Next = plugin.HandlerFunc(answer)
	return &bench{h, c, t}
}

var errUpstream = errors.New("nobody there")

func answer(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	m := new(dns.Msg)
	m.SetReply(r)
	m.Extra = a
	switch label := dns.SplitDomainName(r.Question[0].Name)[0]; label {
	case "silent":
		return dns.RcodeSuccess, nil
	case "servfail":
		return dns.RcodeServerFailure, errUpstream
	case "refused":
		m.Rcode = dns.RcodeRefused
	case "nodata":
		m.Ns = soa
	case "sub":
		m.Ns = ns
	case "nxdomain", "nxdomain2":
		m.Rcode, m.Ns = dns.RcodeNameError, soa
	default:
		m.Answer = a
	}
	return dns.RcodeSuccess, w.WriteMsg(m)
}

// ask sends a query from a client, and returns what it is sent: nothing, or an answer.
func (b *bench) ask(client, name string, tcp bool) (*dns.Msg, int, error) {
	w := dnstest.NewRecorder(&test.ResponseWriter{RemoteIP: client, TCP: tcp})
	q := new(dns.Msg)
	q.SetQuestion(name, dns.TypeA)
	rcode, err := b.ServeDNS(context.Background(), w, q)
	return w.Msg, rcode, err
}

// count asks so many times, with pauses, and counts the answers that are whole and
// those that are truncated.
func (b *bench) count(times int, pause time.Duration, name string) (whole, truncated int) {
	for range times {
		switch m, _, _ := b.ask("10.0.0.1", name, false); {
		case m == nil:
		case m.Truncated:
			truncated++
		default:
			whole++
		}
		b.pass(pause)
	}
	return whole, truncated
}

func requireCount(t *testing.T, b *bench, times int, name string, whole, truncated int) {
	t.Helper()
	w, tc := b.count(times, 0, name)
	require.Equal(t, [2]int{whole, truncated}, [2]int{w, tc}, name)
}

func TestServeDNSRateLimit(t *testing.T) {
	b := newBench(t, "responses-per-second 2")
	m, rcode, err := b.ask("10.0.0.1", "www.example.org.", false)
	require.NoError(t, err)
	require.Zero(t, rcode)
	require.Len(t, m.Answer, 1)
	requireCount(t, b, 4, "www.example.org.", 1, 0)
	m, rcode, err = b.ask("10.0.0.1", "www.example.org.", false)
	require.Nil(t, m)
	require.True(t, plugin.ClientWrite(rcode), "CoreDNS would answer")
	require.ErrorIs(t, err, errResponses)

	// Other accounts: another network, name, type, and kind of answer. The same network
	// is the same account.
	for _, other := range [][2]string{
		{"10.0.1.1", "www.example.org."}, {"10.0.0.1", "mail.example.org."}, {"10.0.0.1", "nodata.example.org."},
		{"10.0.0.1", "sub.example.org."}, {"10.0.0.1", "nxdomain.example.org."}, {"10.0.0.1", "refused.example.org."},
		{"2001:db8::1", "www.example.org."},
	} {
		m, _, err := b.ask(other[0], other[1], false)
		require.NotNil(t, m, other)
		require.NoError(t, err, other)
	}
	m, _, _ = b.ask("10.0.0.200", "WWW.example.ORG.", false)
	require.Nil(t, m)
	// Names that do not exist are one account, and so are errors.
	requireCount(t, b, 2, "nxdomain2.example.org.", 1, 0)
	requireCount(t, b, 2, "servfail.example.org.", 0, 0)
}

func TestServeDNSRateLimitTCP(t *testing.T) {
	b := newBench(t, "responses-per-second 1")
	for range 5 {
		m, _, err := b.ask("10.0.0.1", "www.example.org.", true)
		require.NoError(t, err)
		require.NotNil(t, m)
	}
	requireCount(t, b, 2, "www.example.org.", 1, 0)
}

func TestServeDNSForeignZone(t *testing.T) {
	b := newBench(t, "responses-per-second 1\nrequests-per-second 1")
	requireCount(t, b, 5, "www.example.com.", 5, 0)
}

func TestServeDNSZeroAllowance(t *testing.T) {
	b := newBench(t, "responses-per-second 1\nnodata-per-second 0")
	requireCount(t, b, 5, "nodata.example.org.", 5, 0)
	requireCount(t, b, 5, "www.example.org.", 1, 0)
	requireCount(t, newBench(t, ""), 5, "www.example.org.", 5, 0)
}

func TestServeDNSRateLimitSlips(t *testing.T) {
	for ratio, slips := range map[int]int{0: 0, 1: 10, 2: 5, 5: 2, 10: 1} {
		b := newBench(t, fmt.Sprintf("responses-per-second 1\nslip-ratio %d", ratio))
		requireCount(t, b, 11, "www.example.org.", 1, slips)
	}
	// What slips is the header alone, and leaves the answer of the other plugin as it
	// was.
	b := newBench(t, "responses-per-second 1\nslip-ratio 1")
	shared := message(dns.RcodeSuccess, a, ns)
	shared.Response, shared.Extra = true, a
	b.Next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		return dns.RcodeSuccess, w.WriteMsg(shared)
	})
	b.ask("10.0.0.1", "www.example.org.", false)
	m, _, err := b.ask("10.0.0.1", "www.example.org.", false)
	require.NoError(t, err)
	require.True(t, m.Truncated && m.Response)
	require.Equal(t, shared.Question, m.Question)
	require.Empty(t, append(append(m.Answer, m.Ns...), m.Extra...))
	require.False(t, shared.Truncated)
	require.Len(t, append(append(shared.Answer, shared.Ns...), shared.Extra...), 3)
}

// The shares that were counted with rrl: of 909 queries within 0.909 s, under 100 a
// second with slip-ratio 2, 110 are answered, 399 are truncated and 400 dropped. Here,
// and over any time.
func TestSharesOfRRL(t *testing.T) {
	b := newBench(t, "responses-per-second 100\nslip-ratio 2")
	before := testutil.ToFloat64(responsesExceeded.WithLabelValues(""))
	whole, truncated := b.count(909, time.Millisecond, "www.example.org.")
	require.InDelta(t, 110, whole, 1)
	require.InDelta(t, 399, truncated, 1)
	require.InDelta(t, 799, testutil.ToFloat64(responsesExceeded.WithLabelValues(""))-before, 1)
	// The debt grows on: nothing more is answered, half of it is truncated.
	whole, truncated = b.count(20_000, time.Millisecond, "www.example.org.")
	require.Zero(t, whole)
	require.Equal(t, 10_000, truncated)
	// It is window seconds of allowance at most.
	b.pass(14_900 * time.Millisecond)
	requireCount(t, b, 2, "www.example.org.", 0, 1)
	b.pass(200 * time.Millisecond)
	requireCount(t, b, 1, "www.example.org.", 1, 0)
	// A thousand names at 2 a second each are all answered.
	for range 8 {
		for name := range 1000 {
			whole, _ := b.count(1, 0, fmt.Sprintf("n%d.example.org.", name))
			require.Equal(t, 1, whole)
		}
		b.pass(time.Second / 2)
	}
}

// Requests are counted before they are answered, by network alone, and over TCP as
// well. What is too much is not answered.
func TestRequestsPerSecond(t *testing.T) {
	b := newBench(t, "requests-per-second 3\nslip-ratio 1")
	before := testutil.ToFloat64(requestsExceeded.WithLabelValues(""))
	requireCount(t, b, 2, "www.example.org.", 2, 0)
	m, _, err := b.ask("10.0.0.9", "silent.example.org.", true)
	require.NoError(t, err)
	require.Nil(t, m)
	for _, tcp := range []bool{false, true} {
		m, rcode, err := b.ask("10.0.0.1", "nxdomain.example.org.", tcp)
		require.Nil(t, m)
		require.True(t, plugin.ClientWrite(rcode))
		require.ErrorIs(t, err, errRequests)
	}
	require.EqualValues(t, 2, testutil.ToFloat64(requestsExceeded.WithLabelValues(""))-before)
}

func TestReportOnly(t *testing.T) {
	b := newBench(t, "requests-per-second 3\nresponses-per-second 2\nreport-only\nslip-ratio 1")
	requests, responses := requestsExceeded.WithLabelValues(""), responsesExceeded.WithLabelValues("")
	before := testutil.ToFloat64(requests) + 100*testutil.ToFloat64(responses)
	requireCount(t, b, 10, "www.example.org.", 10, 0)
	require.EqualValues(t, 7+100*8, testutil.ToFloat64(requests)+100*testutil.ToFloat64(responses)-before)
}

// Errors that CoreDNS writes itself count as errors too. Who answers nothing is let be.
func TestErrorsOfCoreDNS(t *testing.T) {
	b := newBench(t, "responses-per-second 1\nslip-ratio 2")
	for i, dropped := range []bool{false, true, false, true} {
		m, rcode, err := b.ask("10.0.0.1", "servfail.example.org.", false)
		require.Nil(t, m, i)
		require.Equal(t, dropped, plugin.ClientWrite(rcode), i) // false: CoreDNS answers
		if dropped {
			require.ErrorIs(t, err, errResponses)
		} else {
			require.Equal(t, dns.RcodeServerFailure, rcode)
			require.ErrorIs(t, err, errUpstream)
		}
	}
	// A plugin that has written an answer and returns an error has CoreDNS write that.
	b.Next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		return dns.RcodeRefused, w.WriteMsg(message(dns.RcodeSuccess, a, nil))
	})
	m, rcode, err := b.ask("10.0.9.1", "www.example.org.", false)
	require.Nil(t, m)
	require.Equal(t, dns.RcodeRefused, rcode)
	require.NoError(t, err)
	b.Next = plugin.HandlerFunc(answer)
	for range 5 {
		m, rcode, err := b.ask("10.0.0.1", "silent.example.org.", false)
		require.Nil(t, m)
		require.Zero(t, rcode)
		require.NoError(t, err)
	}
}

// Decisions allocate nothing beyond what CoreDNS does.
func TestKeysAllocateNothing(t *testing.T) {
	b := newBench(t, "responses-per-second 100000")
	m := message(dns.RcodeSuccess, a, nil)
	m.Question[0].Name = "www.example.org."
	ctx, client := context.Background(), (&test.ResponseWriter{}).RemoteAddr()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var buf [keyBytes]byte
		key := response.key(buf[:0], b.prefixes.of(client), dns.TypeA, nameOf(ctx, response, m))
		b.accounts.debit(response, key)
	}))
}

// The handlers of running servers are told of; in a reload the new one takes the place
// of the old one.
func TestMetrics(t *testing.T) {
	one, two, of := newBench(t, "responses-per-second 5"), newBench(t, "responses-per-second 5\nmemory 64KiB"), block{keys: "dns://.:53"}
	registry := prometheus.NewPedanticRegistry()
	s := &handlers{of: make(map[block]*served)}
	registry.MustRegister(s)
	count := func() int {
		n, err := testutil.GatherAndCount(registry)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, count())
	first, second := &served{handler: one.Handler, of: 1}, &served{handler: two.Handler, of: 1}
	s.add(of, first)
	s.add(of, second)
	s.remove(of, first)
	require.Equal(t, 3, count())
	s.add(block{of.keys, "internal"}, first)
	require.Equal(t, 6, count())
	s.remove(of, second)
	s.remove(block{of.keys, "internal"}, first)
	require.Zero(t, count())

	// Thousands that owe much in little memory are more than it is for.
	require.Zero(t, two.FalseDenialRate())
	for i := range 12_000 {
		for range 7 {
			two.accounts.debit(response, fmt.Append(nil, i))
		}
	}
	require.Greater(t, two.FalseDenialRate(), plannedRate)
	require.LessOrEqual(t, two.MemoryBytes(), 64<<10)
}

// Accounts of more than 2 MiB together are read in the background: a scrape does not
// wait for them.
func TestScrapeDoesNotWait(t *testing.T) {
	s := handlers{of: map[block]*served{}}
	one, err := setupBlock("sketch_rrl {\nresponses-per-second 100\nmemory 4MiB\n}")
	require.NoError(t, err)
	defer one.Close()
	s.add(block{keys: "."}, &served{handler: one})
	count := func() int {
		ch := make(chan prometheus.Metric, 9)
		s.Collect(ch)
		return len(ch)
	}
	require.Equal(t, 1, count()) // its memory alone
	require.Eventually(t, func() bool { return count() == 3 }, time.Minute, time.Millisecond)
}

// BenchmarkScrape scrapes the metrics of 300 blocks of the usual memory, and says what
// the process holds before and after.
func BenchmarkScrape(b *testing.B) {
	s := handlers{of: map[block]*served{}}
	for i := range 300 {
		h, err := setupBlock("sketch_rrl {\nresponses-per-second 100\n}")
		require.NoError(b, err)
		defer h.Close()
		of := block{keys: fmt.Sprintf("dns://%d.example.:53", i)}
		s.add(of, &served{handler: h})
		defer s.remove(of, s.of[of])
	}
	all := prometheus.NewRegistry()
	all.MustRegister(&s)
	before := resident()
	var spans []time.Duration
	for b.Loop() {
		start := time.Now()
		families, err := all.Gather()
		spans = append(spans, time.Since(start))
		require.NoError(b, err)
		require.NotEmpty(b, families)
	}
	slices.Sort(spans)
	b.ReportMetric(float64(spans[len(spans)*99/100])/1e6, "ms/99th")
	b.ReportMetric(before, "MiB-before")
	b.ReportMetric(resident(), "MiB-after")
}

// resident returns the MiB that the process holds, 0 where /proc does not say.
func resident() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	found := regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(status)
	if found == nil {
		return 0
	}
	kib, _ := strconv.Atoi(string(found[1]))
	return float64(kib) / 1024
}

// What the plugin adds to an answer: of one client, which is refused soon, and of a
// million.
func BenchmarkServeDNS(b *testing.B) {
	for _, block := range []string{"responses-per-second 0", "responses-per-second 100"} {
		for _, clients := range []int{1, 1_000_000} {
			b.Run(fmt.Sprintf("%s/clients=%d", strings.ReplaceAll(block, " ", "="), clients), func(b *testing.B) {
				h, err := setupBlock("sketch_rrl . {\n" + block + "\n}")
				require.NoError(b, err)
				defer h.Close()
				ctx, q, m := context.Background(), message(0, nil, nil), message(0, a, nil)
				h.Next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, _ *dns.Msg) (int, error) {
					return dns.RcodeSuccess, w.WriteMsg(m)
				})
				w := &client{addr: net.UDPAddr{IP: net.IP{16, 0, 0, 1}, Port: 53}}
				b.ReportAllocs()
				for i := range b.N {
					network := i * 7919 % clients
					w.addr.IP[0], w.addr.IP[1], w.addr.IP[2] = 16+byte(network>>16), byte(network>>8), byte(network)
					h.ServeDNS(ctx, w, q)
				}
			})
		}
	}
}

type client struct {
	test.ResponseWriter
	addr net.UDPAddr
}

func (c *client) RemoteAddr() net.Addr { return &c.addr }

func BenchmarkFalseDenialRate(b *testing.B) {
	h, err := setupBlock("sketch_rrl {\nresponses-per-second 100\n}")
	require.NoError(b, err)
	defer h.Close()
	for b.Loop() {
		h.FalseDenialRate()
	}
}
