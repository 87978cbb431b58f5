package redislimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

var _ httplimit.Limiter = (*Synced)(nil)

const testLimit = 1000

var testStart = time.Unix(1_700_000_000, 0).Truncate(time.Hour)

// testConfig is a window that does not end while a test runs, by a clock that stands still.
func testConfig(clock *atomic.Int64) sketchlimit.Config {
	return sketchlimit.Config{Limit: testLimit, Window: time.Hour, Keys: 1000, Seed: 1,
		Clock: func() time.Time { return testStart.Add(time.Duration(clock.Load())) }}
}

// newTestNode returns a node whose interval never ends: the test exchanges.
func newTestNode(t testing.TB, client redis.UniversalClient, c sketchlimit.Config, options ...Option) *Synced {
	t.Helper()
	l, err := sketchlimit.New(c)
	require.NoError(t, err)
	s, err := NewSynced(client, l, c.Window, options...)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.stop()
		s.base.Leave()
		l.Close()
	})
	return s
}

// exchange is what happens at every interval, and once a second.
func (s *Synced) exchange(ctx context.Context) error {
	err := s.base.Exchange(ctx)
	if err == nil && s.keeper != nil {
		s.keepSeed(ctx)
	}
	return err
}

func newTestClient(t testing.TB, addrs ...string) redis.UniversalClient {
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, IsClusterMode: len(addrs) > 1,
		MaxRetries: -1, DialerRetries: 1, DialTimeout: patience, ReadTimeout: patience, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// admit takes n units of "k", one by one.
func admit(t testing.TB, s *Synced, n int) {
	t.Helper()
	for range n {
		require.True(t, s.Allow("k"))
	}
}

func exchange(t testing.TB, nodes ...*Synced) {
	t.Helper()
	for _, s := range nodes {
		require.NoError(t, s.exchange(context.Background()))
	}
}

// used returns how many units of "k" a node knows of.
func used(s *Synced) int { return testLimit - s.Peek("k").Remaining }

// settle exchanges until all nodes have told and learned everything.
func settle(t testing.TB, nodes ...*Synced) {
	t.Helper()
	for range 4 {
		exchange(t, nodes...)
	}
}

// Nodes come and go, and restart: every unit counts once.
func TestSyncedCountsAsOne(t *testing.T) {
	server := redistest.New(t)
	var clock atomic.Int64
	config := testConfig(&clock)
	node := func() *Synced { return newTestNode(t, newTestClient(t, server.Addr), config) }
	a, b := node(), node()
	admit(t, a, 30)
	admit(t, b, 20)
	exchange(t, a, b, a)
	require.Equal(t, []int{50, 50}, []int{used(a), used(b)})
	for range 3 {
		exchange(t, a, b)
	}
	require.Equal(t, []int{50, 50}, []int{used(a), used(b)})

	admit(t, a, 5)
	require.NoError(t, a.Close())
	require.Zero(t, a.Stats().Failures)
	a = node() // restarted: it knows at once what it was
	require.Equal(t, 55, used(a))
	admit(t, a, 5)
	c := node()
	require.Equal(t, 55, used(c))
	exchange(t, a, b, c)
	require.Equal(t, []int{60, 60, 60}, []int{used(a), used(b), used(c)})

	// In the next window what was admitted weighs less, and two windows later nothing.
	admit(t, c, 40)
	clock.Store(int64(90 * time.Minute))
	exchange(t, c, a, b)
	for _, s := range []*Synced{a, b, c} {
		require.Equal(t, 50, used(s))
	}
	d := node()
	require.Equal(t, 50, used(d), "a new node reads the window before, too")
	clock.Store(int64(2 * time.Hour))
	require.Equal(t, 0, used(a))

	stats := b.Stats()
	require.False(t, stats.Away)
	require.Zero(t, stats.Failures+stats.Lost)
	require.NotZero(t, stats.SentBytes)
	require.Less(t, max(stats.ClockSkew, -stats.ClockSkew), time.Minute)
}

// Two nodes that exchange after every request never admit what the exact algorithm would
// not, whichever of them a request comes to; and if they miss one another's, they do.
func TestSyncedNeverOverAdmits(t *testing.T) {
	const limit, window = 20, time.Minute
	server := redistest.New(t)
	for _, c := range []struct {
		config   sketchlimit.Config
		oracle   func() (exact.Limiter, error)
		exchange bool
	}{
		{sketchlimit.Config{}, func() (exact.Limiter, error) { return exact.NewSlidingWindow(limit, window) }, true},
		{sketchlimit.Config{Algorithm: sketchlimit.FixedWindow}, func() (exact.Limiter, error) { return exact.NewFixedWindow(limit, window) }, true},
		{sketchlimit.Config{SubWindows: 3}, func() (exact.Limiter, error) { return exact.NewSlots(limit, window, 3) }, true},
		{sketchlimit.Config{}, func() (exact.Limiter, error) { return exact.NewSlidingWindow(limit, window) }, false},
	} {
		var clock atomic.Int64
		now := func() time.Time { return testStart.Add(time.Duration(clock.Load())) }
		c.config.Limit, c.config.Window, c.config.Keys, c.config.Seed, c.config.Clock = limit, window, 200, 1, now
		prefix := Prefix(fmt.Sprint(c.config.Algorithm, c.config.SubWindows, c.exchange))
		client := newTestClient(t, server.Addr)
		nodes := []*Synced{newTestNode(t, client, c.config, prefix), newTestNode(t, client, c.config, prefix)}
		oracle, err := c.oracle()
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(5, 6))
		admitted, over := 0, 0
		for range 500 {
			clock.Add(r.Int64N(int64(time.Second)))
			key, n := fmt.Sprint(r.IntN(5)), 1+r.IntN(2)
			would := oracle.PeekAt(now(), key, n).Allowed
			if nodes[r.IntN(2)].AllowN(key, n) {
				oracle.Charge(now(), key, n)
				admitted++
				if !would {
					over++
				}
			}
			if c.exchange {
				exchange(t, nodes...)
				exchange(t, nodes[0])
			}
		}
		require.Greater(t, admitted, 100)
		require.Equal(t, c.exchange, over == 0, "%+v: %d over-admissions", c.config, over)
	}
}

