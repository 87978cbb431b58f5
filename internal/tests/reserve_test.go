package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// nginx's guide to limit_req: 10 a second and burst=20, which does not count the
// request on its way. Of 22 at once the first goes on, 20 wait for each other, one is
// refused.
func TestReserveNginx(t *testing.T) {
	l := perSecond(t, 10, 21)
	for i := range 21 {
		wait, err := l.Reserve(sketchlimit.Request{Key: "k"})
		require.NoError(t, err, "request %d", i)
		require.Equal(t, time.Duration(i)*100*ms, wait, "request %d", i)
	}
	_, err := l.Reserve(sketchlimit.Request{Key: "k"})
	require.ErrorIs(t, err, sketchlimit.ErrQueueFull)
	two := sketchlimit.Request{Time: time.Unix(0, int64(200*ms)), Key: "k", N: 2, Peek: true}
	for range 3 { // a peek reserves nothing
		wait, err := l.Reserve(two)
		require.NoError(t, err)
		require.Equal(t, 1900*ms, wait)
	}
	two.Peek = false
	wait, err := l.Reserve(two)
	require.NoError(t, err)
	require.Equal(t, 1900*ms, wait)
}

// With few keys Reserve is GCRA's, also among requests that do not queue.
func TestReserveAgreesWithGCRA(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 20, Window: time.Second, Burst: 30, Algorithm: sketchlimit.TokenBucket})
	oracle, err := exact.NewGCRA(20, time.Second, 30)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	now, refused := time.Unix(1_700_000_000, 0), 0
	for i := range 20_000 {
		now = now.Add(time.Duration(r.Int64N(int64(100 * ms))))
		key, n := fmt.Sprint(r.IntN(3)), r.IntN(13)-1
		if n == 0 {
			n = 1
		}
		if r.IntN(3) == 0 {
			require.Equal(t, oracle.TakeAt(now, key, n).Allowed, l.TakeAt(now, key, n).Allowed)
			continue
		}
		want, wantOK := oracle.ReserveAt(now, key, n)
		wait, err := l.Reserve(sketchlimit.Request{Time: now, Key: key, N: n})
		require.Equal(t, wantOK, err == nil, "request %d", i)
		require.Equal(t, want, wait, "request %d", i)
		if !wantOK {
			require.ErrorIs(t, err, sketchlimit.ErrQueueFull)
			refused++
		}
	}
	require.Greater(t, refused, 1000)
}

func TestReserveGoesWithBucketsAlone(t *testing.T) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		l := build(t, sketchlimit.Config{Limit: 10, Window: time.Minute, Algorithm: algorithm})
		_, err := l.Reserve(sketchlimit.Request{Key: "k"})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.Equal(t, 10, l.Peek("k").Remaining)
		require.Zero(t, l.Stats().Denied)
	}
}

func TestReserveAllocatesNothing(t *testing.T) {
	l := perSecond(t, 10, 21)
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.Reserve(sketchlimit.Request{Key: "k"}) }))
}
