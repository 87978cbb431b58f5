package redistest

import (
	"net"
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

// TestPortTaken: a port that somebody takes before the server does is given up for another one,
// and a server of somebody else's is not mistaken for one's own.
func TestPortTaken(t *testing.T) {
	taken := New(t)
	_, port, err := net.SplitHostPort(taken.Addr)
	require.NoError(t, err)
	asked := 0
	s, err := start(t.TempDir(), nil, func() (string, error) {
		if asked++; asked == 1 {
			return port, nil
		}
		return freePort()
	})
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	require.NotEqual(t, taken.Addr, s.Addr)
	require.Equal(t, 2, asked)
}
