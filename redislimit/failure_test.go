package redislimit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

var hour = Config{Limit: 5, Window: time.Hour, MemoryBytes: 1 << 20, Failure: FailClosed}

func strict(t *testing.T, client redis.UniversalClient, c Config) *Strict {
	t.Helper()
	if c.Log == nil {
		c.Log = quiet()
	}
	if c.Timeout == 0 {
		c.Timeout = patience
	}
	s, err := NewStrict(client, c)
	require.NoError(t, err)
	return s
}

// patience is the Timeout where Redis is to decide. Machines that run tests may stand still for
// a minute and more.
const patience = 2 * time.Minute

// take takes one unit and requires that Redis has decided.
func take(t *testing.T, s *Strict, key string) sketchlimit.Decision {
	t.Helper()
	d, err := s.Take(t.Context(), key, 1)
	require.NoError(t, err)
	require.NoError(t, s.Health().Err)
	return d
}

// TestScriptsFlushed counts on when the server has forgotten the script, for many callers
// at once too.
func TestScriptsFlushed(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	c := hour
	c.Timeout = patience
	s := strict(t, client, c)
	require.Equal(t, 4, take(t, s, "k").Remaining)
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	require.Equal(t, 3, take(t, s, "k").Remaining)
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			d, err := s.Take(t.Context(), fmt.Sprint("key", i), 1)
			if err != nil || d.Remaining != 4 {
				t.Error(d, err)
			}
		})
	}
	all.Wait()
}

