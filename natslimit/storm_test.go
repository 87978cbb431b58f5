package natslimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// member is a server of a cluster, in a process of its own that can be killed.
type member struct {
	Name         string
	Port, Routes int
	All          []int // ports of routes
	Dir          string
	process      *exec.Cmd
	stdin        io.Closer
	exited       chan struct{}
	url          string
}

const memberEnv = "NATSLIMIT_TEST_SERVER"

// TestMain runs a member in the place of the tests if it is asked to.
func TestMain(m *testing.M) {
	if text := os.Getenv(memberEnv); text != "" {
		serve(text)
		return
	}
	os.Exit(m.Run())
}

// serve runs a server until standard input ends.
func serve(text string) {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		panic(err)
	}
	o := server.Options{ServerName: m.Name, Host: "127.0.0.1", Port: m.Port, JetStream: true, NoLog: true, StoreDir: m.Dir,
		Cluster: server.ClusterOpts{Name: "storm", Host: "127.0.0.1", Port: m.Routes}}
	for _, port := range m.All {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	s, err := server.NewServer(&o)
	if err != nil {
		panic(err)
	}
	s.Start()
	io.Copy(io.Discard, os.Stdin)
}

// start starts a stopped member.
func (m *member) start() error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	m.process = exec.Command(os.Args[0])
	m.process.Stderr = os.Stderr
	m.process.Env = append(os.Environ(), memberEnv+"="+string(text))
	if m.stdin, err = m.process.StdinPipe(); err != nil {
		return err
	}
	if err := m.process.Start(); err != nil {
		return err
	}
	m.exited = make(chan struct{})
	go func(p *exec.Cmd, exited chan struct{}) {
		p.Wait()
		close(exited)
	}(m.process, m.exited)
	return nil
}

// kill ends a member at once.
func (m *member) kill() {
	m.process.Process.Kill()
	<-m.exited
}

func (m *member) signal(s syscall.Signal) error { return m.process.Process.Signal(s) }

// trio is a cluster of three.
type trio struct {
	t       testing.TB
	members [3]*member
	js      jetstream.JetStream // of the test
	urls    string
}

func startTrio(t testing.TB) *trio {
	c := &trio{t: t}
	var ports []int
	for range 2 * len(c.members) {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer free.Close()
		ports = append(ports, free.Addr().(*net.TCPAddr).Port)
	}
	for i := range c.members {
		m := &member{Name: fmt.Sprint("server", i), Port: ports[i], Routes: ports[3+i], All: ports[3:], Dir: t.TempDir()}
		m.url = fmt.Sprintf("nats://127.0.0.1:%d", m.Port)
		c.members[i], c.urls = m, c.urls+","+m.url
	}
	c.urls = c.urls[1:]
	return c
}

// run starts all members, and waits for a leader.
func (c *trio) run() error {
	for _, m := range c.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until the cluster has a leader.
func (c *trio) ready() {
	c.js = connect(c.t, c.urls)
	eventually(c.t, "a leader", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.js.AccountInfo(ctx)
		return err == nil
	})
}

// leader returns the member that leads the stream, once all others have what it has.
func (c *trio) leader() (leader *member, err error) {
	for range 600 {
		err = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			stream, err := c.js.Stream(ctx, StreamName)
			if err != nil {
				return err
			}
			info := stream.CachedInfo().Cluster
			if info == nil || len(info.Replicas) != len(c.members)-1 {
				return errors.New("the stream is not on all servers")
			}
			for _, peer := range info.Replicas {
				if !peer.Current || peer.Offline {
					return fmt.Errorf("server %s lags behind", peer.Name)
				}
			}
			for _, m := range c.members {
				if m.Name == info.Leader {
					leader = m
					return nil
				}
			}
			return errors.New("no leader")
		}()
		if err == nil {
			return leader, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, err
}

// deleteStream asks again where a new leader of the cluster has not heard of it.
func (c *trio) deleteStream() (err error) {
	for range 30 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err = c.js.DeleteStream(ctx, StreamName)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
	}
	return err
}

// way is how one node's client reaches servers. It spoils connections.
type way struct {
	mu                  sync.Mutex
	refuse, loseReplies bool
	delay               time.Duration
	conns               map[*spoiled]bool
}

type spoiled struct {
	net.Conn
	way *way
}

func (w *way) Dial(network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse {
		return nil, errors.New("refused")
	}
	conn, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return nil, err
	}
	c := &spoiled{conn, w}
	w.conns[c] = true
	return c, nil
}

func (c *spoiled) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.way.mu.Lock()
	lose, delay := c.way.loseReplies, c.way.delay
	c.way.mu.Unlock()
	if lose {
		c.Close()
		return 0, errors.New("lost")
	}
	time.Sleep(delay)
	return n, err
}

func (c *spoiled) Close() error {
	c.way.mu.Lock()
	delete(c.way.conns, c)
	c.way.mu.Unlock()
	return c.Conn.Close()
}

