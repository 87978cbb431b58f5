package main

import (
	"container/list"
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/miekg/dns"
)

// The models of plugin rrl.
const (
	tableName    = "table"
	evictingName = "evicting-table"
)

// table limits as plugin rrl documents: an account for each network and name in a table
// of max-table-size, 100,000. When it is full it takes the place of an account that has
// not been used for window, if there is one, and otherwise does not limit. An evicting
// one takes the place of any account, as sources of rrl do. It knows one name and one
// kind of answer, and is friendlier than a search: it keeps the accounts in the order
// of their last use.
type table struct {
	name     string
	next     plugin.Handler
	interval time.Duration // of a response
	bits     int

	mu    sync.Mutex
	of    map[string]*list.Element
	order *list.List // of *entry, the one whose last use is longest ago in front
}

type entry struct {
	key     string
	allowed time.Time // from which on the balance is not negative
	used    time.Time
	refused int
}

const (
	tableSize   = 100_000
	tableWindow = 15 * time.Second
	tableSlip   = 2
)

func newTable(name string, p *plan, bits int) *table {
	return &table{
		name: name, interval: time.Second / time.Duration(p.allowance), bits: bits,
		of: make(map[string]*list.Element), order: list.New(),
	}
}

// registerTable makes the table a plugin, as tests of CoreDNS do.
func registerTable(name string, p *plan) {
	plugin.Register(name, func(c *caddy.Controller) error {
		for c.Next() {
			for c.NextBlock() {
			}
		}
		t := newTable(name, p, 32)
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
			t.next = next
			return t
		})
		return nil
	})
	dnsserver.Directives = append([]string{name}, dnsserver.Directives...)
}

func (t *table) Name() string { return t.name }

func (t *table) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	nw := nonwriter.New(w)
	rcode, err := plugin.NextOrFailure(t.name, t.next, ctx, nw, r)
	ip := w.RemoteAddr().(*net.UDPAddr).IP.Mask(net.CIDRMask(t.bits, 32))
	m := nw.Msg
	if allowed, slip := t.debit(strings.Join([]string{ip.String(), "0", "1", r.Question[0].Name}, "/"), time.Now()); !allowed {
		if !slip {
			return dns.RcodeSuccess, nil
		}
		short := *m
		short.Answer, short.Ns, short.Extra, short.Truncated = nil, nil, nil, true
		m = &short
	}
	w.WriteMsg(m)
	return rcode, err
}

func (t *table) debit(key string, now time.Time) (allowed, slip bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.of[key]
	if found == nil {
		if len(t.of) >= tableSize {
			gone := t.order.Front()
			if t.name == evictingName {
				gone = t.any()
			} else if now.Sub(gone.Value.(*entry).used) < tableWindow {
				return true, false
			}
			delete(t.of, t.order.Remove(gone).(*entry).key)
		}
		found = t.order.PushBack(&entry{key: key, allowed: now.Add(-time.Second)})
		t.of[key] = found
	} else {
		t.order.MoveToBack(found)
	}
	e := found.Value.(*entry)
	balance := max(min(now.Sub(e.allowed), time.Second)-t.interval, -tableWindow)
	e.allowed, e.used = now.Add(-balance), now
	if balance >= 0 {
		return true, false
	}
	e.refused++
	return false, e.refused%tableSlip == 0
}

// any returns some account.
func (t *table) any() *list.Element {
	for _, e := range t.of {
		return e
	}
	return nil
}
