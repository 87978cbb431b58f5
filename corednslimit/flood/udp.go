package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind" // which the Corefile names
	clog "github.com/coredns/coredns/plugin/pkg/log"
	_ "github.com/coredns/coredns/plugin/whoami"
	"golang.org/x/net/ipv4"
)

type corefile string

func (c corefile) Body() []byte       { return []byte(c) }
func (c corefile) Path() string       { return "Corefile" }
func (c corefile) ServerType() string { return "dns" }

var once sync.Once

// runUDP asks a CoreDNS on the loopback. Each client is an address of 127.0.0.0/8, which its queries come from and its
// answers go to. What the socket of a server that cannot keep up drops is among the unanswered: keep -flood-qps below that.
func runUDP(p *plan, limiter string) (r result, err error) {
	once.Do(func() {
		registerTable(p)
		caddy.Quiet, dnsserver.Quiet = true, true
		clog.SetOutput(io.Discard)
	})
	block := ""
	if limiter != "none" {
		block = p.block(limiter, 32)
	}
	r.rate, r.before = -1, heap()
	server, err := caddy.Start(corefile(".:0 {\nbind 127.0.0.1\n" + block + "\nwhoami\n}"))
	if err != nil {
		return r, err
	}
	defer server.Stop()
	to := server.Servers()[0].LocalAddr().(*net.UDPAddr)
	rates := [kinds]float64{p.floodQPS, p.victimQPS * float64(p.victims), p.calmQPS * float64(p.innocents)}
	start := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, kinds)
	for k := range kinds {
		wg.Go(func() {
			s := &sender{kind: k, clients: p.of(k), rate: rates[k], to: to, start: start, end: start.Add(p.span)}
			if k == victim {
				s.start = start.Add(p.fill)
			}
			r.of[k], errs[k] = s.run()
		})
	}
	wg.Wait()
	r.took, r.after = p.span, heap()
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

	whole, truncated atomic.Int64
}

const (
	batch      = 32
	socketSize = 8 << 20
	lastAnswer = time.Second // after the last query
)

func (s *sender) run() (t tally, err error) {
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return t, err
	}
	defer conn.Close()
	conn.SetReadBuffer(socketSize)
	packets := ipv4.NewPacketConn(conn)
	var wg sync.WaitGroup
	wg.Go(func() { s.read(packets) })

	question, err := question.Pack()
	if err != nil {
		return t, err
	}
	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers, messages[i].Addr = [][]byte{question}, s.to
	}
	time.Sleep(time.Until(s.start))
	for time.Now().Before(s.end) {
		n := batch
		if s.rate > 0 {
			n = min(n, int(time.Since(s.start).Seconds()*s.rate)-t.asked)
		}
		if n <= 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		for i := range n {
			messages[i].OOB = (&ipv4.ControlMessage{Src: s.client((t.asked + i) % s.clients)}).Marshal()
		}
		sent, err := packets.WriteBatch(messages[:n], 0)
		if err != nil {
			return t, err
		}
		t.asked += sent
	}
	time.Sleep(lastAnswer)
	conn.Close()
	wg.Wait()
	t.whole, t.truncated = int(s.whole.Load()), int(s.truncated.Load())
	return t, nil
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
		for _, m := range messages[:n] {
			if m.Buffers[0][2]&2 != 0 { // TC
				s.truncated.Add(1)
			} else {
				s.whole.Add(1)
			}
		}
	}
}
