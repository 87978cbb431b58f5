package redislimit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// guarded is a log that may be read while it is written.
type guarded struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *guarded) count(text string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Count(g.b.String(), text)
}

// TestEvictionIsNoticed: at construction, in the log and in Stats; and unknown where Redis does not tell.
func TestEvictionIsNoticed(t *testing.T) {
	server := redistest.New(t)
	client := connect(t, server.Addr)
	var clock atomic.Int64
	for i, step := range []struct {
		prepare []any
		user    string
		want    Eviction
	}{
		{[]any{"ping"}, "", EvictionNone},
		{[]any{"config", "set", "maxmemory", "100mb"}, "", EvictionNone},
		{[]any{"config", "set", "maxmemory-policy", "allkeys-lru"}, "", "allkeys-lru"},
		{[]any{"config", "set", "maxmemory-policy", "volatile-ttl"}, "", "volatile-ttl"},
		{[]any{"config", "set", "maxmemory", "0"}, "", EvictionNone},
		{[]any{"acl", "setuser", "api", "on", "nopass", "~*", "+@all", "-info"}, "api", EvictionUnknown},
	} {
		require.NoError(t, client.Do(t.Context(), step.prepare...).Err())
		by := redis.NewClient(&redis.Options{Addr: server.Addr, Username: step.user, Password: step.user})
		t.Cleanup(func() { by.Close() })
		var log guarded
		c := hour
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		s := strict(t, by, c)
		n := newTestNode(t, by, testConfig(&clock), Log(quiet()))
		redistest.Eventually(t, "what Redis does", func() bool { return s.eviction.latest.Load() != nil && n.eviction.latest.Load() != nil })
		require.Equal(t, step.want, s.eviction.state(), "step %d", i)
		require.Equal(t, step.want, n.Stats().Eviction, "step %d", i)
		stats, err := s.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, step.want, stats.Eviction, "step %d", i)
		evicts := 0
		if step.want != EvictionNone && step.want != EvictionUnknown {
			evicts = 1
		}
		require.Equal(t, evicts, log.count("may evict"), "step %d", i)
	}
	require.Equal(t, EvictionUnknown, evictionOf(t.Context(), connect(t, "127.0.0.1:1")))
}

// TestEvictionInACluster: one master that evicts is enough.
func TestEvictionInACluster(t *testing.T) {
	cluster := redistest.NewCluster(t)
	client := connect(t, cluster.Addrs()...)
	require.Equal(t, EvictionNone, evictionOf(t.Context(), client))
	one := connect(t, cluster.Masters[1].Addr)
	require.NoError(t, one.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	require.NoError(t, one.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	require.Equal(t, Eviction("allkeys-lru"), evictionOf(t.Context(), client))
}