// Clocks half a window apart: what is admitted in a window, as each node numbers them, is
// at most the limit where nodes tell each other at once.
func TestSyncedClocksApart(t *testing.T) {
	const limit, window = 20, time.Minute
	server := redistest.New(t)
	client := newTestClient(t, server.Addr)
	var clock atomic.Int64
	var nodes []*Synced
	ahead := []time.Duration{0, window / 2}
	for _, d := range ahead {
		c := sketchlimit.Config{Limit: limit, Window: window, Keys: 200, Seed: 1, Algorithm: sketchlimit.FixedWindow,
			Clock: func() time.Time { return testStart.Add(d + time.Duration(clock.Load())) }}
		nodes = append(nodes, newTestNode(t, client, c))
	}
	admitted := map[int64]int{}
	r := rand.New(rand.NewPCG(7, 8))
	for range 600 {
		clock.Add(r.Int64N(int64(time.Second)))
		i := r.IntN(2)
		exchange(t, nodes[i]) // of a window that this one has just begun
		if nodes[i].Allow("k") {
			admitted[int64(ahead[i]+time.Duration(clock.Load()))/int64(window)]++
		}
		exchange(t, nodes[i], nodes[1-i])
	}
	require.Greater(t, len(admitted), 4)
	for generation, n := range admitted {
		require.LessOrEqual(t, n, limit, "window %d", generation)
	}
}

// Nodes exchange by themselves until they are closed, and then once more.
func TestSyncedRuns(t *testing.T) {
	server := redistest.New(t)
	var clock atomic.Int64
	var nodes []*Synced
	for range 2 {
		l, err := sketchlimit.New(testConfig(&clock))
		require.NoError(t, err)
		s, err := NewSynced(newTestClient(t, server.Addr), l, time.Millisecond)
		require.NoError(t, err)
		nodes = append(nodes, s)
	}
	admit(t, nodes[0], 7)
	redistest.Eventually(t, "what the first node was admitted", func() bool { return used(nodes[1]) >= 7 })
	require.NoError(t, nodes[1].Close())
	admit(t, nodes[1], 5)
	require.NoError(t, nodes[1].Close(), "once more, and it tells")
	redistest.Eventually(t, "what the second node was admitted", func() bool { return used(nodes[0]) >= 12 })
	require.NoError(t, nodes[0].Close())
	require.Equal(t, []int{12, 12}, []int{used(nodes[0]), used(nodes[1])})
}

