package sketchlimit_test

import (
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
	testkit.Unraced(t)
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
