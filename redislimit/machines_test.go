package redislimit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// machine returns a node with a window that does not end while a benchmark runs.
func machine(b testing.TB, client redis.UniversalClient, limit int, opts ...Option) *Synced {
	start := time.Now().Truncate(24 * time.Hour)
	l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: 24 * time.Hour, Keys: 30_000, Seed: 1, Clock: func() time.Time { return start }})
	require.NoError(b, err)
	s, err := NewSynced(client, l, 100*time.Millisecond, append([]Option{Log(quiet())}, opts...)...)
	require.NoError(b, err)
	b.Cleanup(func() { s.stop(); s.base.Leave(); l.Close() })
	return s
}

// BenchmarkCost counts, by the server's own counters, what nodes with ten limiters each cost it: idle for 10 s, and
// asked 1,000 times a second each.
func BenchmarkCost(b *testing.B) {
	for _, nodes := range []int{4, 16} {
		server := redistest.New(b)
		observer := newTestClient(b, server.Addr)
		var all [][]sharingtest.Limiter
		for range nodes {
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			b.Cleanup(func() { client.Close() })
			var limiters []sharingtest.Limiter
			for i := range 10 {
				limiters = append(limiters, machine(b, client, 100, Prefix(fmt.Sprint("api:", i))))
			}
			all = append(all, limiters)
		}
		time.Sleep(3 * time.Second)
		for _, c := range []struct {
			name string
			rate int
		}{{"idle", 0}, {"busy", 1000}} {
			b.Run(fmt.Sprint(c.name, "/nodes=", nodes), func(b *testing.B) {
				in, out := netBytes(b, observer)
				before, start := commands(b, observer), time.Now()
				sharingtest.Load(all, c.rate, 10_000, 10*time.Second)
				n := float64(commands(b, observer) - before - 1)
				in2, out2 := netBytes(b, observer)
				each := time.Since(start).Seconds() * float64(nodes)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(n/each, "commands/s/node")
				b.ReportMetric((in2-in)/each/1e3, "kB-in/s/node")
				b.ReportMetric((out2-out)/each/1e3, "kB-out/s/node")
			})
		}
	}
}

func netBytes(t testing.TB, client redis.UniversalClient) (in, out float64) {
	info, err := client.Info(context.Background(), "stats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		fmt.Sscanf(line, "total_net_input_bytes:%f", &in)
		fmt.Sscanf(line, "total_net_output_bytes:%f", &out)
	}
	return in, out
}
