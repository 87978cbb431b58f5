package natslimit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

var _ httplimit.Limiter = (*Synced)(nil)

const testLimit = 1_000_000

// join returns a node, whose window does not end while a test runs.
func join(t testing.TB, js jetstream.JetStream, opts ...Option) *Synced {
	t.Helper()
	now := time.Now()
	l, err := sketchlimit.New(sketchlimit.Config{Limit: testLimit, Window: 24 * time.Hour, Keys: 10_000, Seed: 1,
		Clock: func() time.Time { return now.Truncate(24 * time.Hour) }})
	require.NoError(t, err)
	s, err := NewSynced(js, l, 20*time.Millisecond, append([]Option{Log(slog.New(slog.DiscardHandler)), Timeout(10 * time.Second)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { s.base.Leave(); l.Close() })
	return s
}

func used(s *Synced, key string) int { return testLimit - s.Peek(key).Remaining }

// eventually waits for what must come to hold, a minute at most.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for start := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%s does not come to hold", what)
		}
	}
}

// agree waits until all nodes know of what was admitted, of each key.
func agree(t testing.TB, admitted []int, nodes ...*Synced) {
	t.Helper()
	for key, want := range admitted {
		for i, s := range nodes {
			eventually(t, fmt.Sprint("node ", i, " knows of ", want, " units of key ", key), func() bool { return used(s, fmt.Sprint(key)) >= want })
			require.LessOrEqual(t, used(s, fmt.Sprint(key)), want+want/10)
		}
	}
}

// spend lets each node admit units of some keys at random, and adds them up.
func spend(nodes []*Synced, admitted []int, requests int) {
	for range requests {
		key := rand.IntN(len(admitted))
		if nodes[rand.IntN(len(nodes))].Allow(fmt.Sprint(key)) {
			admitted[key]++
		}
	}
}

// TestSixteenNodes: all know all, also nodes that come later, and those that went are
// counted.
func TestSixteenNodes(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{})
	var nodes []*Synced
	for range 16 {
		nodes = append(nodes, join(t, connect(t, s.ClientURL())))
	}
	admitted := make([]int, 20)
	spend(nodes, admitted, 5_000)
	agree(t, admitted, nodes...)
	require.Equal(t, 16, nodes[0].Stats().Nodes)
	require.Equal(t, 16*testLimit, nodes[0].Stats().Bound)
	spend(nodes[:8], admitted, 1_000)
	for _, s := range nodes[:8] {
		require.NoError(t, s.Close())
	}
	late := join(t, connect(t, s.ClientURL()))
	agree(t, admitted, append(nodes[8:], late)...)
	eventually(t, "that those that went are not counted", func() bool { return late.Stats().Nodes == 9 })
}

// startCluster starts three servers that know each other.
func startCluster(t *testing.T) (servers []*server.Server, urls string) {
	var ports []int
	for range 3 {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ports = append(ports, free.Addr().(*net.TCPAddr).Port)
		require.NoError(t, free.Close())
	}
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i, port := range ports {
		o := server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, NoSigs: true, NoLog: true, StoreDir: t.TempDir(),
			ServerName: fmt.Sprint("server", i), Routes: routes,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}}
		s, err := server.NewServer(&o)
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	for _, s := range servers {
		require.True(t, s.ReadyForConnections(time.Minute))
		urls += s.ClientURL() + ","
	}
	eventually(t, "a leader", func() bool {
		for _, s := range servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 {
				return true
			}
		}
		return false
	})
	return servers, urls[:len(urls)-1]
}

// TestClusterLosesAServer: the one that leads the stream is stopped under load; nothing
// is lost, and nobody waits.
func TestClusterLosesAServer(t *testing.T) {
	t.Parallel()
	servers, urls := startCluster(t)
	var nodes []*Synced
	for range 3 {
		nodes = append(nodes, join(t, connect(t, urls), Replicas(3), Timeout(5*time.Second)))
	}
	admitted := make([]int, 20)
	spend(nodes, admitted, 2_000)
	agree(t, admitted, nodes...)
	require.Zero(t, nodes[0].Stats().Failures)
	for _, s := range servers {
		if s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, StreamName) {
			go s.Shutdown()
			break
		}
	}
	for range 20 {
		spend(nodes, admitted, 100)
		time.Sleep(10 * time.Millisecond)
	}
	agree(t, admitted, nodes...)
	agree(t, admitted, join(t, connect(t, urls), Replicas(3), Timeout(5*time.Second)))
}

