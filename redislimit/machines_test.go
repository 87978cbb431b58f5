package redislimit

import (
	"context"
	"fmt"
	"log/slog"
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

// machine returns a node with a window that does not end while a benchmark runs.
func machine(b testing.TB, client redis.UniversalClient, limit int, opts ...Option) *Synced {
	start := time.Now().Truncate(24 * time.Hour)
	l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: 24 * time.Hour, Keys: 30_000, Seed: 1, Clock: func() time.Time { return start }})
	require.NoError(b, err)
	s, err := NewSynced(client, l, 100*time.Millisecond, append([]Option{Log(slog.New(slog.DiscardHandler))}, opts...)...)
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

// BenchmarkStorm kills Redis with and without its data, pauses it, cuts connections, loses replies and delays them,
// while four nodes ask. An oracle adds up what they admitted: Synced loses nothing and admits no more than its
// Bound, Strict no more than the limit.
func BenchmarkStorm(b *testing.B) {
	const nodes, limit = 4, 1_000_000
	for range b.N {
		server := redistest.New(b, "--appendonly", "yes", "--appendfsync", "always")
		storm := sharingtest.Storm{Limit: limit, Rounds: 2, Patience: 15 * time.Second}
		var proxies []*redistest.Proxy
		var synced []*Synced
		for range nodes {
			proxy := redistest.NewProxy(b, server.Addr)
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
			b.Cleanup(func() { client.Close() })
			s := machine(b, client, 100, Prefix("limiting"))
			synced, proxies = append(synced, s), append(proxies, proxy)
			storm.Limiting = append(storm.Limiting, s)
			storm.Counting = append(storm.Counting, machine(b, client, limit, Prefix("counting")))
		}
		admin := newTestClient(b, server.Addr)
		pause := func() { time.Sleep(1500 * time.Millisecond) }
		storm.Trouble = []func() error{
			func() error { server.Kill(); pause(); return server.Restart() },
			func() error { return admin.FlushAll(context.Background()).Err() },
			func() error {
				err := syscall.Kill(server.PID(), syscall.SIGSTOP)
				pause()
				syscall.Kill(server.PID(), syscall.SIGCONT)
				return err
			},
			func() error { proxies[0].Refuse(true); pause(); proxies[0].Refuse(false); return nil },
			func() error { proxies[1].LoseReplies(true); pause(); proxies[1].LoseReplies(false); return nil },
			func() error { proxies[2].Delay(700 * time.Millisecond); pause(); proxies[2].Delay(0); return nil },
			func() error { proxies[3].Reset(); return nil },
		}
		r, err := storm.Run()
		b.Logf("Synced: %+v, bound %d", r, synced[0].Stats().Bound)
		require.NoError(b, err)
		require.LessOrEqual(b, r.Admitted, int64(synced[0].Stats().Bound))

		// Strict under the same trouble, but for what makes Redis forget.
		strictStorm := sharingtest.Storm{Limit: limit, Rounds: 2, Patience: time.Minute, Trouble: append(storm.Trouble[:1:1], storm.Trouble[2:]...)}
		start := time.Now()
		for _, proxy := range proxies {
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
			b.Cleanup(func() { client.Close() })
			s, err := NewStrict(client, Config{Limit: 100, Window: 24 * time.Hour, Keys: 1_000_000, Seed: 1, Failure: FailClosed,
				Timeout: 300 * time.Millisecond, Log: quiet()})
			require.NoError(b, err)
			strictStorm.Limiting = append(strictStorm.Limiting, at{s, start})
			strictStorm.Counting = append(strictStorm.Counting, machine(b, client, limit, Prefix("beside strict")))
		}
		r, err = strictStorm.Run()
		b.Logf("Strict: %d of one key admitted, the limit is 100", r.Admitted)
		require.NoError(b, err)
		require.LessOrEqual(b, r.Admitted, int64(100))
	}
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
