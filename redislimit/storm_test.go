package redislimit

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// What nodes of a storm share.
const (
	stormNodes  = 4
	stormLimit  = 100 // of the key that all nodes are asked for
	stormCounts = 1_000_000
	pacedLimit  = 300
	pacedRate   = 250 // units of a key a second, of each node
	pacedWindow = time.Second
)

// paced is a node of a sharingtest.Paced.
type paced struct{ *Synced }

func (p paced) Bound() int { return p.Stats().Bound }

// newStorm returns a storm over Redis of a Synced for each client: of a high limit, of a
// low one, and of one in short windows.
func newStorm(t testing.TB, clients []redis.UniversalClient, rounds int) *sharingtest.Storm {
	s := &sharingtest.Storm{Limit: stormCounts, Rounds: rounds, Patience: time.Minute,
		Paced: &sharingtest.Paced{Limit: pacedLimit, Rate: pacedRate, Window: pacedWindow}}
	for _, client := range clients {
		s.Limiting = append(s.Limiting, machine(t, client, stormLimit, Prefix("storm:limiting")))
		s.Counting = append(s.Counting, machine(t, client, stormCounts, Prefix("storm:counting")))
		l, err := sketchlimit.New(sketchlimit.Config{Limit: pacedLimit, Window: pacedWindow, Algorithm: sketchlimit.FixedWindow, Keys: 1000, Seed: 1})
		require.NoError(t, err)
		p, err := NewSynced(client, l, 100*time.Millisecond, Prefix("storm:paced"), KeyRate(pacedRate), Nodes(len(clients)), Log(quiet()))
		require.NoError(t, err)
		t.Cleanup(func() { p.stop(); p.base.Leave(); l.Close() })
		s.Paced.Nodes = append(s.Paced.Nodes, paced{p})
	}
	return s
}

// judge runs a storm, and holds what was admitted against what Synced promises.
func judge(t testing.TB, name string, s *sharingtest.Storm) {
	r, err := s.Run()
	t.Logf("%s, Synced: %+v, bound of Limiting %d", name, r, stormNodes*stormLimit)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Admitted, int64(stormLimit))
	require.LessOrEqual(t, r.Admitted, int64(stormNodes*stormLimit))
	require.Zero(t, r.Paced.Above, "windows with KeyRate above their bound")
	require.Positive(t, r.Paced.Windows)
}

// judgeStrict runs a storm of Strict, which admits the limit and no unit more.
func judgeStrict(t testing.TB, name string, clients []redis.UniversalClient, rounds int, trouble []func() error) {
	s := sharingtest.Storm{Limit: stormCounts, Rounds: rounds, Patience: time.Minute, Trouble: trouble}
	start := time.Now()
	for _, client := range clients {
		strict, err := NewStrict(client, Config{Limit: stormLimit, Window: 24 * time.Hour, Keys: 100_000, Seed: 1, Failure: FailClosed,
			Timeout: 300 * time.Millisecond, Log: quiet()})
		require.NoError(t, err)
		s.Limiting = append(s.Limiting, at{strict, start})
		s.Counting = append(s.Counting, machine(t, client, stormCounts, Prefix("storm:beside")))
	}
	r, err := s.Run()
	t.Logf("%s, Strict: %d of one key admitted, the limit is %d", name, r.Admitted, stormLimit)
	require.NoError(t, err)
	require.LessOrEqual(t, r.Admitted, int64(stormLimit))
	require.Positive(t, r.Admitted)
}

// at is a Strict at a time that stands still.
type at struct {
	*Strict
	now time.Time
}

func (a at) Allow(key string) bool {
	d, err := a.TakeAt(context.Background(), a.now, key, 1)
	return err == nil && d.Allowed
}

func (a at) Peek(string) sketchlimit.Decision { return sketchlimit.Decision{} }

// storm kills Redis with and without its data, pauses it, cuts connections, loses replies
// and delays them, while nodes ask: Synced loses nothing and admits no more than its
// Bound, Strict no more than the limit.
func storm(t testing.TB, rounds int, pause time.Duration) {
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	var proxies []*redistest.Proxy
	var clients []redis.UniversalClient
	for range stormNodes {
		proxy := redistest.NewProxy(t, server.Addr)
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
		t.Cleanup(func() { client.Close() })
		proxies, clients = append(proxies, proxy), append(clients, client)
	}
	admin := newTestClient(t, server.Addr)
	wait := func() { time.Sleep(pause) }
	flush := func() error { return admin.FlushAll(context.Background()).Err() }
	trouble := append([]func() error{
		func() error { server.Kill(); wait(); return server.Restart() },
		func() error {
			err := syscall.Kill(server.PID(), syscall.SIGSTOP)
			wait()
			return errors.Join(err, syscall.Kill(server.PID(), syscall.SIGCONT))
		}}, cuts(proxies, wait)...)
	s := newStorm(t, clients, rounds)
	s.Trouble = append(append([]func() error{flush}, trouble...), func() error { return slow(proxies...) })
	judge(t, "one Redis", s)
	judgeStrict(t, "one Redis", clients, rounds, trouble)
}

