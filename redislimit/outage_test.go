package redislimit

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestErrorRepliesAreNoAbsence: one string of the wrong type, with FailClosed, denies the keys that it has
// and no others.
func TestErrorRepliesAreNoAbsence(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	c := hour
	c.Limit = 1000
	s := strict(t, client, c)
	require.NoError(t, client.RPush(t.Context(), s.at.Load().names[0], "x").Err())
	hot := "hot"
	for i := 0; s.at.Load().place(hot).shard != 0; i++ {
		hot = fmt.Sprint("hot", i)
	}
	denied, others := 0, 0
	for i := range 1000 {
		for range breakAfter {
			d, err := s.Take(t.Context(), hot, 1)
			require.NoError(t, err)
			require.False(t, d.Allowed)
		}
		key := fmt.Sprint("key", i)
		if s.at.Load().place(key).shard == 0 {
			continue
		}
		d, err := s.Take(t.Context(), key, 1)
		require.NoError(t, err)
		others++
		if !d.Allowed {
			denied++
		}
	}
	require.Greater(t, others, 500)
	require.Zero(t, denied)
	require.False(t, s.Health().Away)
	require.Zero(t, s.Health().Changes)
	require.ErrorContains(t, s.Health().Err, "WRONGTYPE")
}

// TestFullMemoryDoesNotFlap: a server that may not write says so, and is not away.
func TestFullMemoryDoesNotFlap(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	s := strict(t, client, hour)
	take(t, s, "k")
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for i := range 300 {
		_, err := s.Take(t.Context(), fmt.Sprint(i), 1)
		require.NoError(t, err)
	}
	require.Zero(t, s.Health().Changes)
	require.ErrorContains(t, s.Health().Err, "OOM")
}