// The last exchange tells all, also after one that failed, and where Redis has lost what it knew.
func TestSyncedCloseTellsAll(t *testing.T) {
	server := redistest.New(t)
	proxy := redistest.NewProxy(t, server.Addr)
	for i, c := range []struct {
		name         string
		fail, repair func()
	}{
		{"a reply was lost", func() { proxy.LoseReplies(true) }, func() { proxy.LoseReplies(false) }},
		{"no request came", func() { proxy.Refuse(true) }, func() { proxy.Refuse(false) }},
		{"all was lost", server.Kill, func() { require.NoError(t, server.Restart()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var clock atomic.Int64
			s := newTestNode(t, newTestClient(t, proxy.Addr), testConfig(&clock), Prefix(fmt.Sprint(i)))
			admit(t, s, 7)
			exchange(t, s)
			admit(t, s, 3)
			c.fail()
			require.Error(t, s.exchange(context.Background()))
			c.repair()
			admit(t, s, 5)
			require.NoError(t, s.Close())
			require.Equal(t, 15, used(newTestNode(t, newTestClient(t, server.Addr), testConfig(&clock), Prefix(fmt.Sprint(i)))))
		})
	}
}

// The stream expires two windows after the last record, and its length is bounded.
func TestSyncedStreamIsBounded(t *testing.T) {
	server := redistest.New(t)
	var clock atomic.Int64
	a, b := newTestNode(t, newTestClient(t, server.Addr), testConfig(&clock)), newTestNode(t, newTestClient(t, server.Addr), testConfig(&clock))
	admit(t, b, 3)
	exchange(t, b)
	for i := range 300 {
		admit(t, a, 1)
		for j := range 400 {
			a.Allow(fmt.Sprint(i, j))
		}
		exchange(t, a)
	}
	client := newTestClient(t, server.Addr)
	keys, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Equal(t, []string{"{sketchlimit}:log"}, keys)
	ttl := client.PTTL(t.Context(), keys[0]).Val()
	require.Greater(t, ttl, time.Hour)
	require.LessOrEqual(t, ttl, 2*time.Hour)
	size, err := client.MemoryUsage(t.Context(), keys[0]).Result()
	require.NoError(t, err)
	require.Less(t, size, int64(200<<10))
	exchange(t, b)
	require.GreaterOrEqual(t, used(b), 303)
	require.Equal(t, used(newTestNode(t, newTestClient(t, server.Addr), testConfig(&clock))), used(b))
}

// What a node knows may be wrong in no other way than too much.
func TestSyncedFailures(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		// fail makes exchanges fail, or not, and recover ends that.
		fail, recover func(t *testing.T, server *redistest.Server, proxy *redistest.Proxy)
		fails         bool
		lost          bool
	}{
		{
			name:    "killed with all its data",
			fail:    func(t *testing.T, server *redistest.Server, _ *redistest.Proxy) { server.Kill() },
			recover: func(t *testing.T, server *redistest.Server, _ *redistest.Proxy) { require.NoError(t, server.Restart()) },
			fails:   true, lost: true,
		},
		{
			name:    "killed",
			args:    []string{"--appendonly", "yes", "--appendfsync", "always"},
			fail:    func(t *testing.T, server *redistest.Server, _ *redistest.Proxy) { server.Kill() },
			recover: func(t *testing.T, server *redistest.Server, _ *redistest.Proxy) { require.NoError(t, server.Restart()) },
			fails:   true,
		},
		{
			name: "scripts flushed",
			fail: func(t *testing.T, server *redistest.Server, _ *redistest.Proxy) {
				require.NoError(t, newTestClient(t, server.Addr).ScriptFlush(t.Context()).Err())
			},
		},
		{
			name: "connections reset between exchanges",
			fail: func(t *testing.T, _ *redistest.Server, proxy *redistest.Proxy) { proxy.Reset() },
		},
		{
			name:    "connections reset instead of replies",
			fail:    func(t *testing.T, _ *redistest.Server, proxy *redistest.Proxy) { proxy.LoseReplies(true) },
			recover: func(t *testing.T, _ *redistest.Server, proxy *redistest.Proxy) { proxy.LoseReplies(false) },
			fails:   true,
		},
		{
			name:    "200 ms late",
			fail:    func(t *testing.T, _ *redistest.Server, proxy *redistest.Proxy) { proxy.Delay(200 * time.Millisecond) },
			recover: func(t *testing.T, _ *redistest.Server, proxy *redistest.Proxy) { proxy.Delay(0) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.New(t, c.args...)
			proxy := redistest.NewProxy(t, server.Addr)
			var clock atomic.Int64
			a := newTestNode(t, newTestClient(t, proxy.Addr), testConfig(&clock))
			b := newTestNode(t, newTestClient(t, proxy.Addr), testConfig(&clock))
			admit(t, a, 10)
			admit(t, b, 20)
			settle(t, a, b)
			admit(t, a, 3)
			admit(t, b, 4)
			c.fail(t, server, proxy)
			for _, s := range []*Synced{a, b} {
				err := s.exchange(context.Background())
				if c.fails {
					require.Error(t, err)
				}
			}
			admit(t, a, 5)
			admit(t, b, 6)
			require.GreaterOrEqual(t, used(a), 38, "what is known of the others is not forgotten")
			if c.recover != nil {
				c.recover(t, server, proxy)
			}
			settle(t, a, b)
			require.Equal(t, []int{48, 48}, []int{used(a), used(b)})
			require.Equal(t, c.lost, a.Stats().Lost > 0)
			late := newTestNode(t, newTestClient(t, proxy.Addr), testConfig(&clock))
			require.Equal(t, 48, used(late))
		})
	}
}

