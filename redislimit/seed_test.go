package redislimit

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestSeedOutlivesRedisData: when Redis has lost all, those who run put the seed there again, so that a node that
// comes has the same.
func TestSeedOutlivesRedisData(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, kind := range []string{"synced", "strict"} {
		seed, err := Seed(t.Context(), client, kind)
		require.NoError(t, err)
		var ask func()
		if kind == "synced" {
			var clock atomic.Int64
			c := testConfig(&clock)
			c.Seed = seed
			s := newTestNode(t, client, c, Prefix(kind))
			ask = func() { exchange(t, s) }
		} else {
			c := hour
			c.Seed, c.Prefix = seed, kind
			s := strict(t, client, c)
			ask = func() { take(t, s, "k") }
		}
		ask()
		require.NoError(t, client.FlushAll(t.Context()).Err())
		redistest.Eventually(t, "the seed", func() bool {
			ask()
			return client.Exists(t.Context(), kind+":seed").Val() == 1
		})
		again, err := Seed(t.Context(), client, kind)
		require.NoError(t, err)
		require.Equal(t, seed, again, kind)
	}
}

// TestStrictAdoptsTheSeed: a node that was faster than those who run has drawn another seed. Together they admit the
// limit, and not each.
func TestStrictAdoptsTheSeed(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	node := func() *Strict {
		c := hour
		c.Limit, c.Prefix = 100, "api"
		var err error
		c.Seed, err = Seed(t.Context(), client, "api")
		require.NoError(t, err)
		return strict(t, client, c)
	}
	a := node()
	a.keeper.next.Store(math.MaxInt64) // it does not look yet
	take(t, a, "k")
	require.NoError(t, client.FlushAll(t.Context()).Err())
	b := node()
	require.NotEqual(t, a.at.Load().seed, b.at.Load().seed)
	a.keeper.next.Store(0)
	redistest.Eventually(t, "that both have one seed", func() bool {
		take(t, a, "other")
		return a.at.Load().seed == b.at.Load().seed
	})
	admitted := 0
	for range 100 {
		for _, s := range []*Strict{a, b} {
			if take(t, s, "k").Allowed {
				admitted++
			}
		}
	}
	require.Equal(t, 100, admitted)
}

// TestSyncedInsistsOnTheSeed: nodes that run cannot take another seed. Whoever has drawn one since is refused, and
// starts again with theirs.
func TestSyncedInsistsOnTheSeed(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	var clock atomic.Int64
	c := testConfig(&clock)
	var err error
	c.Seed, err = Seed(t.Context(), client, "api")
	require.NoError(t, err)
	s := newTestNode(t, client, c, Prefix("api"), Log(quiet()))
	admit(t, s, 7)
	require.NoError(t, client.FlushAll(t.Context()).Err())
	other, err := Seed(t.Context(), client, "api")
	require.NoError(t, err)
	require.NotEqual(t, c.Seed, other)
	settle(t, s)
	again, err := Seed(t.Context(), client, "api")
	require.NoError(t, err)
	require.Equal(t, c.Seed, again)
	require.Equal(t, 7, used(newTestNode(t, client, c, Prefix("api"))))
}

// TestConfiguredSeedsStayOut: a seed that Seed has not drawn is not put to Redis, nor replaced by what is there.
func TestConfiguredSeedsStayOut(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	c := hour
	c.Seed = 7
	s := strict(t, client, c)
	require.Nil(t, s.keeper)
	require.NoError(t, client.Set(t.Context(), "sketchlimit:seed", "8", 0).Err())
	take(t, s, "k")
	require.EqualValues(t, 7, s.at.Load().seed)
}

// TestSeedHasADeadline: from a server that takes the question and does not answer, Seed returns when its context
// ends, or after five seconds.
func TestSeedHasADeadline(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	client := redis.NewClient(&redis.Options{Addr: mute.Addr().String(), ReadTimeout: time.Hour, DialTimeout: time.Hour})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		ended := make(chan error, 1)
		go func() {
			_, err := Seed(ctx, client, "api")
			ended <- err
		}()
		redistest.Eventually(t, "the end", func() bool { return len(ended) > 0 })
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
	}
}
