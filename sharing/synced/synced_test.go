package synced_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

// lines is a log that is kept.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) with(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *lines) log() synced.Option { return synced.Log(slog.New(slog.NewTextHandler(l, nil))) }

// refuse makes all that is appended fail from now on, or nothing.
func refuse(e *sharingtest.Faulty, all bool) {
	e.Set(func(int) sharingtest.Fault {
		if all {
			return sharingtest.Refuse
		}
		return sharingtest.None
	})
}

func TestApply(t *testing.T) {
	o, err := synced.Apply(nil)
	require.NoError(t, err)
	require.Equal(t, "sketchlimit", o.Prefix)
	require.Equal(t, time.Second, o.Timeout)
	require.Equal(t, synced.FailShare, o.Failure)
	for _, c := range []struct {
		option synced.Option
		want   string
	}{
		{nil, "option 1 nil, must be one"},
		{synced.Prefix(""), `Prefix "", must be without braces, and not empty`},
		{synced.Prefix("a{b"), `Prefix "a{b", must be without braces, and not empty`},
		{synced.Timeout(0), "Timeout 0s, must be above 0"},
		{synced.OnFailure(-1), "Failure -1, must be FailShare, FailLocal, FailOpen or FailClosed"},
		{synced.Log(nil), "Log nil, must be a logger"},
		{synced.Nodes(0), "Nodes 0, must be 1 … 1048576"},
		{synced.KeyRate(math.NaN()), "KeyRate NaN, must be above 0"},
		{synced.KeyRate(-1), "KeyRate -1, must be above 0"},
	} {
		_, err := synced.Apply([]synced.Option{synced.Timeout(time.Minute), c.option})
		require.EqualError(t, err, c.want)
	}
}

func TestCheck(t *testing.T) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 100})
	require.NoError(t, err)
	require.NoError(t, synced.Check(l, time.Minute))
	require.EqualError(t, synced.Check(nil, time.Second), "limiter nil, must be one")
	require.EqualError(t, synced.Check(l, 61*time.Second), "interval 1m1s, must be 1ms … the Window, 1m0s")
	require.EqualError(t, synced.Check(l, time.Microsecond), "interval 1µs, must be 1ms … the Window, 1m0s")
}

func TestFailures(t *testing.T) {
	for f, name := range map[synced.Failure]string{synced.FailShare: "share", synced.FailLocal: "local", synced.FailOpen: "open",
		synced.FailClosed: "closed", 9: "Failure(9)"} {
		require.Equal(t, name, f.String())
	}
	require.Equal(t, sketchlimit.Decision{Allowed: true, Limit: 9, Remaining: 5}, synced.FailOpen.Unseen(5, 5, 9))
	require.Equal(t, sketchlimit.Decision{Limit: 9, RetryAfter: sketchlimit.Never}, synced.FailOpen.Unseen(6, 5, 9))
	require.Equal(t, sketchlimit.Decision{Limit: 9, RetryAfter: synced.ProbeEvery}, synced.FailClosed.Unseen(1, 5, 9))
	require.Equal(t, 10, synced.Lower(0, 5, 10))
	require.Equal(t, 0, synced.Lower(4, 5, 10))
	require.Equal(t, 7, synced.Lower(7, 5, 10))
	require.Equal(t, 10, synced.Lower(11, 5, 10))
}

// TestGuard: a server is away after three failures in a row that span a quarter of a
// second, and back at the first success. Limiters that differ are no absence.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		g := synced.NewGuard(slog.New(slog.NewTextHandler(&l, nil)), "the server")
		fail := errors.New("no route")
		steps := []struct {
			err     error
			away    bool
			changes uint64
		}{{fail, false, 0}, {fail, false, 0}, {nil, false, 0}, {fail, false, 0}, {sharing.ErrLayout, false, 0},
			{fail, false, 0}, {fail, false, 0}, {fail, true, 1}, {fail, true, 1}, {sharing.ErrLayout, false, 2}}
		for i, step := range steps {
			time.Sleep(130 * time.Millisecond)
			g.Done(step.err)
			require.Equal(t, step.away, g.State().Away, i)
			require.Equal(t, step.changes, g.State().Changes, i)
		}
		require.Equal(t, sharing.ErrLayout, g.State().Err)
		for range 5 { // at once
			g.Done(fail)
		}
		require.False(t, g.State().Away)
		require.Equal(t, 1, l.with(`msg="the server is away" error="no route"`))
		require.Equal(t, 1, l.with(`msg="the server is back" after=260ms`))
	})
}