// Redis has lost everything, and the nodes notice one after another: none forgets what it knew
// of those who have not told it again yet, and nothing counts twice when they have. What
// is left behind there expires, also where no node comes any more.
func TestSyncedForgetsNothingThatRedisLost(t *testing.T) {
	server := redistest.New(t)
	client := newTestClient(t, server.Addr)
	var clock atomic.Int64
	a, b := newTestNode(t, client, testConfig(&clock)), newTestNode(t, client, testConfig(&clock))
	admit(t, a, 10)
	admit(t, b, 20)
	settle(t, a, b)
	require.Equal(t, 30, used(a))
	server.Kill()
	admit(t, b, 2)
	require.NoError(t, server.Restart())
	exchange(t, a)
	logs, err := client.Keys(t.Context(), "*:log").Result()
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, name := range logs {
		require.Positive(t, client.PTTL(t.Context(), name).Val())
	}
	for range 5 {
		exchange(t, a)
		require.Equal(t, 30, used(a))
	}
	settle(t, b, a)
	require.Equal(t, []int{32, 32}, []int{used(a), used(b)})
	admit(t, b, 6)
	exchange(t, b, a)
	require.Equal(t, []int{38, 38}, []int{used(a), used(b)})
	require.Equal(t, 38, used(newTestNode(t, client, testConfig(&clock))))
}

// A server that comes back as it was a while ago is told what it has forgotten, and that alone.
func TestSyncedServerFromYesterday(t *testing.T) {
	server := redistest.New(t)
	client := newTestClient(t, server.Addr)
	var clock atomic.Int64
	a, b := newTestNode(t, client, testConfig(&clock)), newTestNode(t, client, testConfig(&clock))
	admit(t, a, 10)
	admit(t, b, 20)
	settle(t, a, b)
	require.NoError(t, client.Save(t.Context()).Err())
	for range 3 {
		admit(t, a, 1)
		admit(t, b, 2)
		exchange(t, a, b)
	}
	server.Kill()
	admit(t, a, 5)
	require.NoError(t, server.Restart())
	settle(t, a, b)
	require.Equal(t, []int{44, 44}, []int{used(a), used(b)})
	require.Equal(t, 44, used(newTestNode(t, client, testConfig(&clock))), "nothing twice")
}

func TestSyncedClusterFailover(t *testing.T) {
	cluster := redistest.NewCluster(t)
	replicas := cluster.Replicas(t)
	var clock atomic.Int64
	config := testConfig(&clock)
	config.Keys, config.Limit = 100_000, testLimit // many parts, on all masters
	client := newTestClient(t, cluster.Addrs()...)
	a, b := newTestNode(t, client, config), newTestNode(t, client, config)
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	all := func(s *Synced, n int) {
		for _, key := range keys {
			require.True(t, s.AllowN(key, n))
		}
	}
	all(a, 10)
	all(b, 20)
	settle(t, a, b)
	all(a, 3)
	exchange(t, a)
	cluster.Masters[0].Kill()
	all(b, 4)
	b.exchange(context.Background()) // fails in part
	replicas[0].Promote(t)
	deadline := time.Now().Add(time.Minute)
	for {
		err := errors.Join(a.exchange(context.Background()), b.exchange(context.Background()))
		if err == nil {
			break
		}
		require.True(t, time.Now().Before(deadline), "%v", err)
		time.Sleep(20 * time.Millisecond)
	}
	settle(t, a, b)
	for _, key := range keys {
		for _, s := range []*Synced{a, b} {
			require.Equal(t, testLimit-37, s.Peek(key).Remaining, key)
		}
	}
}

