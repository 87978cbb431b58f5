package redislimit

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// TestEngine holds the engine against what package sharing asks of one.
func TestEngine(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, redistest.New(t).Addr)
	require.NoError(t, sharingtest.Check(sharingtest.Server{
		Open: func() (sharing.Engine, error) { return &engine{client: client}, nil },
		Wipe: func() error {
			time.Sleep(2 * time.Millisecond) // places are of milliseconds
			return client.FlushAll(context.Background()).Err()
		},
	}))
}

// TestEngineInCluster is the same in a cluster, where logs are in different slots.
func TestEngineInCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	require.NoError(t, sharingtest.Check(sharingtest.Server{
		Open: func() (sharing.Engine, error) { return &engine{client: newTestClient(t, cluster.Addrs()...)}, nil },
		Wipe: func() error {
			time.Sleep(2 * time.Millisecond)
			return newTestClient(t, cluster.Addrs()...).(*redis.ClusterClient).ForEachMaster(context.Background(),
				func(ctx context.Context, master *redis.Client) error { return master.FlushAll(ctx).Err() })
		},
	}))
}

// TestExchangeOfMuch: however much there is to tell and to read, all arrives, and
// nothing twice, also after Redis has lost it.
func TestExchangeOfMuch(t *testing.T) {
	server := redistest.New(t)
	client := newTestClient(t, server.Addr)
	var clock atomic.Int64
	c := testConfig(&clock)
	c.Keys, c.UnitsPerKey = 400_000, 5
	a, b := newTestNode(t, client, c), newTestNode(t, client, c)
	spend := func() {
		for i := range 50_000 {
			a.Allow(fmt.Sprint("key", i))
			b.Allow(fmt.Sprint("other", i))
		}
		admit(t, a, 10)
		admit(t, b, 20)
	}
	spend()
	settle(t, a, b)
	first := used(a) // and what shares its cells
	require.InDelta(t, 32, first, 2)
	require.Equal(t, first, used(b))
	require.Equal(t, first, used(newTestNode(t, client, c)))

	require.NoError(t, client.FlushAll(t.Context()).Err())
	spend()
	settle(t, a, b)
	second := used(a)
	require.InDelta(t, 63, second, 3)
	require.Equal(t, second, used(b))
	require.Equal(t, second, used(newTestNode(t, client, c)))
}

// commands returns how many commands the server was given, by its own count; the
// question before is one of them.
func commands(t testing.TB, client redis.UniversalClient) (n int) {
	info, err := client.Info(context.Background(), "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		var calls int
		if name, after, ok := strings.Cut(line, ":calls="); ok && strings.HasPrefix(name, "cmdstat_") {
			fmt.Sscan(after, &calls)
			n += calls
		}
	}
	return n
}

// TestIdleCostsNothing: ten limiters that nobody asks cost Redis two commands a second
// at most.
func TestIdleCostsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	client := newTestClient(t, server.Addr)
	for i := range 10 {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 1000, Seed: 1})
		require.NoError(t, err)
		s, err := NewSynced(client, l, 100*time.Millisecond, Prefix(fmt.Sprint("api:", i)))
		require.NoError(t, err)
		defer s.Close()
	}
	time.Sleep(3 * time.Second)
	observer := newTestClient(t, server.Addr)
	before, start := commands(t, observer), time.Now()
	time.Sleep(10 * time.Second)
	calls := commands(t, observer) - before - 1
	t.Logf("%d commands in %v", calls, time.Since(start))
	require.LessOrEqual(t, float64(calls), 2*time.Since(start).Seconds())
}

// BenchmarkPing measures how long other clients wait while one node sends Redis what a
// million keys were admitted, and another node reads it.
func BenchmarkPing(b *testing.B) {
	server := redistest.New(b)
	var clock atomic.Int64
	c := testConfig(&clock)
	c.Keys = 3_000_000
	for range b.N {
		writer := newTestNode(b, newTestClient(b, server.Addr), c, Timeout(time.Minute), Prefix(fmt.Sprint(b.N)))
		reader := newTestNode(b, newTestClient(b, server.Addr), c, Timeout(time.Minute), Prefix(fmt.Sprint(b.N)))
		for i := range 1_000_000 {
			writer.Allow(fmt.Sprint("key", i))
		}
		client := newTestClient(b, server.Addr)
		require.NoError(b, client.ConfigSet(b.Context(), "slowlog-log-slower-than", "1000").Err())
		done := make(chan struct{})
		var worst, sum time.Duration
		var pings int
		go func() {
			defer close(done)
			start := time.Now()
			require.NoError(b, writer.exchange(context.Background()))
			b.ReportMetric(time.Since(start).Seconds(), "s-to-tell")
			start = time.Now()
			require.NoError(b, reader.exchange(context.Background()))
			b.ReportMetric(time.Since(start).Seconds(), "s-to-read")
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			start := time.Now()
			require.NoError(b, client.Ping(b.Context()).Err())
			took := time.Since(start)
			worst, sum, pings = max(worst, took), sum+took, pings+1
		}
		b.ReportMetric(float64(worst.Microseconds())/1e3, "worst-ms")
		b.ReportMetric(slowest(b, client), "slowest-call-ms")
		b.ReportMetric(float64(sum.Microseconds())/1e3/float64(pings), "mean-ms")
	}
}

// slowest returns the longest that a call took, by the server's account: milliseconds,
// 0 if less than one.
func slowest(b *testing.B, client redis.UniversalClient) (ms float64) {
	log, err := client.(*redis.Client).SlowLogGet(b.Context(), 1000).Result()
	require.NoError(b, err)
	for _, entry := range log {
		if entry.Args[0] == "xadd" || entry.Args[0] == "xread" {
			ms = max(ms, float64(entry.Duration.Microseconds())/1e3)
		}
	}
	return ms
}
