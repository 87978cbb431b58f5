package tests

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// crowd sends twice and four times as many keys as a bucket's limiter bears, a
// hundredth of them abusers at three times their limit. It returns the share of light
// requests that were denied, and what abusers got of their limit, on average and at
// most.
func crowd(t *testing.T, o sketchlimit.Overload, times int) (denied, mean, most float64) {
	const keys, limit, windows = 4000, 20, 6
	c := sketchlimit.Config{Limit: limit, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Keys: keys, Headroom: 1,
		UnitsPerKey: limit / 2, FalseDenialRate: 1e-4, Overload: o, Seed: 1}
	l := build(t, c)
	oracle, err := exact.NewGCRA(limit, time.Minute, limit)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(uint64(times), 2))
	all := times * keys
	abusers := all / 100
	light, wrong, admitted, over := 0, 0, make([]int, abusers), uint64(0)
	now := time.Unix(1_700_000_000, 0)
	requests := all*limit/2 + abusers*3*limit
	for i := range windows * requests {
		now = now.Add(time.Minute / time.Duration(requests))
		key := abusers + r.IntN(all-abusers)
		if r.IntN(requests) < abusers*3*limit {
			key = r.IntN(abusers)
		}
		name, counts := strconv.Itoa(key), i >= windows*requests/2
		free := oracle.PeekAt(now, name, 1)
		d := l.TakeAt(now, name, 1)
		if d.Allowed {
			if !oracle.TakeAt(now, name, 1).Allowed {
				over++
				oracle.Charge(now, name, 1)
			}
		}
		if key < abusers {
			if d.Allowed && counts {
				admitted[key]++
			}
		} else if counts && 2*(limit-free.Remaining) < limit {
			light++
			if !d.Allowed {
				wrong++
			}
		}
	}
	s := l.Stats()
	if o == sketchlimit.Deny {
		require.Zero(t, over)
		require.Zero(t, s.OverCapacity.Units)
	} else {
		require.LessOrEqual(t, over, s.OverCapacity.Units)
		require.True(t, s.OverCapacity.Active)
		require.True(t, s.OutsidePlan)
		require.EqualValues(t, 1, s.OverCapacity.Times)
	}
	for _, n := range admitted {
		part := float64(n) / (windows / 2 * limit)
		mean += part / float64(abusers)
		most = max(most, part)
	}
	return float64(wrong) / float64(light), mean, most
}

// Beyond what a bucket's table bears, Deny denies new keys, and DenyProven lets the
// entries give way that pass first: light keys are served, abusers get hardly more than
// their limit, and what they may get more is counted.
func TestBucketsBeyondThePlan(t *testing.T) {
	testkit.Computes(t)
	for _, times := range []int{2, 4} {
		closed, mean, most := crowd(t, sketchlimit.Deny, times)
		t.Logf("× %d, deny: %.2g of light requests denied; abusers get %.2f of their limit, at most %.2f", times, closed, mean, most)
		require.Greater(t, closed, 0.1)
		require.LessOrEqual(t, most, 1.4) // a full bucket, and what flows
		denied, mean, most := crowd(t, sketchlimit.DenyProven, times)
		t.Logf("× %d, over capacity: %.2g of light requests denied; abusers get %.2f of their limit, at most %.2f", times, denied, mean, most)
		require.LessOrEqual(t, denied, 1e-4)
		require.Less(t, mean, 1.3)
		require.Less(t, most, 3.0)
	}
}

// Within the plan nothing gives way, and an episode ends.
func TestBucketsSpareNothingWithinThePlan(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := build(t, sketchlimit.Config{Limit: 5, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Keys: 100, UnitsPerKey: 5,
		Overload: sketchlimit.DenyProven, Seed: 1, Clock: func() time.Time { return now }})
	for i := range 100 {
		require.True(t, l.AllowN(strconv.Itoa(i), 5))
		require.False(t, l.Allow(strconv.Itoa(i)))
	}
	require.Equal(t, sketchlimit.OverCapacity{}, l.Stats().OverCapacity)
	for i := range 2000 {
		require.True(t, l.Allow("other "+strconv.Itoa(i)))
	}
	s := l.Stats().OverCapacity
	require.True(t, s.Active)
	require.Equal(t, now.Unix(), s.Since.Unix())
	require.Zero(t, s.Exact)
	require.Positive(t, s.Units)
	now = now.Add(time.Minute + 1)
	s = l.Stats().OverCapacity
	require.False(t, s.Active)
	require.WithinDuration(t, time.Unix(1_700_000_120, 0), s.Exact, time.Millisecond)
}
