package sharing_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// troubled is an engine that is slow, and refuses, when it is told to.
type troubled struct {
	sharing.Engine
	slow                  atomic.Int64 // ns, before and after each call
	noAppends, noReadings atomic.Bool
}

var errTrouble = errors.New("trouble")

func (e *troubled) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	time.Sleep(time.Duration(e.slow.Load()))
	defer func() { time.Sleep(time.Duration(e.slow.Load())) }()
	if e.noAppends.Load() {
		results := make([]sharing.Result, len(entries))
		for i := range results {
			results[i].Err = errTrouble
		}
		return results
	}
	return e.Engine.Append(ctx, entries)
}

func (e *troubled) Read(ctx context.Context, from []sharing.Cursor, wait time.Duration) ([]sharing.Record, error) {
	time.Sleep(time.Duration(e.slow.Load()))
	defer func() { time.Sleep(time.Duration(e.slow.Load())) }()
	if e.noReadings.Load() {
		return nil, errTrouble
	}
	return e.Engine.Read(ctx, from, wait)
}

// troubledNode returns a node of the log "delay" with windows of a minute, which
// exchanges every 100 ms through an engine of its own.
func troubledNode(t *testing.T, m *sharingtest.Memory) (*sketchlimit.Limiter, *sharing.Node, *troubled) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 1 << 20, Window: time.Hour, Keys: 1000, Seed: 1})
	require.NoError(t, err)
	share, err := l.Share()
	require.NoError(t, err)
	e := &troubled{Engine: m}
	n, err := sharing.NewHub(e).Join(t.Context(), share, sharing.Config{Log: "delay", Interval: 100 * time.Millisecond,
		Timeout: time.Second, Window: time.Minute, Report: func(error) {}})
	require.NoError(t, err)
	t.Cleanup(func() { n.Leave(); l.Close() })
	return l, n, e
}

// TestDelay: it is two intervals and what the calls take, or as long as trouble has held
// up units, in this window and the next.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &sharingtest.Memory{}
		a, node, engine := troubledNode(t, m)
		b, _, _ := troubledNode(t, m)
		busy := func(d time.Duration) {
			for range d / (10 * time.Millisecond) {
				time.Sleep(10 * time.Millisecond)
				a.Allow("k")
				b.Allow("k")
			}
		}
		is := func(least, most time.Duration, text string) {
			t.Helper()
			d := node.Stats().Delay
			require.GreaterOrEqual(t, d, least, text)
			require.LessOrEqual(t, d, most, text)
		}
		const interval, backOff = 100 * time.Millisecond, 250 * time.Millisecond
		forget := func() {
			time.Sleep(2 * time.Minute)
			busy(time.Second)
			is(interval, 2*interval, "as before")
		}
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, node.Stats().Delay, interval, "nothing was held up")
		busy(time.Second)
		is(interval, 2*interval, "all is well")

		engine.slow.Store(int64(20 * time.Millisecond))
		busy(time.Second)
		is(2*interval, 2*interval+80*time.Millisecond, "slow")
		engine.slow.Store(0)
		forget()

		engine.noAppends.Store(true)
		busy(1500 * time.Millisecond)
		is(1400*time.Millisecond, 1500*time.Millisecond+3*interval, "cannot tell")
		engine.noAppends.Store(false)
		busy(time.Second)
		is(1400*time.Millisecond, 1500*time.Millisecond+3*interval+backOff, "could not tell")
		forget()

		engine.noReadings.Store(true)
		busy(3 * time.Second) // of which a reading that waits may take two
		is(800*time.Millisecond, 3*time.Second+2*interval, "cannot read")
		engine.noReadings.Store(false)
		busy(time.Second)
		is(800*time.Millisecond, 3*time.Second+5*interval+backOff, "could not read")
		forget()

		// The log is lost, and told again when that is noticed.
		before, start := node.Stats().Lost, time.Now()
		require.NoError(t, m.Wipe())
		for node.Stats().Lost == before {
			time.Sleep(10 * time.Millisecond)
		}
		noticed := time.Since(start)
		busy(time.Second)
		is(noticed-10*time.Millisecond, noticed+time.Second+5*interval, "lost: anything since it was last seen whole, in the second before")
		forget()
	})
}

// TestDelayIsTrue: no unit takes longer to be known than the Delays of both nodes say,
// in random trouble.
func TestDelayIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took, said time.Duration
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			m := &sharingtest.Memory{}
			a, tells, ea := troubledNode(t, m)
			b, reads, eb := troubledNode(t, m)
			time.Sleep(3 * time.Second)
			var admitted []time.Time // when each unit was
			longest, known := time.Duration(0), 0
			for step := range 3000 {
				time.Sleep(10 * time.Millisecond)
				if step%100 == 0 {
					calm := step >= 2500
					for _, e := range []*troubled{ea, eb} {
						e.noAppends.Store(!calm && r.IntN(4) == 0)
						e.noReadings.Store(!calm && r.IntN(4) == 0)
						e.slow.Store(int64(time.Millisecond) * r.Int64N(200) * int64(r.IntN(2)))
					}
				}
				if now := time.Now(); step < 2500 && r.IntN(3) == 0 && a.Allow("k") {
					admitted = append(admitted, now)
				}
				for knows := 1<<20 - b.Peek("k").Remaining; known < knows; known++ {
					longest = max(longest, time.Since(admitted[known]))
				}
			}
			require.Equal(t, len(admitted), known)
			require.Greater(t, longest, 200*time.Millisecond)
			delay := tells.Stats().Delay + reads.Stats().Delay
			require.LessOrEqual(t, longest, delay+10*time.Millisecond, "seed %d", seed)
			took, said = took+longest, said+delay
			tells.Leave()
			reads.Leave()
			time.Sleep(5 * time.Second) // until calls have returned
		}
		require.Less(t, said, 3*took, "or it says nothing")
	})
}
