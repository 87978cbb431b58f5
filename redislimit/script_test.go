package redislimit

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestFewGoApart holds many callers back: as many as are few take connections of the pool, all
// others share one. When they are back, a lone caller goes to the pool again.
func TestFewGoApart(t *testing.T) {
	server := redistest.New(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 100, ReadTimeout: patience})
	t.Cleanup(func() { client.Close() })
	s := strict(t, client, hour)
	lone := func() uint32 {
		before := client.PoolStats().Hits + client.PoolStats().Misses
		take(t, s, "lone")
		return client.PoolStats().Hits + client.PoolStats().Misses - before
	}
	take(t, s, "k") // and loads the script
	require.EqualValues(t, 1, lone())
	const callers = 60
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGSTOP))
	defer syscall.Kill(server.PID(), syscall.SIGCONT)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, err := s.Take(t.Context(), "k", 1); err != nil {
				t.Error(err)
			}
		})
	}
	redistest.Eventually(t, "that all wait", func() bool { return s.callers.Load() == callers })
	require.LessOrEqual(t, client.PoolStats().TotalConns, uint32(fewCallers+1))
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGCONT))
	all.Wait()
	require.Zero(t, s.callers.Load())
	require.NoError(t, s.Health().Err)
	require.False(t, take(t, s, "k").Allowed)
	require.EqualValues(t, 1, lone())
}

// TestPoolIsExhausted: where others have taken all connections, a decision waits for the timeout
// and its context's deadline, not for as long as the client would.
func TestPoolIsExhausted(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.New(t).Addr, PoolSize: 1, PoolTimeout: time.Hour})
	t.Cleanup(func() { client.Close() })
	s := strict(t, client, hour)
	take(t, s, "k")
	taken := client.Conn() // has none before it asks for one
	defer taken.Close()
	require.NoError(t, taken.Ping(t.Context()).Err())

	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.Take(short, "k", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, s.Health().Err)

	s.timeout = 20 * time.Millisecond
	d, err := s.Take(t.Context(), "k", 1)
	require.NoError(t, err)
	require.Equal(t, probeEvery, d.RetryAfter)
	require.ErrorIs(t, s.Health().Err, context.DeadlineExceeded)
}

// TestOnlyWhereDeadlinesHold: a cluster's client goes by its own timeouts, and one without any
// would find deadlines left on its connections.
func TestOnlyWhereDeadlinesHold(t *testing.T) {
	for _, client := range []redis.UniversalClient{
		redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}),
		redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: -2}),
		redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", WriteTimeout: -2}),
	} {
		require.Nil(t, punctual(client))
		client.Close()
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	require.NotNil(t, punctual(client))
	require.False(t, client.Options().ContextTimeoutEnabled, "the user's client is as it was")
}

// TestEndingsAreShared: within a sixteenth of the timeout, and never to end later.
func TestEndingsAreShared(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	s := &scripts{timeout: 16 * time.Hour}
	now := time.Now()
	for _, step := range []struct {
		end, want time.Duration // since now
	}{
		{20 * time.Hour, 20 * time.Hour},
		{20*time.Hour + 1, 20 * time.Hour},
		{21 * time.Hour, 20 * time.Hour},
		{21*time.Hour + 1, 21*time.Hour + 1},
		{20*time.Hour + 30*time.Minute, 20*time.Hour + 30*time.Minute}, // the timeout has become less
	} {
		c := s.endingBy(ctx, now.Add(step.end))
		at, ok := c.Deadline()
		require.True(t, ok)
		require.Equal(t, step.want, at.Sub(now))
		require.Equal(t, "value", c.Value(key{}))
		require.NoError(t, c.Err())
	}
	own, cancel := context.WithDeadline(ctx, now.Add(19*time.Hour))
	defer cancel()
	require.Equal(t, own, s.endingBy(own, now.Add(20*time.Hour)))
	over := s.endingBy(ctx, now.Add(-time.Second))
	<-over.Done()
	require.ErrorIs(t, over.Err(), context.DeadlineExceeded)
}
