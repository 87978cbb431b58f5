package corednslimit

import (
	"context"
	"errors"
	"hash/maphash"
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	dnsrequest "github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// name is the plugin's in a Corefile.
const name = "sketch_rrl"

// The errors of what is not answered. CoreDNS hands them to plugins errors and log.
var (
	errRequests  = errors.New("client is above requests-per-second")
	errResponses = errors.New("client is above its allowance of such responses")
)

// Handler is the plugin in the chain of one server block.
type Handler struct {
	Next plugin.Handler

	zones      []string
	prefixes   prefixes
	accounts   *accounts
	slipRatio  int // every so many refused responses one is sent truncated; 0: none
	reportOnly bool
	seed       maphash.Seed
	slips      [slipCounters]atomic.Uint32
}

// slipCounters is the number of counters of refused responses. Accounts whose keys'
// hashes end alike share one.
const slipCounters = 1 << 10

// Name implements [plugin.Handler].
func (h *Handler) Name() string { return name }

// FalseDenialRate returns the chance, 0 … 1, that the first response to a client is
// refused because of what others were sent. It reads all accounts.
func (h *Handler) FalseDenialRate() float64 { return h.accounts.falseDenialRate() }

// MemoryBytes returns the memory of the accounts, which does not change.
func (h *Handler) MemoryBytes() int { return h.accounts.memoryBytes() }

// Close ends what the accounts do in the background.
func (h *Handler) Close() error { return h.accounts.close() }

// ServeDNS implements [plugin.Handler].
func (h *Handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := dnsrequest.Request{W: w, Req: r}
	if plugin.Zones(h.zones).Matches(state.Name()) == "" {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	network := h.prefixes.of(w.RemoteAddr())
	var buf [keyBytes]byte
	if h.accounts.limits(request) && !h.accounts.debit(request, request.key(buf[:0], network, 0, "")) {
		requestsExceeded.WithLabelValues(metrics.WithServer(ctx)).Inc()
		if !h.reportOnly {
			return dns.RcodeSuccess, errRequests // which CoreDNS takes as answered
		}
	}
	if state.Proto() == "tcp" { // whose addresses are not forged
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}

	nw := nonwriter.New(w)
	rcode, err := plugin.NextOrFailure(name, h.Next, ctx, nw, r)
	c, m := failure, nw.Msg
	switch {
	case !plugin.ClientWrite(rcode):
		m = nil // CoreDNS writes the error
	case m == nil:
		return rcode, err // nobody answers
	default:
		c = categoryOf(m)
	}
	if h.accounts.limits(c) {
		key := c.key(buf[:0], network, state.QType(), nameOf(ctx, c, m))
		if !h.accounts.debit(c, key) {
			responsesExceeded.WithLabelValues(metrics.WithServer(ctx)).Inc()
			switch {
			case h.reportOnly:
			case !h.slip(key):
				return dns.RcodeSuccess, errResponses
			case m != nil:
				m = truncated(m)
			}
		}
	}
	if m == nil {
		return rcode, err
	}
	if written := w.WriteMsg(m); written != nil {
		err = written
	}
	return rcode, err
}

// slip reports whether a refused response is sent truncated: one in slipRatio is.
func (h *Handler) slip(key []byte) bool {
	if h.slipRatio == 0 {
		return false
	}
	counter := &h.slips[maphash.Bytes(h.seed, key)%slipCounters]
	return counter.Add(1)%uint32(h.slipRatio) == 0
}

// truncated returns the header and the question of an answer: a client that is no
// forgery asks again over TCP.
func truncated(m *dns.Msg) *dns.Msg {
	t := *m // the answer may be another plugin's
	t.Answer, t.Ns, t.Extra = nil, nil, nil
	t.Truncated = true
	return &t
}
