package sketchlimit_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// The mean cost, for which Stats states its rate, follows costs that change.
func TestStatsFollowCosts(t *testing.T) {
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
			random, now, sent := rand.New(rand.NewPCG(1, 2)), time.Unix(0, 0), 0
			send := func(requests int, cost func() int) {
				for range requests {
					now, sent = now.Add(time.Millisecond/2), sent+1
					l.TakeAt(now, strconv.Itoa(random.IntN(200_000)), cost())
				}
			}
			send(100_000, func() int { return 1 + 8*(random.IntN(4)/3) })
			require.InDelta(t, 3, l.Stats().MeanCost, 0.4)
			send(300_000, func() int { return 5 })
			require.InDelta(t, 5, l.Stats().MeanCost, 0.2)
		})
	}
}
