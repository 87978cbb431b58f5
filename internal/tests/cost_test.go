package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

// An unset cost is one unit. An explicit cost below 1 is denied for ever, and consumes
// nothing, whatever decides.
func TestCostsBelowOne(t *testing.T) {
	const limit = 10
	type charger interface {
		DoCharge(sketchlimit.Request) int
	}
	type taker interface {
		Do(sketchlimit.Request) sketchlimit.Decision
		Take(key string, n int) sketchlimit.Decision
	}
	window := build(t, sketchlimit.Config{Limit: limit, Window: time.Minute})
	bucket := build(t, sketchlimit.Config{Limit: limit, Window: time.Minute, Algorithm: sketchlimit.TokenBucket})
	log, err := exact.NewSlidingLog(limit, time.Minute)
	require.NoError(t, err)
	fixed, err := exact.NewFixedWindow(limit, time.Minute)
	require.NoError(t, err)
	group, err := sketchlimit.NewGroup(
		build(t, sketchlimit.Config{Limit: limit, Window: time.Minute}),
		build(t, sketchlimit.Config{Limit: 2 * limit, Window: time.Hour}))
	require.NoError(t, err)
	for name, l := range map[string]taker{
		"window": window, "bucket": bucket, "exact log": log, "exact window": fixed, "group": group,
	} {
		at := time.Unix(6000, 0)
		free := func() int { return l.Do(sketchlimit.Request{Key: "k", Time: at, Peek: true}).Remaining }
		require.Equal(t, limit, free(), name)
		for _, n := range []int{0, -1, -limit} {
			d := l.Take("k", n)
			require.False(t, d.Allowed, "%s: %d", name, n)
			require.Equal(t, sketchlimit.Never, d.RetryAfter, "%s: %d", name, n)
		}
		d := l.Do(sketchlimit.Request{Key: "k", N: -1, Time: at})
		require.False(t, d.Allowed, name)
		require.Equal(t, sketchlimit.Never, d.RetryAfter, name)
		require.Equal(t, limit, free(), name)

		if c, ok := l.(charger); ok {
			require.Zero(t, c.DoCharge(sketchlimit.Request{Key: "k", N: -1, Time: at}), name)
			require.Equal(t, limit, free(), name)
			require.Zero(t, c.DoCharge(sketchlimit.Request{Key: "charged", Time: at}), name)
			require.Equal(t, limit-1, l.Do(sketchlimit.Request{Key: "charged", Time: at, Peek: true}).Remaining, name)
		}
		require.True(t, l.Do(sketchlimit.Request{Key: "k", Time: at}).Allowed, name)
		require.Equal(t, limit-1, free(), name)
	}
}