// While Redis is away no decision waits, and each is as the policy says.
func TestSyncedPolicies(t *testing.T) {
	server := redistest.New(t)
	proxy := redistest.NewProxy(t, server.Addr)
	for _, policy := range []Failure{FailLocal, FailOpen, FailClosed} {
		t.Run(policy.String(), func(t *testing.T) {
			var log bytes.Buffer
			var clock atomic.Int64
			c := testConfig(&clock)
			c.LowestLimit = testLimit / 2
			s := newTestNode(t, newTestClient(t, proxy.Addr), c, OnFailure(policy), Prefix(policy.String()),
				Timeout(10*time.Second), Log(slog.New(slog.NewTextHandler(&log, nil))))
			admit(t, s, testLimit-1)
			proxy.Refuse(true)
			redistest.Eventually(t, "Away", func() bool {
				require.Error(t, s.exchange(t.Context()))
				return s.Stats().Away
			})
			require.Error(t, s.Stats().Err)
			d := s.Take("k", 2)
			require.Equal(t, policy == FailOpen, d.Allowed)
			require.Equal(t, testLimit, d.Limit)
			require.Equal(t, policy != FailClosed, s.AllowN("k", 1))
			require.Equal(t, policy != FailClosed, s.Do(sketchlimit.Request{Bytes: []byte("other")}).Allowed)
			require.Equal(t, policy != FailClosed, s.Do(sketchlimit.Request{Addr: netip.MustParseAddr("10.0.0.1")}).Allowed)
			require.Equal(t, policy == FailOpen, s.Peek("k").Allowed)
			require.Equal(t, sketchlimit.Never, s.Take("k", testLimit+1).RetryAfter)
			for _, n := range []int{0, -1} { // 0 is 1 in a Request alone
				require.False(t, s.AllowN("new", n))
				d := s.Take("new", n)
				require.Equal(t, denied(testLimit, d), d)
			}
			d = s.Do(sketchlimit.Request{Key: "new", N: -1})
			require.Equal(t, denied(testLimit, d), d)
			for _, limit := range []int{-1, 1, testLimit/2 - 1} {
				d := s.Do(sketchlimit.Request{Key: "new", Limit: limit})
				require.Equal(t, denied(0, d), d)
			}
			d = s.Do(sketchlimit.Request{Key: "new", N: testLimit/2 + 1, Limit: testLimit / 2, Peek: true})
			require.Equal(t, denied(testLimit/2, d), d)
			d = s.Do(sketchlimit.Request{Key: "new", Limit: testLimit / 2, Peek: true})
			require.Equal(t, policy != FailClosed, d.Allowed)
			require.Equal(t, testLimit/2, d.Limit)
			require.Equal(t, testLimit, s.Do(sketchlimit.Request{Key: "new", Limit: testLimit + 1, Peek: true}).Limit)
			if policy == FailClosed {
				require.Equal(t, probeEvery, d.RetryAfter)
			}
			proxy.Refuse(false)
			require.NoError(t, s.exchange(t.Context()))
			require.False(t, s.Stats().Away)
			require.EqualValues(t, 2, s.Stats().Changes)
			require.Equal(t, policy != FailLocal, s.Allow("k"), "what was let through meanwhile is not counted")
			require.Equal(t, 3, strings.Count(log.String(), "\n"), log.String())
			require.Contains(t, log.String(), "bound=1000 limit=1000 nodes=1 interval=1h0m0s")
		})
	}
}

