package synced_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

// switched is a Guard that is told whether the engine is away.
type switched struct{ away atomic.Bool }

func (s *switched) Done(error) {}

func (s *switched) State() synced.Health { return synced.Health{Away: s.away.Load()} }

// While the engine is away each of four nodes admits a quarter of the limit, what is
// known of the key included: all together no more than the limit.
func TestFailShare_NoMoreThanTheLimit(t *testing.T) {
	for _, c := range []struct{ nodes, share int }{{0, 25}, {8, 12}} {
		var now atomic.Int64
		hub := sharing.NewHub(&sharingtest.Memory{})
		var all []*synced.Limiter
		var guard switched
		for range 4 {
			l, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Hour, Keys: 1000, Seed: 1, LowestLimit: 40,
				Clock: func() time.Time {
					return time.Unix(1_700_000_000, 0).Truncate(time.Hour).Add(time.Duration(now.Load()))
				}})
			require.NoError(t, err)
			options := []synced.Option{synced.Log(slog.New(slog.DiscardHandler))}
			if c.nodes > 0 {
				options = append(options, synced.Nodes(c.nodes))
			}
			o, err := synced.Apply(options)
			require.NoError(t, err)
			s, err := synced.New(hub, l, time.Hour, "share", o, &guard)
			require.NoError(t, err)
			defer s.Leave()
			all = append(all, s)
		}
		exchange := func() {
			for range 2 {
				for _, s := range all {
					require.NoError(t, s.Exchange(t.Context()))
				}
			}
		}
		ask := func(key string, limit int) (admitted int) {
			for _, s := range all {
				for range 50 {
					if s.Do(sketchlimit.Request{Key: key, Limit: limit}).Allowed {
						admitted++
					}
				}
			}
			return admitted
		}
		for range 10 {
			require.True(t, all[0].Allow("k"))
		}
		exchange()
		guard.away.Store(true)
		exchange()
		require.Equal(t, 4*(c.share-10), ask("k", 0))
		require.Equal(t, 4*c.share, ask("unseen", 0))
		require.Equal(t, 4*(40/max(4, c.nodes)), ask("low", 40), "a share of the request's own limit")
		d := all[0].Take("unseen", 1)
		require.False(t, d.Allowed)
		require.Equal(t, 100, d.Limit)
		require.Zero(t, d.Remaining)
		now.Add(int64(d.RetryAfter))
		require.True(t, all[0].Allow("unseen"), "after RetryAfter %v", d.RetryAfter)
		require.Equal(t, synced.ProbeEvery, all[0].Take("k", 60).RetryAfter)
		require.Equal(t, sketchlimit.Never, all[0].Take("k", 101).RetryAfter)
		now.Store(int64(10 * time.Hour))
		require.Equal(t, c.share, all[1].Peek("k").Remaining)
		require.Equal(t, 4*c.share, ask("k", 0))
	}
}

func TestFailure_Names(t *testing.T) {
	require.Equal(t, "share local open closed", fmt.Sprint(synced.FailShare, " ", synced.FailLocal, " ", synced.FailOpen, " ", synced.FailClosed))
	_, err := synced.Apply([]synced.Option{synced.OnFailure(4)})
	require.Error(t, err)
	require.False(t, errors.Is(err, errors.ErrUnsupported))
}
