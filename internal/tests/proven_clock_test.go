package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Beyond the plan a key gets at most ten times its limit, on average 1.3 times where
// half as many keys are above it as the table has entries, and three times where as
// many are. That is so however coarse the clock is; at last it stands still for a
// window. Light keys are not denied.
func TestSpareByCoarseClocks(t *testing.T) {
	testkit.Computes(t)
	const limit, light, cost, perWindow, window = 100, 60_000, 8, 5, 10 * time.Second
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		for share, asked := range map[float64]int{0: 60, 0.5: 15, 1: 15} { // abusers an entry; times the limit that each asks for
			for _, step := range []time.Duration{time.Millisecond, time.Second, window} {
				t.Run(fmt.Sprint(algorithm, share, step), func(t *testing.T) {
					t.Parallel()
					l := build(t, sketchlimit.Config{
						Limit: limit, Window: window, Algorithm: algorithm, MemoryBytes: 64 << 10, Overload: sketchlimit.DenyProven, Seed: 1,
					})
					p := l.Plan()
					abusers := max(10, int(share*float64(p.Shards*p.HeavyEntries)))
					r, begin, n := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0), light*perWindow
					denied, got := 0, make([]int, abusers)
					for w := range 2 {
						clear(got)
						denied = 0
						for i := range n {
							at := time.Duration(i) * window / time.Duration(n)
							now := begin.Add(time.Duration(w)*window + at - at%step)
							if !l.TakeAt(now, "light "+strconv.Itoa(r.IntN(light)), cost).Allowed {
								denied++
							}
							all := int64(asked * limit * abusers)
							for range all*int64(i+1)/int64(n) - all*int64(i)/int64(n) {
								k := r.IntN(abusers)
								if l.TakeAt(now, "abuser "+strconv.Itoa(k), 1).Allowed {
									got[k]++
								}
							}
						}
						slices.Sort(got)
						sum := 0
						for _, n := range got {
							sum += n
						}
						mean, worst := float64(sum)/float64(abusers*limit), float64(got[abusers-1])/limit
						t.Logf("window %d: mean %.2f, 99 %% at most %.2f, worst %.2f times the limit; %d light ones denied", w,
							mean, float64(got[abusers*99/100])/limit, worst, denied)
						require.LessOrEqual(t, worst, 10.)
						require.LessOrEqual(t, mean, map[float64]float64{0: 1.3, 0.5: 1.3, 1: 3}[share])
					}
					require.NotZero(t, l.Stats().OverCapacity.Times)
					if step < window { // or else the whole window before counts, and some have used more than their limit
						require.LessOrEqual(t, float64(denied), 1e-4*float64(n), "in the second window")
					}
				})
			}
		}
	}
}
