package redislimit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// busy is what a client sends at once.
type busy struct {
	mu                                sync.Mutex
	calls, bytes, arg, reply, replies int
}

func (b *busy) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (b *busy) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b *busy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.mu.Lock()
		bytes := 0
		for _, c := range cmds {
			for _, a := range c.Args() {
				bytes += len(fmt.Sprint(a))
				b.arg = max(b.arg, len(fmt.Sprint(a)))
			}
		}
		b.calls, b.bytes = max(b.calls, len(cmds)), max(b.bytes, bytes)
		b.mu.Unlock()
		err := next(ctx, cmds)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range cmds {
			if c, ok := c.(*redis.Cmd); ok {
				if r, err := parseReply(c.Val()); err == nil {
					b.reply = max(b.reply, len(r.cells))
					b.replies += len(r.cells)
				}
			}
		}
		return err
	}
}

// TestExchangeIsCutIntoPieces: however much there is to tell and to read, what Redis is sent at once is bounded, and
// so what other clients wait for. All arrives, and nothing twice, also after Redis has lost a part of it.
func TestExchangeIsCutIntoPieces(t *testing.T) {
	server := redistest.New(t)
	client := newTestClient(t, server.Addr)
	var most busy
	client.AddHook(&most)
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
	require.Greater(t, most.bytes, batchBytes)
	require.LessOrEqual(t, most.arg, 2*recordBytes+16)
	require.Less(t, most.bytes, batchBytes+batch*400)
	require.LessOrEqual(t, most.calls, batch+1)
	require.Less(t, most.reply, 3*stretchBytes)
	require.Less(t, most.replies, 188_000, "sums are asked for when all is told, and not before")

	require.NoError(t, client.FlushAll(t.Context()).Err())
	spend()
	settle(t, a, b)
	second := used(a)
	require.InDelta(t, 63, second, 3)
	require.Equal(t, second, used(b))
	require.Equal(t, second, used(newTestNode(t, client, c)))
}

// TestStretchesAreSmall: also of limiters for many keys.
func TestStretchesAreSmall(t *testing.T) {
	var clock atomic.Int64
	c := testConfig(&clock)
	c.Keys = 30_000_000
	s := newTestNode(t, newTestClient(t, redistest.New(t).Addr), c)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, channel := range s.current() {
		require.LessOrEqual(t, 8*len(channel.told), 2*stretchBytes)
	}
}

// TestForgetsOnlyWhatRedisHas: records that are on their way are kept, however many they are.
func TestForgetsOnlyWhatRedisHas(t *testing.T) {
	c := &channel{}
	for i := range uint64(200) {
		c.records = append(c.records, record{i + 1, make([]byte, recordBytes)})
	}
	c.acked = 10
	c.forget()
	require.Len(t, c.records, 200)
	c.acked = 200
	c.forget()
	require.LessOrEqual(t, len(c.records), keptCount)
	require.NotEmpty(t, c.records)
	require.EqualValues(t, 200, c.last())
}

// BenchmarkPing tells how long other clients wait while a node tells Redis what a million keys were admitted, and
// another reads it.
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
		b.ReportMetric(slowest(b, client), "slowest-script-ms")
		b.ReportMetric(float64(sum.Microseconds())/1e3/float64(pings), "mean-ms")
	}
}

// slowest returns the longest that a script took, by the server's account: milliseconds, 0 if less than one.
func slowest(b *testing.B, client redis.UniversalClient) (ms float64) {
	log, err := client.(*redis.Client).SlowLogGet(b.Context(), 1000).Result()
	require.NoError(b, err)
	for _, entry := range log {
		if entry.Args[0] == "evalsha" {
			ms = max(ms, float64(entry.Duration.Microseconds())/1e3)
		}
	}
	return ms
}