// TestOneMasterOfThree: the keys of the other two masters are decided by them.
func TestOneMasterOfThree(t *testing.T) {
	cluster := redistest.NewCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRedirects: -1, MaxRetries: -1,
		DialerRetries: 1, DialTimeout: 100 * time.Millisecond})
	t.Cleanup(func() { client.Close() })
	for _, master := range cluster.Masters { // or else they all stop when one is gone
		require.NoError(t, connect(t, master.Addr).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	c := hour
	c.Limit, c.Timeout = 1000, 2*time.Second
	s := strict(t, client, c)
	dead := make(map[uint64]bool)
	for shard, name := range s.at.Load().names {
		m, err := client.MasterForKey(t.Context(), name)
		require.NoError(t, err)
		dead[uint64(shard)] = m.Options().Addr == cluster.Masters[0].Addr
	}
	for i := range 200 {
		_, err := s.Take(t.Context(), fmt.Sprint("key", i), 1)
		require.NoError(t, err)
	}
	require.False(t, s.Health().Away, "%v", s.Health())
	cluster.Masters[0].Kill()
	denied, others := 0, 0
	for i := range 2000 {
		key := fmt.Sprint("key", i)
		d, err := s.Take(t.Context(), key, 1)
		require.NoError(t, err)
		if dead[s.at.Load().place(key).shard] {
			continue
		}
		others++
		if !d.Allowed {
			denied++
		}
	}
	require.True(t, s.Health().Away)
	require.Greater(t, others, 1000)
	require.Zero(t, denied)
}

// TestOldConnectionsDoNotFlap: many connections of the pool do not answer any more, as after a firewall has
// forgotten them. What the probe finds to be back does not break at once for those who come after it.
func TestOldConnectionsDoNotFlap(t *testing.T) {
	server := redistest.New(t)
	proxy := redistest.NewProxy(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, PoolSize: 40, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	c := hour
	c.Limit, c.Timeout = 1<<30, 100*time.Millisecond
	s := strict(t, client, c)
	s.timeout = patience
	take(t, s, "k")
	var taken []*redis.Conn
	for range 40 {
		conn := client.Conn()
		require.NoError(t, conn.Ping(t.Context()).Err())
		taken = append(taken, conn)
	}
	for _, conn := range taken {
		require.NoError(t, conn.Close())
	}
	proxy.Forget()
	s.timeout = 100 * time.Millisecond
	var all sync.WaitGroup
	until := time.Now().Add(3 * time.Second)
	for i := range 16 {
		all.Go(func() {
			for n := 0; time.Now().Before(until); n++ {
				s.Take(t.Context(), fmt.Sprint(i, n), 1)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, s.Health().Changes, uint64(2))
}

// TestBrokenConnectionsAreNoAbsence: that a dozen old connections break says nothing of the server; that they go
// on breaking does.
func TestBrokenConnectionsAreNoAbsence(t *testing.T) {
	b := newBreaker(quiet(), time.Second)
	now := time.Unix(1_700_000_000, 0)
	for range 12 {
		now = now.Add(time.Millisecond)
		b.done(now, now, io.EOF)
	}
	require.False(t, b.state().Away)
	now = now.Add(probeEvery)
	b.done(now, now, io.EOF)
	require.True(t, b.state().Away)
}

// TestAnswersMeanwhile: a call that times out while others are answered does not count.
func TestAnswersMeanwhile(t *testing.T) {
	b := newBreaker(quiet(), time.Second)
	start := time.Unix(1_700_000_000, 0)
	b.done(start, start.Add(time.Millisecond), nil)
	for range 2 * breakAfter {
		b.done(start, start.Add(time.Second), errGone)
	}
	require.False(t, b.state().Away)
	for range breakAfter {
		b.done(start.Add(time.Millisecond), start.Add(time.Second), errGone)
	}
	require.True(t, b.state().Away)
}

// TestExactDoesNotWait: while Redis is away, Exact tells so at once.
func TestExactDoesNotWait(t *testing.T) {
	server := redistest.New(t)
	c := hour
	c.Timeout = patience
	e, err := NewExact(connect(t, server.Addr), c)
	require.NoError(t, err)
	_, err = e.Take(t.Context(), "k", 1)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGSTOP))
	defer syscall.Kill(server.PID(), syscall.SIGCONT)
	e.timeout = 10 * time.Millisecond
	for range breakAfter {
		d, err := e.Take(t.Context(), "k", 1)
		require.Error(t, err)
		require.False(t, errors.Is(err, ErrAway))
		require.False(t, d.Allowed)
	}
	_, err = e.Take(t.Context(), "k", 1)
	require.ErrorIs(t, err, ErrAway)
	require.True(t, e.Health().Away)
}

// TestWrongPassword: errors say what Redis said.
func TestWrongPassword(t *testing.T) {
	addr := redistest.New(t).Addr
	require.NoError(t, connect(t, addr).ConfigSet(t.Context(), "requirepass", "secret").Err())
	client := redis.NewClient(&redis.Options{Addr: addr, Password: "wrong"})
	t.Cleanup(func() { client.Close() })
	s := strict(t, client, hour)
	for range 5 {
		d, err := s.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.False(t, d.Allowed)
	}
	require.ErrorContains(t, s.Health().Err, "WRONGPASS")
	require.False(t, s.Health().Away)
	e, err := NewExact(client, hour)
	require.NoError(t, err)
	_, err = e.Take(t.Context(), "k", 1)
	require.ErrorContains(t, err, "WRONGPASS")
	var clock atomic.Int64
	n := newTestNode(t, client, testConfig(&clock), Log(quiet()))
	require.ErrorContains(t, n.Stats().Err, "WRONGPASS")
	require.Equal(t, sketchlimit.Never, n.Take("k", testLimit+1).RetryAfter)
}

// TestFailShareAdmitsShares: three machines are away from Redis, each admits a third of the limit, what it had
// admitted before included, and when Redis is back they admit no more until the window has passed.
func TestFailShareAdmitsShares(t *testing.T) {
	testAway(t, Config{Limit: 100, Window: time.Hour, MemoryBytes: 1 << 20, Machines: 3}, 33)
}

// TestFailLocalAdmitsMachinesTimesTheLimit: three machines are away from Redis, each admits the limit, and when
// Redis is back they admit no more until the window has passed; then the limit, all together.
func TestFailLocalAdmitsMachinesTimesTheLimit(t *testing.T) {
	testAway(t, Config{Limit: 100, Window: time.Hour, MemoryBytes: 1 << 20, Machines: 3, Failure: FailLocal}, 100)
}

// testAway lets three machines of which each may admit a share be away from Redis.
func testAway(t *testing.T, c Config, share int) {
	const machines = 3
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.New(t)
			c := c
			c.Algorithm = a
			var all []*Strict
			for range machines {
				all = append(all, strict(t, connect(t, server.Addr), c))
			}
			now, admitted := time.Unix(1_700_000_000, 0).Truncate(time.Hour), 0
			ask := func(n int) {
				for _, s := range all {
					for range n {
						d, err := s.TakeAt(t.Context(), now, "k", 1)
						require.NoError(t, err)
						if d.Allowed {
							admitted++
						}
					}
				}
			}
			ask(10)
			require.Equal(t, 30, admitted)
			server.Kill()
			ask(70)
			require.Equal(t, machines*min(share, 80), admitted, "%v", a)
			for _, s := range all {
				require.True(t, s.Health().Away)
			}
			require.NoError(t, server.Restart())
			redistest.Eventually(t, "that Redis is back", func() bool {
				for _, s := range all {
					peekAt(t, s, now, "other", 1)
				}
				return !all[0].Health().Away && !all[1].Health().Away && !all[2].Health().Away
			})
			require.Equal(t, max(0, share-80), peekAt(t, all[0], now, "k", 1).Remaining, "%v", a)
			ask(200)
			require.Equal(t, machines*share, admitted, "%v", a)
			require.False(t, peekAt(t, all[0], now, "k", 1).Allowed)
			now, admitted = now.Add(2*time.Hour+time.Second), 0
			ask(200)
			require.Equal(t, 100, admitted, "%v", a)
		})
	}
}

