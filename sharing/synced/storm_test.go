package synced_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

const interval = 100 * time.Millisecond

// join returns a limiter that shares its limit through a hub, and whose windows are
// fixed.
func join(t testing.TB, hub *sharing.Hub, limit int, window time.Duration, options ...synced.Option) *synced.Limiter {
	t.Helper()
	l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: window, Algorithm: sketchlimit.FixedWindow, Keys: 1000, Seed: 1})
	require.NoError(t, err)
	o, err := synced.Apply(append([]synced.Option{synced.Log(slog.New(slog.DiscardHandler))}, options...))
	require.NoError(t, err)
	s, err := synced.New(hub, l, interval, fmt.Sprint(o.Prefix, limit), o, synced.NewGuard(o.Log, "the server"))
	require.NoError(t, err)
	t.Cleanup(func() { s.Leave(); l.Close() })
	return s
}

// paced is a node of a sharingtest.Paced.
type paced struct {
	*synced.Limiter
	bound func() int // nil: what it says
}

func (p paced) Bound() int {
	if p.bound != nil {
		return p.bound()
	}
	return p.Stats().Bound
}

// storm has four nodes with engines in which things go wrong.
func storm(t testing.TB, bound func() int) (s *sharingtest.Storm, engines []*sharingtest.Faulty) {
	const nodes, limit, rate, window = 4, 600, 250, 2 * time.Second
	m := &sharingtest.Memory{}
	s = &sharingtest.Storm{Limit: 1_000_000, Rounds: 2, Patience: time.Minute,
		Paced: &sharingtest.Paced{Limit: limit, Rate: rate, Window: window}}
	for range nodes {
		e := &sharingtest.Faulty{Engine: m}
		engines = append(engines, e)
		hub := sharing.NewHub(e)
		s.Counting = append(s.Counting, join(t, hub, s.Limit, 24*time.Hour))
		s.Limiting = append(s.Limiting, join(t, hub, 100, 24*time.Hour))
		s.Paced.Nodes = append(s.Paced.Nodes, paced{join(t, hub, limit, window, synced.KeyRate(rate)), bound})
	}
	for _, f := range []sharingtest.Fault{sharingtest.Refuse, sharingtest.LoseReply, sharingtest.Repeat, sharingtest.Delay, sharingtest.Forget} {
		s.Trouble = append(s.Trouble, func() error {
			for i, e := range engines {
				e.Set(func(n int) sharingtest.Fault {
					if n%(i+1) == 0 {
						return f
					}
					return sharingtest.None
				})
			}
			time.Sleep(1500 * time.Millisecond)
			for _, e := range engines {
				e.Set(nil)
			}
			time.Sleep(5 * time.Second)
			return nil
		})
	}
	s.Trouble = append(s.Trouble, m.Wipe)
	return s, engines
}

// TestStorm: whatever goes wrong, nothing that was admitted is lost, and no window admits
// more than its Bound.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := storm(t, nil)
		r, err := s.Run()
		t.Logf("%+v", r)
		require.NoError(t, err)
		require.LessOrEqual(t, r.Admitted, int64(400))
		require.GreaterOrEqual(t, r.Admitted, int64(100))
		require.Zero(t, r.Paced.Above)
		require.Greater(t, r.Paced.Windows, 30)
		require.Greater(t, r.Paced.Telling, r.Paced.Windows/2)
	})
}

// TestStormCatches: an engine that loses entries for good, and a bound that is too low.
func TestStormCatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := storm(t, func() int { return 601 })
		r, err := s.Run()
		require.NoError(t, err)
		require.Positive(t, r.Paced.Above)

		s, engines := storm(t, nil)
		s.Paced = nil
		forget := func() error {
			for _, e := range engines {
				e.Set(func(n int) sharingtest.Fault { return sharingtest.Forget })
			}
			return nil
		}
		s.Trouble, s.Rounds = []func() error{forget}, 1
		_, err = s.Run()
		require.ErrorContains(t, err, "a node knows of")
	})
}