// TestConnectionReset lets the server close all connections again and again while callers
// take units. They notice nothing, and no more than the limit is admitted; less may be,
// because what was counted without an answer is sent again.
func TestConnectionReset(t *testing.T) {
	addr := redistest.New(t).Addr
	client, killer := connect(t, addr), connect(t, addr)
	c := hour
	c.Limit, c.Timeout = 500, patience
	s := strict(t, client, c)
	admitted := make([]int, 10)
	var all sync.WaitGroup
	for i := range admitted {
		all.Go(func() {
			for j := range 100 {
				if i == 0 && j%10 == 0 {
					killer.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes")
				}
				if d, err := s.Take(t.Context(), "k", 1); err != nil {
					t.Error(err)
				} else if d.Allowed {
					admitted[i]++
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range admitted {
		sum += n
	}
	require.LessOrEqual(t, sum, 500)
	require.NotZero(t, sum)
}

// TestServerHangs stops the server's process: who waits comes back with the context's
// error, or with the policy's answer when the timeout is over, which also tells the breaker;
// then nobody waits any more.
func TestServerHangs(t *testing.T) {
	for _, failure := range []Failure{FailLocal, FailOpen, FailClosed} {
		t.Run(failure.String(), func(t *testing.T) {
			server := redistest.New(t)
			var log bytes.Buffer
			c := hour
			c.Failure, c.Timeout, c.Log = failure, patience, slog.New(slog.NewTextHandler(&log, nil))
			s := strict(t, connect(t, server.Addr), c)
			for range 2 {
				take(t, s, "k")
			}
			require.NoError(t, syscall.Kill(server.PID(), syscall.SIGSTOP))
			defer syscall.Kill(server.PID(), syscall.SIGCONT)

			short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			d, err := s.Take(short, "k", 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.False(t, d.Allowed)
			require.NoError(t, s.Health().Err, "a caller's deadline is not the server's fault")

			s.timeout = 20 * time.Millisecond
			admitted := 0
			for range 10 {
				d, err := s.Take(t.Context(), "k", 1)
				require.NoError(t, err)
				if d.Allowed {
					admitted++
				}
			}
			require.Equal(t, map[Failure]int{FailLocal: 3, FailOpen: 10, FailClosed: 0}[failure], admitted)
			require.True(t, s.Health().Away)
			require.Equal(t, 1, strings.Count(log.String(), "Redis is away"))
			d, err = s.Take(t.Context(), "k", 6)
			require.NoError(t, err)
			require.False(t, d.Allowed, "more than the limit")
			require.Equal(t, sketchlimit.Never, d.RetryAfter)
			d, err = s.Peek(t.Context(), "new")
			require.NoError(t, err)
			require.Equal(t, failure != FailClosed, d.Allowed)
		})
	}
}

// TestServerHangsForThoseInAHurry: callers whose own deadlines are short get the policy's answer
// in the end, because together they have waited for the timeout often enough.
func TestServerHangsForThoseInAHurry(t *testing.T) {
	server := redistest.New(t)
	s := strict(t, connect(t, server.Addr), hour)
	take(t, s, "k")
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGSTOP))
	defer syscall.Kill(server.PID(), syscall.SIGCONT)
	s.breakers.of(t.Context(), "", false).timeout = 20 * time.Millisecond
	redistest.Eventually(t, "Away", func() bool {
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		s.Take(short, "k", 1)
		return s.Health().Away
	})
}

// TestServerRestarts kills the server and starts it again: the breaker closes by itself.
func TestServerRestarts(t *testing.T) {
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	c := hour
	c.Timeout = 100 * time.Millisecond
	s := strict(t, connect(t, server.Addr), c)
	until := func(away bool) {
		redistest.Eventually(t, "a change", func() bool {
			_, err := s.Take(t.Context(), "other", 1)
			require.NoError(t, err)
			return s.Health().Away == away
		})
	}
	for range 3 {
		_, err := s.Take(t.Context(), "k", 1)
		require.NoError(t, err)
	}
	before := s.Health().Changes
	server.Kill()
	until(true)
	require.NoError(t, server.Restart())
	until(false)
	require.EqualValues(t, before+2, s.Health().Changes)
	s.timeout = patience
	d, err := s.Take(t.Context(), "k", 1)
	require.NoError(t, err)
	require.Less(t, d.Remaining, 3, "the server's log has kept what was admitted")
}

// TestSlowServer delays all answers by 200 ms: decisions are Redis' if the timeout lets them
// be, and the policy's if not.
func TestSlowServer(t *testing.T) {
	server := redistest.New(t)
	client, pauser := connect(t, server.Addr), connect(t, server.Addr)
	c := hour
	c.Timeout = patience
	s := strict(t, client, c)
	require.Equal(t, 4, take(t, s, "k").Remaining)
	require.NoError(t, pauser.Do(t.Context(), "client", "pause", 200).Err())
	require.Equal(t, 3, take(t, s, "k").Remaining)
	s.timeout = time.Millisecond
	require.NoError(t, pauser.Do(t.Context(), "client", "pause", 200).Err())
	d, err := s.Take(t.Context(), "k", 1)
	require.NoError(t, err)
	require.Equal(t, sketchlimit.Decision{Limit: 5, RetryAfter: probeEvery}, d)
}

// TestCluster spreads shards over all masters, and decides as one server does.
func TestCluster(t *testing.T) {
	cluster := redistest.NewCluster(t)
	client := connect(t, cluster.Addrs()...)
	c := Config{Limit: 10, Window: time.Minute, MemoryBytes: 1 << 20, Failure: FailClosed, Timeout: patience}
	s := strict(t, client, c)
	walk(t, c, time.Microsecond, s, oracle(t, c), 300)
	for i := range 500 {
		take(t, s, fmt.Sprint("spread", i))
	}
	for _, m := range cluster.Masters {
		require.NotZero(t, connect(t, m.Addr).DBSize(t.Context()).Val(), m.Addr)
	}
}

// TestFailLocalIsSizedAsALimiter: whatever the limit, and from the fewest keys on.
func TestFailLocalIsSizedAsALimiter(t *testing.T) {
	client := connect(t, "127.0.0.1:1")
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		for _, limit := range []int{1, 5, 100, 1000} {
			for _, keys := range []int{1, 1_000_000} {
				s := strict(t, client, Config{Limit: limit, Window: time.Hour, Algorithm: a, Keys: keys})
				_, want, err := sketchlimit.Config{Limit: limit, Window: time.Hour, Algorithm: a, Keys: keys}.Size()
				require.NoError(t, err)
				require.InEpsilon(t, want, s.local.MemoryBytes(), 0.02, "%v %d %d", a, limit, keys)
			}
		}
	}
}