// slow lets every answer take longer, until what came before does not count any more: so
// bounds are below what is offered.
func slow(proxies ...*redistest.Proxy) error {
	for _, p := range proxies {
		p.Delay(100 * time.Millisecond)
		defer p.Delay(0)
	}
	time.Sleep(6 * pacedWindow)
	return nil
}

// cuts returns trouble on the way to Redis, of one node each, in turns.
func cuts(proxies []*redistest.Proxy, wait func()) []func() error {
	next := 0
	one := func() *redistest.Proxy { next++; return proxies[next%len(proxies)] }
	return []func() error{
		func() error { p := one(); p.Refuse(true); wait(); p.Refuse(false); return nil },
		func() error { p := one(); p.LoseReplies(true); wait(); p.LoseReplies(false); return nil },
		func() error { p := one(); p.Delay(700 * time.Millisecond); wait(); p.Delay(0); return nil },
		func() error { one().Reset(); return nil },
	}
}

func TestStorm(t *testing.T) {
	t.Parallel()
	storm(t, 1, 700*time.Millisecond)
}

func BenchmarkStorm(b *testing.B) {
	for range b.N {
		storm(b, 4, 1500*time.Millisecond)
	}
}

// fleet is a cluster of which the master of a slot is killed, and replaced.
type fleet struct {
	servers map[string]*redistest.Server
	client  *redis.ClusterClient
	key     string // in the slot
}

// master returns the server that has the slot, and one that follows it.
func (f *fleet) master() (master, replica *redistest.Server, err error) {
	err = redistest.Retry(func() error {
		f.client.ReloadState(context.Background())
		m, err := f.client.MasterForKey(context.Background(), f.key)
		if err != nil {
			return err
		}
		master = f.servers[m.Options().Addr]
		_, port, _ := net.SplitHostPort(master.Addr)
		for _, s := range f.servers {
			if s == master {
				continue
			}
			c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
			info, err := c.Info(context.Background(), "replication").Result()
			c.Close()
			if err == nil && strings.Contains(info, "master_port:"+port+"\r\n") && strings.Contains(info, "master_link_status:up") {
				replica = s
				return nil
			}
		}
		return errors.New("no server follows the master")
	})
	return master, replica, err
}

// stormOfCluster kills the master that has all counts, which its replica replaces or which
// comes back, and spoils connections.
func stormOfCluster(t testing.TB, rounds int, pause time.Duration) {
	cluster := redistest.NewCluster(t, "--appendonly", "yes", "--appendfsync", "always")
	f := &fleet{servers: map[string]*redistest.Server{}, key: stream("storm:limiting")}
	for _, s := range cluster.Masters {
		f.servers[s.Addr] = s
	}
	for _, r := range cluster.Replicas(t) {
		f.servers[r.Addr] = r.Server
	}
	f.client = newTestClient(t, cluster.Addrs()...).(*redis.ClusterClient)
	var clients []redis.UniversalClient
	all := make([][]*redistest.Proxy, stormNodes)
	for i := range stormNodes {
		proxies := map[string]*redistest.Proxy{}
		for addr := range f.servers {
			proxies[addr] = redistest.NewProxy(t, addr)
			all[i] = append(all[i], proxies[addr])
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, proxies[addr].Addr)
		}})
		t.Cleanup(func() { client.Close() })
		clients = append(clients, client)
	}
	wait := func() { time.Sleep(pause) }
	replace := func() error {
		master, replica, err := f.master()
		if err != nil {
			return err
		}
		master.Kill()
		redistest.Replica{Server: replica}.Promote(t)
		wait()
		return master.Restart()
	}
	back := func() error {
		master, _, err := f.master()
		if err != nil {
			return err
		}
		master.Kill()
		wait()
		return master.Restart()
	}
	node := 0
	each := func(spoil func(*redistest.Proxy)) {
		for _, p := range all[node%stormNodes] {
			spoil(p)
		}
	}
	ways := []func() error{
		func() error {
			node++
			each(func(p *redistest.Proxy) { p.LoseReplies(true) })
			wait()
			each(func(p *redistest.Proxy) { p.LoseReplies(false) })
			return nil
		},
		func() error {
			node++
			each(func(p *redistest.Proxy) { p.Refuse(true) })
			wait()
			each(func(p *redistest.Proxy) { p.Refuse(false) })
			return nil
		},
		func() error { node++; each((*redistest.Proxy).Reset); return nil },
	}
	s := newStorm(t, clients, rounds)
	s.Trouble = append(append([]func() error{replace, back}, ways...), func() error { return slow(slices.Concat(all...)...) })
	judge(t, "cluster", s)
	judgeStrict(t, "cluster, nothing replaced", clients, rounds, append([]func() error{back}, ways...))
}

func TestStormOfCluster(t *testing.T) {
	t.Parallel()
	stormOfCluster(t, 1, 700*time.Millisecond)
}

func BenchmarkStormOfCluster(b *testing.B) {
	for range b.N {
		stormOfCluster(b, 4, 1500*time.Millisecond)
	}
}