// TestServerComesBack: with its data, and without.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	for _, empty := range []bool{false, true} {
		t.Run(fmt.Sprint("empty=", empty), func(t *testing.T) {
			dir := t.TempDir()
			s := startServer(t, server.Options{StoreDir: dir})
			port := s.Addr().(*net.TCPAddr).Port
			var log bytes.Buffer
			var mu sync.Mutex
			write := writer(func(b []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return log.Write(b) })
			a := join(t, connect(t, s.ClientURL()), OnFailure(FailClosed), Timeout(200*time.Millisecond), Log(slog.New(slog.NewTextHandler(write, nil))))
			b := join(t, connect(t, s.ClientURL()), Timeout(200*time.Millisecond))
			admitted := make([]int, 20)
			spend([]*Synced{a, b}, admitted, 1_000)
			agree(t, admitted, a, b)
			s.Shutdown()
			s.WaitForShutdown()
			spend([]*Synced{b}, admitted, 1_000)
			eventually(t, "Away", func() bool { return a.Stats().Away && b.Stats().Away })
			require.False(t, a.Allow("k"))
			require.False(t, a.Do(sketchlimit.Request{Key: "k"}).Allowed)
			require.True(t, b.Allow("k"))
			if empty {
				dir = t.TempDir()
			}
			startServer(t, server.Options{StoreDir: dir, Port: port})
			eventually(t, "that it is back", func() bool { return !a.Stats().Away && !b.Stats().Away })
			agree(t, admitted, a, b)
			agree(t, admitted, join(t, connect(t, s.ClientURL())))
			for _, want := range []string{`msg="NATS is away"`, `msg="NATS is back"`,
				`level=WARN msg="all nodes together admit at most bound units of a key in a window, more than twice the limit" name=sketchlimit bound=3000000 limit=1000000 nodes=3`} {
				eventually(t, want, func() bool { mu.Lock(); defer mu.Unlock(); return strings.Contains(log.String(), want) })
			}
		})
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestIdleCostsNothing: ten limiters that nobody asks cost the server two requests a
// second at most, by its own count.
func TestIdleCostsNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{})
	js := connect(t, s.ClientURL())
	for i := range 10 {
		join(t, js, Prefix(fmt.Sprint(i)))
	}
	time.Sleep(2500 * time.Millisecond)
	requests := func() int64 {
		v, err := s.Varz(nil)
		require.NoError(t, err)
		return v.InMsgs
	}
	before, start := requests(), time.Now()
	time.Sleep(5 * time.Second)
	n := requests() - before
	t.Logf("%d messages in %v", n, time.Since(start))
	require.LessOrEqual(t, float64(n), 2*time.Since(start).Seconds())
}

func TestRefuses(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}).ClientURL())
	join(t, js)
	limiter := func(c sketchlimit.Config) *sketchlimit.Limiter {
		c.Limit, c.Window, c.Keys = 10, time.Minute, 100
		l, err := sketchlimit.New(c)
		require.NoError(t, err)
		return l
	}
	l := limiter(sketchlimit.Config{Seed: 1})
	for _, c := range []struct {
		limiter  *sketchlimit.Limiter
		interval time.Duration
		option   Option
		want     string
	}{
		{l, time.Second, Prefix("sketchlimit"), "natslimit: the nodes' limiters differ; they must have the same Config and Seed"},
		{limiter(sketchlimit.Config{Algorithm: sketchlimit.TokenBucket}), time.Second, Prefix("b"), "natslimit: sketchlimit: Share with Algorithm bucket"},
		{nil, time.Second, Prefix("a"), "natslimit: limiter nil, must be one"},
		{l, time.Hour, Prefix("a"), "natslimit: interval 1h0m0s, must be 1ms … the Window, 1m0s"},
		{l, time.Second, Prefix(""), `natslimit: Prefix "", must be without braces, and not empty`},
		{l, time.Second, Timeout(0), "natslimit: Timeout 0s, must be above 0"},
		{l, time.Second, OnFailure(7), "natslimit: Failure 7, must be FailShare, FailLocal, FailOpen or FailClosed"},
		{l, time.Second, Log(nil), "natslimit: Log nil, must be a logger"},
		{l, time.Second, Nodes(0), "natslimit: Nodes 0, must be 1 … 1048576"},
		{l, time.Second, KeyRate(0), "natslimit: KeyRate 0, must be above 0"},
		{l, time.Second, Replicas(9), "natslimit: Replicas 9, must be 1 … 5"},
		{l, time.Second, nil, "natslimit: option 0 nil, must be one"},
	} {
		_, err := NewSynced(js, c.limiter, c.interval, c.option)
		require.EqualError(t, err, c.want+err.Error()[min(len(c.want), len(err.Error())):])
	}
	_, err := NewSynced(nil, l, time.Second)
	require.EqualError(t, err, "natslimit: JetStream nil, must be one")
}

// TestBound: what is said to be admitted at most, of a limit of 10 on 16 machines.
func TestBound(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}).ClientURL())
	for _, c := range []struct {
		options []Option
		want    int
	}{
		{[]Option{Nodes(16)}, 160},
		{[]Option{Nodes(16), KeyRate(1e9)}, 160},
		{nil, 10},
		{[]Option{Nodes(3), KeyRate(20), Timeout(10 * time.Second)}, 10 + 2*5}, // 200 ms and the round trip
	} {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 100, Seed: 1})
		require.NoError(t, err)
		s, err := NewSynced(js, l, 100*time.Millisecond, append(c.options, Prefix(fmt.Sprint(len(c.options), c.want)))...)
		require.NoError(t, err)
		require.InDelta(t, c.want, s.Stats().Bound, 2*float64(len(c.options)/3))
		require.Positive(t, s.MemoryBytes())
		require.Equal(t, time.Minute, s.Window())
		require.Zero(t, s.LowestLimit())
		require.True(t, s.AllowN("k", 9))
		require.Zero(t, s.Take("k", 1).Remaining)
		require.NoError(t, s.Close())
		require.NoError(t, s.base.Exchange(context.Background()), "once more")
		l.Close()
	}
}