// TestWhileAway: what each policy decides while the server is away, and what Bound says
// then and after.
func TestWhileAway(t *testing.T) {
	const limit, window = 10, time.Minute
	for _, c := range []struct {
		failure      synced.Failure
		admits       int // of 20 requests while it is away
		bound, after int
	}{{synced.FailLocal, 10, 40, 40}, {synced.FailOpen, 20, math.MaxInt, math.MaxInt}, {synced.FailClosed, 0, 40, 40}} {
		t.Run(c.failure.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &sharingtest.Faulty{Engine: &sharingtest.Memory{}}
				s := join(t, sharing.NewHub(e), limit, window, synced.OnFailure(c.failure), synced.Nodes(4), synced.KeyRate(5))
				other := join(t, sharing.NewHub(e.Engine), limit, window)
				time.Sleep(3 * time.Second)
				require.Equal(t, 10+3*1, s.Stats().Bound, "5 a second, in two intervals")
				refuse(e, true)
				require.True(t, s.Allow("another"))
				time.Sleep(2 * time.Second)
				require.True(t, s.Stats().Away)
				require.Equal(t, c.bound, s.Stats().Bound)
				n := 0
				for i := range 20 {
					switch i % 3 {
					case 0:
						if s.Allow("k") {
							n++
						}
					case 1:
						if s.Take("k", 1).Allowed {
							n++
						}
					default:
						if s.Do(sketchlimit.Request{Key: "k"}).Allowed {
							n++
						}
					}
				}
				require.Equal(t, c.admits, n)
				require.Equal(t, c.failure == synced.FailOpen, s.Peek("k").Allowed)
				require.Equal(t, c.failure == synced.FailOpen, s.AllowN("k", 10))
				refuse(e, false)
				time.Sleep(2 * time.Second)
				require.False(t, s.Stats().Away)
				require.Equal(t, c.after, s.Stats().Bound, "the others learnt two seconds later")
				if c.failure == synced.FailLocal {
					require.Zero(t, other.Peek("k").Remaining, "what was admitted meanwhile is told")
				}
				time.Sleep(2 * window)
				require.Equal(t, 10+3*1, s.Stats().Bound)
			})
		})
	}
}

// TestBound: what is said to be admitted at most, and who is counted.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &sharingtest.Memory{}
		var l lines
		a := join(t, sharing.NewHub(m), 10, time.Minute, l.log())
		require.Equal(t, 10, a.Stats().Bound)
		require.Equal(t, 1, l.with("level=INFO msg=\"all nodes together admit at most bound units of a key in a window\" name=sketchlimit bound=10 limit=10 nodes=1 interval=100ms"))
		b := join(t, sharing.NewHub(m), 10, time.Minute)
		c := join(t, sharing.NewHub(m), 10, time.Minute)
		time.Sleep(time.Second)
		require.Equal(t, 30, a.Stats().Bound)
		require.Equal(t, 1, l.with("level=WARN msg=\"all nodes together admit at most bound units of a key in a window, more than twice the limit\" name=sketchlimit bound=30"))
		require.NoError(t, b.Close())
		c.Leave()
		time.Sleep(time.Second)
		require.Equal(t, 2, a.Stats().Nodes)
		require.Equal(t, 30, a.Stats().Bound, "what the others admitted counts")
		for range 10 {
			time.Sleep(30 * time.Second)
			a.Allow("k")
		}
		require.Equal(t, 10, a.Stats().Bound)
		require.Equal(t, 1, l.with("WARN"))

		require.Positive(t, a.MemoryBytes())
		require.Equal(t, time.Minute, a.Window())
		require.Zero(t, a.LowestLimit())
		_, err := synced.New(sharing.NewHub(m), mustNew(t, sketchlimit.Config{Limit: 11, Window: time.Minute, Keys: 1000, Seed: 1}), interval,
			"sketchlimit10", apply(t), synced.NewGuard(slog.Default(), ""))
		require.ErrorIs(t, err, sharing.ErrLayout)
		_, err = synced.New(sharing.NewHub(m), mustNew(t, sketchlimit.Config{Limit: 11, Window: time.Minute, Keys: 1000, Algorithm: sketchlimit.TokenBucket}),
			interval, "bucket", apply(t), synced.NewGuard(slog.Default(), ""))
		require.ErrorContains(t, err, "Share with Algorithm bucket")
	})
}

func mustNew(t *testing.T, c sketchlimit.Config) *sketchlimit.Limiter {
	l, err := sketchlimit.New(c)
	require.NoError(t, err)
	return l
}

func apply(t *testing.T) synced.Options {
	o, err := synced.Apply(nil)
	require.NoError(t, err)
	return o
}

// TestCloseTells: the last exchange tells what was admitted since the one before, and a
// server that refuses it is an error.
func TestCloseTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &sharingtest.Faulty{Engine: &sharingtest.Memory{}}
		a, b := join(t, sharing.NewHub(e), 10, time.Minute), join(t, sharing.NewHub(e.Engine), 10, time.Minute)
		require.True(t, a.AllowN("k", 3))
		require.NoError(t, a.Close())
		require.NoError(t, b.Exchange(context.Background()))
		require.Equal(t, 7, b.Peek("k").Remaining)
		require.True(t, a.Allow("k"), "it goes on with what it knows")
		refuse(e, true)
		require.Error(t, a.Close())
	})
}
