package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// The mean cost, for which Stats states its rate, follows costs that change.
func TestStatsFollowCosts(t *testing.T) {
	testkit.Computes(t)
	for name, c := range map[string]sketchlimit.Config{
		"sliding":   {Limit: 100},
		"low limit": {Limit: 16},
		"wide":      {Limit: 100_000},
		"fixed":     {Limit: 100, Algorithm: sketchlimit.FixedWindow},
		"bucket":    {Limit: 100, Algorithm: sketchlimit.TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			c.Window, c.MemoryBytes, c.Seed = time.Minute, 2<<20, 1
			l := build(t, c)
			require.EqualValues(t, 1, l.Stats().MeanCost)
			random, now := rand.New(rand.NewPCG(1, 2)), time.Unix(0, 0)
			send := func(requests int, cost func() int) {
				var sender sync.WaitGroup
				sender.Go(func() { // costs are kept apart by goroutines, and are to be forgotten for all
					for range requests {
						now = now.Add(time.Millisecond / 2)
						l.TakeAt(now, strconv.Itoa(random.IntN(200_000)), cost())
					}
				})
				sender.Wait()
			}
			send(100_000, func() int { return 1 + 8*(random.IntN(4)/3) })
			require.InDelta(t, 3, l.Stats().MeanCost, 0.4) // four standard deviations: some 1,500 requests are looked at
			send(300_000, func() int { return 5 })
			require.InDelta(t, 5, l.Stats().MeanCost, 0.2)
		})
	}
}

func TestStatsCount(t *testing.T) {
	now := time.Unix(0, 0)
	l := build(t, sketchlimit.Config{Limit: 3, Window: time.Minute, MemoryBytes: 1 << 20, Clock: func() time.Time { return now }})
	require.Equal(t, sketchlimit.Stats{MeanCost: 1, Audit: sketchlimit.Audit{Share: 1}}, l.Stats())
	for i := range 40_000 {
		l.AllowN(fmt.Sprint(i%20_000), 2)
	}
	s := l.Stats()
	require.EqualValues(t, 40_000, s.Admitted)
	require.EqualValues(t, 40_000, s.Denied)
	require.InEpsilon(t, 20_000, s.DistinctKeys, 0.02)
	require.Zero(t, s.PreviousDistinctKeys)
	// Each key marks its first unit in its Bloom filter, and the second one in a cell of
	// each row.
	plan := l.Plan()
	marks := float64(20_000*plan.BloomProbes) / float64(plan.Shards*plan.BloomBytes*8)
	require.InEpsilon(t, 1-math.Exp(-marks), s.BloomFill, 0.05)
	require.InEpsilon(t, 1-math.Exp(-20_000/float64(plan.Shards*plan.Width)), s.SketchFill, 0.02)
	now = now.Add(time.Minute)
	turned := l.Stats()
	require.InEpsilon(t, s.DistinctKeys, turned.PreviousDistinctKeys, 1e-9)
	require.Zero(t, turned.DistinctKeys)
	require.Zero(t, turned.BloomFill)
	require.Zero(t, turned.SketchFill)
	require.Zero(t, turned.Rotations, "no decision has seen the new generation")
	l.Allow("k")
	require.EqualValues(t, 1, l.Stats().Rotations)
	require.InEpsilon(t, s.DistinctKeys, l.Stats().PreviousDistinctKeys, 1e-9)
	now = now.Add(time.Hour)
	require.Zero(t, l.Stats().PreviousDistinctKeys)
	l.Allow("k")
	require.EqualValues(t, 2, l.Stats().Rotations)
}

// Keys that stay heavy from one generation to the next are counted in both.
func TestStatsCountHeavyKeys(t *testing.T) {
	now := time.Unix(0, 0)
	l := build(t, sketchlimit.Config{Limit: 100, Window: time.Minute, MemoryBytes: 1 << 20, Clock: func() time.Time { return now }})
	for range 3 {
		for i := range 10_000 {
			require.True(t, l.AllowN(fmt.Sprint(i), 30))
		}
		require.InEpsilon(t, 10_000, l.Stats().DistinctKeys, 0.03)
		now = now.Add(time.Minute)
	}
	require.InEpsilon(t, 10_000, l.Stats().PreviousDistinctKeys, 0.03)
}
