package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/bind" // which the Corefile names
	clog "github.com/coredns/coredns/plugin/pkg/log"
	_ "github.com/coredns/coredns/plugin/whoami"
	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
)

type corefile string

func (c corefile) Body() []byte       { return []byte(c) }
func (c corefile) Path() string       { return "Corefile" }
func (c corefile) ServerType() string { return "dns" }

var once sync.Once

// watch is a plugin in front of the limiter. It counts, by the kind of client, the
// queries that reach CoreDNS and the answers that leave it: sockets lose both where a
// machine cannot keep up, and that is not the limiter's doing.
type watch struct {
	next plugin.Handler
	of   [kinds]struct{ asked, whole, truncated atomic.Int64 }
}

var watched *watch // of the server that started last

func registerWatch() {
	const name = "watch"
	plugin.Register(name, func(c *caddy.Controller) error {
		h := new(watch)
		watched = h
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
			h.next = next
			return h
		})
		return nil
	})
	dnsserver.Directives = append([]string{name}, dnsserver.Directives...)
}

func (h *watch) Name() string { return "watch" }

func (h *watch) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	of := &h.of[(w.RemoteAddr().(*net.UDPAddr).IP.To4()[1]-16)/64]
	of.asked.Add(1)
	return h.next.ServeDNS(ctx, counter{w, &of.whole, &of.truncated}, r)
}

type counter struct {
	dns.ResponseWriter
	whole, truncated *atomic.Int64
}

func (c counter) WriteMsg(m *dns.Msg) error {
	if m.Truncated {
		c.truncated.Add(1)
	} else {
		c.whole.Add(1)
	}
	return c.ResponseWriter.WriteMsg(m)
}

// runUDP asks a CoreDNS on the loopback. Each client is an address of 127.0.0.0/8,
// which its queries come from and its answers go to.
func runUDP(p *plan, limiter string) (r result, err error) {
	once.Do(func() {
		registerTable(tableName, p)
		registerTable(evictingName, p)
		registerWatch()
		caddy.Quiet, dnsserver.Quiet = true, true
		clog.SetOutput(io.Discard)
	})
	block := ""
	if limiter != "none" {
		block = p.block(limiter, 32)
	}
	r.rate = -1
	server, err := caddy.Start(corefile(".:0 {\nbind 127.0.0.1\n" + block + "\nwatch\nwhoami\n}"))
	if err != nil {
		return r, err
	}
	defer server.Stop()
	defer server.ShutdownCallbacks()
	to := server.Servers()[0].LocalAddr().(*net.UDPAddr)
	rates := [kinds]float64{p.floodQPS, p.victimQPS * float64(p.victims), p.calmQPS * float64(p.innocents)}
	start := time.Now()
	var wg sync.WaitGroup
	var lost atomic.Int64
	errs := make([]error, kinds)
	for k := range kinds {
		wg.Go(func() {
			s := &sender{kind: k, clients: p.of(k), rate: rates[k], to: to, start: start, end: start.Add(p.span)}
			if k == victim {
				s.start = start.Add(p.fill)
			}
			sent, err := s.run()
			errs[k] = err
			of := &watched.of[k]
			r.of[k] = tally{int(of.asked.Load()), int(of.whole.Load()), int(of.truncated.Load())}
			lost.Add(int64(sent - r.of[k].asked + r.of[k].whole + r.of[k].truncated - int(s.answers.Load())))
		})
	}
	wg.Wait()
	r.took, r.lost = p.span, int(lost.Load())
	for _, err := range errs {
		if err != nil {
			return r, fmt.Errorf("%s: %w", limiter, err)
		}
	}
	return r, nil
}

// sender asks for the clients of one kind, from one socket.
type sender struct {
	kind       kind
	clients    int
	rate       float64 // queries a second; 0: as fast as it goes
	to         *net.UDPAddr
	start, end time.Time

	answers atomic.Int64 // that have come
}

const (
	batch      = 32
	socketSize = 8 << 20
	lastAnswer = time.Second // after the last query
)

// run returns how many queries it has sent.
func (s *sender) run() (asked int, err error) {
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return asked, err
	}
	defer conn.Close()
	conn.SetReadBuffer(socketSize)
	packets := ipv4.NewPacketConn(conn)
	var wg sync.WaitGroup
	wg.Go(func() { s.read(packets) })

	question, err := question.Pack()
	if err != nil {
		return asked, err
	}
	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers, messages[i].Addr = [][]byte{question}, s.to
	}
	time.Sleep(time.Until(s.start))
	for time.Now().Before(s.end) {
		n := batch
		if s.rate > 0 {
			n = min(n, int(time.Since(s.start).Seconds()*s.rate)-asked)
		}
		if n <= 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		for i := range n {
			messages[i].OOB = (&ipv4.ControlMessage{Src: s.client((asked + i) % s.clients)}).Marshal()
		}
		sent, err := packets.WriteBatch(messages[:n], 0)
		if err != nil {
			return asked, err
		}
		asked += sent
	}
	time.Sleep(lastAnswer)
	conn.Close()
	wg.Wait()
	return asked, nil
}

// client returns the address of a client: 127.16.0.0 and up, others for each kind.
func (s *sender) client(i int) net.IP {
	return binary.BigEndian.AppendUint32(nil, 127<<24+uint32(16+64*int(s.kind))<<16+uint32(i))
}

// read counts answers until the socket is closed.
func (s *sender) read(packets *ipv4.PacketConn) {
	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, 512)}
	}
	for {
		n, err := packets.ReadBatch(messages, 0)
		if err != nil {
			return
		}
		s.answers.Add(int64(n))
	}
}
