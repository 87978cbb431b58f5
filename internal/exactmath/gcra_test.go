package exactmath

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A unit is so many grains, poured at once or in parts. What is left is the burst less
// what is in use, in whole units.
func TestGCRAGrainsAreUnits(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, seed))
			limit, window, burst := 1+r.Int64N(1<<r.IntN(20)), 1+r.Int64N(1<<r.IntN(40)), 1+r.Int64N(20)
			g, err := NewGCRA(limit, window, burst)
			require.NoError(t, err)
			require.Zero(t, limit*g.Unit()%window, "a whole number of grains flows in a nanosecond")
			require.Equal(t, burst*g.Unit(), g.Burst())

			s, now := g.Initial(), r.Int64N(window)-window/2
			require.Zero(t, g.Ahead(s, now))
			for range 200 {
				now += r.Int64N(2*window/limit+2) - window/limit/4 // sometimes back
				n := 1 + r.Int64N(3)
				if r.IntN(50) == 0 {
					n = 1 + r.Int64N(math.MaxInt64/g.Unit()-1) // past where debts saturate
				}
				grains := n * g.Unit()
				before := g.Ahead(s, now)
				require.Equal(t, before <= g.Burst()-grains, g.Wait(s, now, n) == 0)

				poured := g.Pour(s, now, grains)
				require.Equal(t, g.Spend(s, now, n), poured)
				require.Equal(t, before+min(grains, maxGrains-before), g.Ahead(poured, now))
				require.Equal(t, poured, g.Pour(g.Pour(s, now, g.Unit()), now, grains-g.Unit()), "in parts")
				if n < 1<<20 {
					s = poured
				}

				units, reset := g.Left(s, now)
				ahead := g.Ahead(s, now)
				require.Equal(t, max(0, g.Burst()-ahead)/g.Unit(), units)
				asked := max(now, g.Since(s))
				require.Zero(t, g.Ahead(s, asked+int64(reset)))
				if reset > 0 {
					require.Positive(t, g.Ahead(s, asked+int64(reset)-1))
				}
			}
		})
	}
}

// A grain is the least that can be in use, and saturated debts stay where they are.
func TestGCRAEndsOfGrains(t *testing.T) {
	g, err := NewGCRA(3, int64(time.Second), 5)
	require.NoError(t, err)
	require.Equal(t, int64(time.Second), g.Unit())
	require.Equal(t, 5*int64(time.Second), g.Burst())
	for _, now := range []int64{-MaxTime, 0, MaxTime} {
		s := g.Pour(g.Initial(), now, 0)
		require.Zero(t, g.Ahead(s, now))
		s = g.Pour(s, now, 1)
		require.EqualValues(t, 1, g.Ahead(s, now))
		units, reset := g.Left(s, now)
		require.EqualValues(t, 4, units)
		require.EqualValues(t, 1, reset, "three grains flow in a nanosecond")
		for range 2 {
			s = g.Pour(s, now, math.MaxInt64)
			require.Equal(t, int64(maxGrains), g.Ahead(s, now))
		}
	}
}
