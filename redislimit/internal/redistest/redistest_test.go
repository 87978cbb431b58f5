package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestServerKeepsItsPortAndData kills a server that logs every write, and starts it again.
func TestServerKeepsItsPortAndData(t *testing.T) {
	s := New(t, "--appendonly", "yes", "--appendfsync", "always")
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer c.Close()
	require.NoError(t, c.Set(t.Context(), "k", "v", 0).Err())
	pid := s.PID()
	s.Kill()
	require.Error(t, c.Get(t.Context(), "k").Err())
	require.NoError(t, s.Restart())
	require.NotEqual(t, pid, s.PID())
	got, err := c.Get(t.Context(), "k").Result()
	require.NoError(t, err)
	require.Equal(t, "v", got)
}

// TestClusterServesAllSlots writes one key to each of its masters.
func TestClusterServesAllSlots(t *testing.T) {
	s := NewCluster(t)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addrs()})
	defer c.Close()
	for _, key := range []string{"a", "b", "c"} { // slots 15495, 3300, 7365
		require.NoError(t, c.Set(t.Context(), key, "v", 0).Err())
	}
	for _, m := range s.Masters {
		one := redis.NewClient(&redis.Options{Addr: m.Addr})
		defer one.Close()
		require.EqualValues(t, 1, one.DBSize(t.Context()).Val())
	}
}