// A Redis that takes a call and does not answer is found out by the timeout, whatever the
// client's own timeouts are; what it answers later still counts.
func TestSyncedTimeout(t *testing.T) {
	server := redistest.New(t)
	proxy := redistest.NewProxy(t, server.Addr)
	var clock atomic.Int64
	patient := redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, DialTimeout: time.Hour, ReadTimeout: time.Hour})
	t.Cleanup(func() { patient.Close() })
	s := newTestNode(t, patient, testConfig(&clock), Timeout(100*time.Millisecond), OnFailure(FailClosed),
		Log(slog.New(slog.DiscardHandler)))
	redistest.Eventually(t, "an answer", func() bool { return s.exchange(t.Context()) == nil && !s.Stats().Away })
	changes := s.Stats().Changes
	proxy.Delay(24 * time.Hour)
	admit(t, s, 7)
	done := make(chan error)
	go func() { done <- s.exchange(t.Context()) }()
	redistest.Eventually(t, "Away", func() bool { return s.Stats().Away })
	require.False(t, s.Allow("k"))
	proxy.Delay(0)
	require.NoError(t, <-done)
	require.True(t, s.Allow("k"))
	require.EqualValues(t, changes+2, s.Stats().Changes)
}

// A Redis that takes the first call and does not answer keeps nobody from starting.
func TestSyncedStartsWithoutAnAnswer(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.New(t).Addr)
	proxy.Delay(24 * time.Hour)
	patient := redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, DialTimeout: time.Hour, ReadTimeout: time.Hour})
	t.Cleanup(func() { patient.Close() })
	var clock atomic.Int64
	l, err := sketchlimit.New(testConfig(&clock))
	require.NoError(t, err)
	started := make(chan *Synced, 1)
	go func() {
		s, err := NewSynced(patient, l, time.Hour, Timeout(20*time.Millisecond), Log(quiet()))
		if err != nil {
			t.Error(err)
		}
		started <- s
	}()
	redistest.Eventually(t, "the start", func() bool { return len(started) > 0 })
	s := <-started
	admit(t, s, 7)
	require.Error(t, s.Stats().Err)
	proxy.Delay(0)
	require.NoError(t, s.Close())
	require.Zero(t, s.Stats().Lost)
}

func TestSyncedRefuses(t *testing.T) {
	server := redistest.New(t)
	client := newTestClient(t, server.Addr)
	var clock atomic.Int64
	c := testConfig(&clock)
	newTestNode(t, client, c)
	other := c
	other.Seed = 2
	bucket := c
	bucket.Algorithm = sketchlimit.TokenBucket
	for _, bad := range []struct {
		config   sketchlimit.Config
		interval time.Duration
		options  []Option
		want     string
	}{
		{other, time.Second, nil, "the nodes' limiters differ"},
		{bucket, time.Second, nil, "Share with Algorithm bucket, must be a window"},
		{c, 0, nil, "interval 0s, must be 1ms … the Window, 1h0m0s"},
		{c, 2 * time.Hour, nil, "interval 2h0m0s, must be"},
		{c, time.Second, []Option{Prefix("{a}")}, `Prefix "{a}", must be without braces`},
		{c, time.Second, []Option{Timeout(0)}, "Timeout 0s, must be above 0"},
		{c, time.Second, []Option{OnFailure(4)}, "Failure 4, must be FailShare, FailLocal, FailOpen or FailClosed"},
		{c, time.Second, []Option{Log(nil)}, "Log nil, must be a logger"},
	} {
		l, err := sketchlimit.New(bad.config)
		require.NoError(t, err)
		_, err = NewSynced(client, l, bad.interval, bad.options...)
		require.ErrorContains(t, err, bad.want)
	}
	_, err := NewSynced(nil, nil, time.Second)
	require.ErrorContains(t, err, "client nil")
	_, err = NewSynced(client, nil, time.Second)
	require.ErrorContains(t, err, "limiter nil")
}

func TestSeedIsTheSameForAll(t *testing.T) {
	server := redistest.New(t)
	client := newTestClient(t, server.Addr)
	first, err := Seed(t.Context(), client, "a")
	require.NoError(t, err)
	require.NotZero(t, first)
	second, err := Seed(t.Context(), client, "a")
	require.NoError(t, err)
	require.Equal(t, first, second)
	other, err := Seed(t.Context(), client, "b")
	require.NoError(t, err)
	require.NotEqual(t, first, other)
	require.NoError(t, client.Set(t.Context(), "c:seed", "hello", 0).Err())
	_, err = Seed(t.Context(), client, "c")
	require.ErrorContains(t, err, `seed "hello" at c:seed`)
}