// TestWaysAreHeldApart: while the shared connection is broken, a lone caller goes by the pool as before.
func TestWaysAreHeldApart(t *testing.T) {
	s := strict(t, connect(t, redistest.New(t).Addr), hour)
	later := time.Now().Add(time.Hour)
	for range breakAfter {
		s.breakers.of(t.Context(), "", true).done(later, later, errGone)
	}
	require.True(t, s.Health().Away)
	d, err := s.Take(t.Context(), "k", 1)
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

// TestFailLocalConsentsToLowerLimits: what was admitted without Redis counts against a request's own limit, too.
func TestFailLocalConsentsToLowerLimits(t *testing.T) {
	c := hour
	c.Failure = FailLocal
	s := strict(t, connect(t, redistest.New(t).Addr), c)
	goAway(t, s.scripts)
	d, err := s.Take(t.Context(), "k", 4)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	for _, b := range s.breakers.all {
		b.done(time.Now(), time.Now(), nil)
	}
	require.False(t, s.Health().Away)
	d, err = s.Do(t.Context(), sketchlimit.Request{Key: "k", Limit: 3})
	require.NoError(t, err)
	require.False(t, d.Allowed)
	d, err = s.Do(t.Context(), sketchlimit.Request{Key: "k", Limit: 5})
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Zero(t, d.Remaining)
}

// TestSyncedIsNotAwayWhereItAnswers: a stream of the wrong type, with FailClosed, denies nobody.
func TestSyncedIsNotAwayWhereItAnswers(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	var clock atomic.Int64
	s := newTestNode(t, client, testConfig(&clock), OnFailure(FailClosed), Log(quiet()))
	require.NoError(t, client.Set(t.Context(), stream("sketchlimit"), "no stream", 0).Err())
	for range 2 * breakAfter {
		require.ErrorContains(t, s.exchange(t.Context()), "WRONGTYPE")
	}
	require.False(t, s.Stats().Away)
	require.True(t, s.Allow("k"))
}