// set changes the way, and ends its connections if it should.
func (w *way) set(change func(), cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	if cut {
		for c := range w.conns {
			c.Conn.Close()
		}
	}
}

// paced is a node of a sharingtest.Paced.
type paced struct{ *Synced }

func (p paced) Bound() int { return p.Stats().Bound }

// storm kills and pauses the server that leads the stream, ends all three, deletes the
// stream, and cuts, delays and loses what clients are sent, while four nodes ask: nothing
// is lost, and no more is admitted than Bound says.
func storm(t testing.TB, rounds int, pause time.Duration, everything bool) {
	const (
		nodes, limit, counts = 4, 100, 1_000_000
		pacedLimit, rate     = 300, 250
		window               = time.Second
	)
	c := startTrio(t)
	require.NoError(t, c.run())
	t.Cleanup(func() {
		for _, m := range c.members {
			m.kill()
		}
	})
	c.ready()
	s := &sharingtest.Storm{Limit: counts, Rounds: rounds, Patience: 2 * time.Minute,
		Paced: &sharingtest.Paced{Limit: pacedLimit, Rate: rate, Window: window}}
	var ways []*way
	today := time.Now().Truncate(24 * time.Hour)
	for range nodes {
		w := &way{conns: map[*spoiled]bool{}}
		ways = append(ways, w)
		conn, err := nats.Connect(c.urls, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.SetCustomDialer(w))
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		js, err := jetstream.New(conn)
		require.NoError(t, err)
		node := func(prefix string, limit int, window time.Duration, clock func() time.Time, opts ...Option) *Synced {
			l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: window, Algorithm: sketchlimit.FixedWindow, Keys: 10_000, Seed: 1, Clock: clock})
			require.NoError(t, err)
			s, err := NewSynced(js, l, 100*time.Millisecond, append(opts, Prefix(prefix), Replicas(3), Nodes(nodes), Log(slog.New(slog.DiscardHandler)))...)
			require.NoError(t, err)
			t.Cleanup(func() { s.base.Leave(); l.Close() })
			return s
		}
		still := func() time.Time { return today }
		s.Counting = append(s.Counting, node("counting", counts, 24*time.Hour, still))
		s.Limiting = append(s.Limiting, node("limiting", limit, 24*time.Hour, still))
		s.Paced.Nodes = append(s.Paced.Nodes, paced{node("paced", pacedLimit, window, nil, KeyRate(rate))})
	}
	wait := func() { time.Sleep(pause) }
	next := 0
	one := func() *way { next++; return ways[next%len(ways)] }
	s.Trouble = []func() error{
		func() error { // the leader is killed, and comes back
			m, err := c.leader()
			if err != nil {
				return err
			}
			m.kill()
			wait()
			return m.start()
		},
		func() error {
			w := one()
			w.set(func() { w.refuse = true }, true)
			wait()
			w.set(func() { w.refuse = false }, false)
			return nil
		},
		func() error {
			w := one()
			w.set(func() { w.loseReplies = true }, false)
			wait()
			w.set(func() { w.loseReplies = false }, false)
			return nil
		},
		func() error {
			w := one()
			w.set(func() { w.delay = 300 * time.Millisecond }, false)
			wait()
			w.set(func() { w.delay = 0 }, false)
			return nil
		},
		func() error { w := one(); w.set(func() {}, true); return nil },
		func() error { // the stream is lost
			if _, err := c.leader(); err != nil {
				return err
			}
			return c.deleteStream()
		},
	}
	if everything {
		s.Trouble = append(s.Trouble,
			func() error { // the leader is paused
				m, err := c.leader()
				if err != nil {
					return err
				}
				err = m.signal(syscall.SIGSTOP)
				wait()
				return errors.Join(err, m.signal(syscall.SIGCONT))
			},
			func() error { // all are killed, and come back
				if _, err := c.leader(); err != nil {
					return err
				}
				for _, m := range c.members {
					m.kill()
				}
				wait()
				return c.run()
			},
		)
	}
	s.Trouble = append(s.Trouble, func() error { // slow, until what came before does not count any more
		for _, w := range ways {
			w.set(func() { w.delay = 20 * time.Millisecond }, false)
		}
		time.Sleep(6 * window)
		for _, w := range ways {
			w.set(func() { w.delay = 0 }, false)
		}
		return nil
	})
	r, err := s.Run()
	t.Logf("NATS: %+v, bound of Limiting %d", r, nodes*limit)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Admitted, int64(limit))
	require.LessOrEqual(t, r.Admitted, int64(nodes*limit))
	require.Zero(t, r.Paced.Above, "windows with KeyRate above their bound")
	require.Positive(t, r.Paced.Windows)
}

func TestStorm(t *testing.T) {
	t.Parallel()
	storm(t, 1, 700*time.Millisecond, false)
}

func BenchmarkStorm(b *testing.B) {
	for range b.N {
		storm(b, 4, 1500*time.Millisecond, true)
	}
}
