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

// plans are those of limiters for 60,000 keys, so many that a tenth more can be told
// from the error of the estimate.
func plans() (all []sketchlimit.Config) {
	add := func(c sketchlimit.Config) {
		c.Window, c.Seed = time.Minute, 1
		c.Keys = 60_000 / int(max(2, c.Headroom))
		all = append(all, c)
	}
	for _, limit := range []int{10, 20, 50, 100} {
		for _, rate := range []float64{1e-3, 1e-4, 1e-5} {
			add(sketchlimit.Config{Limit: limit, FalseDenialRate: rate})
			add(sketchlimit.Config{Limit: limit, FalseDenialRate: rate, Algorithm: sketchlimit.FixedWindow})
			add(sketchlimit.Config{Limit: limit, FalseDenialRate: rate, Algorithm: sketchlimit.TokenBucket})
		}
	}
	for _, headroom := range []float64{3, 4} {
		add(sketchlimit.Config{Limit: 50, Headroom: headroom})
		add(sketchlimit.Config{Limit: 50, Headroom: headroom, Overload: sketchlimit.DenyProven})
	}
	return all
}

// windowsOf sends keys evenly, each a fifth of its limit and one in a hundred three
// times its limit, and calls look as each window ends.
func windowsOf(l *sketchlimit.Limiter, c sketchlimit.Config, keys, windows int, look func(window int)) {
	r := rand.New(rand.NewPCG(1, 2))
	type request struct {
		at  time.Duration
		key int
	}
	var all []request
	for key := range keys {
		n := c.Limit / 5
		if key%100 == 0 {
			n = 3 * c.Limit
		}
		phase := time.Duration(r.Int64N(int64(c.Window)))
		for i := range n {
			all = append(all, request{(phase + time.Duration(i)*c.Window/time.Duration(n)) % c.Window, key})
		}
	}
	slices.SortFunc(all, func(a, b request) int { return int(a.at - b.at) })
	names := make([]string, keys)
	for i := range names {
		names[i] = strconv.FormatUint(r.Uint64(), 36)
	}
	begin := time.Unix(1_700_000_040, 0)
	for w := range windows {
		for _, q := range all {
			l.TakeAt(begin.Add(time.Duration(w)*c.Window+q.at), names[q.key], 1)
		}
		look(w)
	}
}

// Limiters are not outside their plans at any end of a window under the traffic that
// they are made for. They are under a tenth more keys, and where a hundredth of the
// requests of light keys is denied.
func TestOutsidePlan(t *testing.T) {
	testkit.Computes(t)
	require.GreaterOrEqual(t, len(plans()), 40)
	for i, c := range plans() {
		if !testkit.Long && i%4 != 0 { // each algorithm, with all limits
			continue
		}
		t.Run(fmt.Sprintf("%v %d %d %d %g %g %v", c.Algorithm, c.Limit, c.SubWindows, c.Keys, c.FalseDenialRate, c.Headroom, c.Overload), func(t *testing.T) {
			t.Parallel()
			made := float64(c.Keys) * max(2, c.Headroom)
			within := build(t, c)
			windowsOf(within, c, int(made), 3, func(w int) {
				s := within.Stats()
				require.False(t, s.OutsidePlan, "window %d: %+v", w, s)
			})
			beyond := build(t, c)
			windowsOf(beyond, c, int(1.1*made), 2, func(w int) {
				s := beyond.Stats()
				require.True(t, s.OutsidePlan, "window %d, a tenth more keys: %+v", w, s)
			})
			full := c
			full.FalseDenialRate, full.Headroom, full.Keys = 0, 0, 0
			full.MemoryBytes, full.AuditBytes = 40<<10, 8<<10
			denies := build(t, full)
			windowsOf(denies, c, 30_000, 2, func(w int) {
				if s := denies.Stats(); s.FalseDenialRate > 0.01 {
					require.True(t, s.OutsidePlan || c.Overload == sketchlimit.DenyProven, "window %d, light keys denied: %+v", w, s)
				}
			})
		})
	}
}
