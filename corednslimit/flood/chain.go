package main

import (
	"context"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/sketchlimit/sketchlimit/corednslimit"
)

var (
	question = new(dns.Msg).SetQuestion("www.example.org.", dns.TypeA)
	reply    = func() *dns.Msg {
		m := new(dns.Msg).SetReply(question)
		m.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: "www.example.org.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 1),
		}}
		return m
	}()
)

// runChain asks the plugin itself, and what comes after it answers at once: as fast as
// this machine goes.
func runChain(p *plan, limiter string) (r result, err error) {
	answer := plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, _ *dns.Msg) (int, error) {
		return dns.RcodeSuccess, w.WriteMsg(reply)
	})
	var handler plugin.Handler = answer
	r.rate, r.before = -1, heap()
	switch limiter {
	case tableName, evictingName:
		t := newTable(limiter, p, 24)
		t.next, handler = answer, t
	case "sketch_rrl":
		h, err := corednslimit.Parse(caddy.NewTestController("dns", p.block(limiter, 24)))
		if err != nil {
			return r, err
		}
		h.Next, handler = answer, h
		defer h.Close()
		defer func() { r.rate, r.bytes = h.FalseDenialRate(), h.MemoryBytes() }()
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	start, workers := time.Now(), runtime.GOMAXPROCS(0)
	for worker := range workers {
		wg.Go(func() {
			asker := &asker{plan: p, handler: handler, random: rand.New(rand.NewPCG(1, uint64(worker))), first: worker, step: workers}
			asker.run(start)
			mu.Lock()
			defer mu.Unlock()
			for k := range kinds {
				r.of[k].add(asker.of[k])
			}
		})
	}
	wg.Wait()
	r.took, r.after = time.Since(start), heap()
	runtime.KeepAlive(handler)
	return r, nil
}

// asker is one of those that ask at the same time. Of victims and innocents it asks for
// those first, first+step, …
type asker struct {
	*plan
	handler     plugin.Handler
	random      *rand.Rand
	first, step int
	of          [kinds]tally
	next        [kinds]int // of those whose turn it is
	turn        int        // of the networks of the trickle
	got         *tally     // whom an answer is for
	addr        net.UDPAddr
}

func (a *asker) run(start time.Time) {
	a.addr = net.UDPAddr{IP: make(net.IP, 4), Port: 53}
	a.turn = a.first
	for {
		elapsed := time.Since(start)
		if elapsed >= a.span {
			return
		}
		a.paced(innocent, elapsed.Seconds()*a.calmQPS*float64(a.innocents))
		a.paced(victim, max(0, (elapsed-a.fill).Seconds())*a.victimQPS*float64(a.victims))
		for range 64 {
			a.ask(trickle, a.turn)
			a.turn = (a.turn + a.step) % a.networks
		}
	}
}

// paced asks for the clients of a kind in turn, until all askers together have asked so
// often.
func (a *asker) paced(k kind, due float64) {
	for ; float64(a.of[k].asked*a.step+a.first) < due; a.next[k]++ {
		a.ask(k, (a.next[k]*a.step+a.first)%a.plan.of(k))
	}
}

// ask sends a query from some address of a client's network: 16.0.0.0/24 and up, others
// for each kind.
func (a *asker) ask(k kind, client int) {
	network := uint32(16+64*int(k))<<16 + uint32(client)
	a.addr.IP[0], a.addr.IP[1], a.addr.IP[2] = byte(network>>16), byte(network>>8), byte(network)
	a.addr.IP[3] = byte(a.random.Uint32())
	a.got = &a.of[k]
	a.got.asked++
	a.handler.ServeDNS(context.Background(), a, question)
}

// WriteMsg counts an answer.
func (a *asker) WriteMsg(m *dns.Msg) error {
	if m.Truncated {
		a.got.truncated++
	} else {
		a.got.whole++
	}
	return nil
}

func (a *asker) LocalAddr() net.Addr         { return &a.addr }
func (a *asker) RemoteAddr() net.Addr        { return &a.addr }
func (a *asker) Write(b []byte) (int, error) { return len(b), nil }
func (a *asker) Close() error                { return nil }
func (a *asker) TsigStatus() error           { return nil }
func (a *asker) TsigTimersOnly(bool)         {}
func (a *asker) Hijack()                     {}
