package redistest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server and spoils their connections.
type Proxy struct {
	Addr   string
	server string
	listen net.Listener

	mu     sync.Mutex
	delay  time.Duration
	change chan struct{} // closed when delay changes
	lose   bool
	refuse bool
	conns  map[net.Conn]bool

	forgotten map[net.Conn]bool
}

// NewProxy returns a proxy to a server's address that ends with the test.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: listen.Addr().String(), server: server, listen: listen, conns: map[net.Conn]bool{}, forgotten: map[net.Conn]bool{}, change: make(chan struct{})}
	go p.accept()
	t.Cleanup(func() {
		listen.Close()
		p.Reset()
	})
	return p
}

// Delay holds back all replies by so much, also those that are on their way.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
	close(p.change)
	p.change = make(chan struct{})
}

// LoseReplies lets requests through, and ends the connection instead of the reply.
func (p *Proxy) LoseReplies(lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = lose
}

// Refuse ends all connections, now and as they come.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	p.refuse = refuse
	p.mu.Unlock()
	p.Reset()
}

// Reset ends all connections in the middle of whatever they do.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
		delete(p.conns, c)
	}
}

// Forget drops what comes from now on by the connections that there are, in silence, as a firewall does.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.forgotten[c] = true
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		p.mu.Lock()
		if err != nil || p.refuse {
			p.mu.Unlock()
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		go func() {
			defer server.Close()
			io.Copy(server, client)
		}()
		go func() {
			defer client.Close()
			p.replies(client, server)
		}()
	}
}

func (p *Proxy) replies(client, server net.Conn) error {
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		if err != nil {
			return err
		}
		due := time.Now()
		for {
			p.mu.Lock()
			lose, wait, change := p.lose, p.delay-time.Since(due), p.change
			if p.forgotten[client] {
				wait = time.Hour
			}
			p.mu.Unlock()
			if lose {
				client.(*net.TCPConn).SetLinger(0) // a reset
				return errors.New("lost")
			}
			if wait <= 0 {
				break
			}
			select {
			case <-time.After(wait):
			case <-change:
			}
		}
		if _, err := client.Write(b[:n]); err != nil {
			return err
		}
	}
}
