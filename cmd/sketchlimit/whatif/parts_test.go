package whatif

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A table holds what a map holds, with hashes that collide in their places too.
func TestTableIsAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	table, want := newTable(leastPlaces), make(map[uint64]uint32)
	for range 30_000 {
		h := random.Uint64N(500)
		if random.IntN(2) == 0 {
			h <<= 54
		}
		if table.full() {
			if random.IntN(3) == 0 && len(table.places) < 1024 {
				table.double()
			} else {
				table.sweep(func(e *entry) bool { return e.current%3 > 0 })
				for h, n := range want {
					if n%3 == 0 {
						delete(want, h)
					}
				}
				if table.full() {
					table.double()
				}
			}
		}
		table.put(h).current++
		want[h]++
		require.Equal(t, len(want), table.used)
		probe := random.Uint64N(500)
		if e := table.find(probe); e != nil {
			require.Equal(t, want[probe], e.current)
		} else {
			require.NotContains(t, want, probe)
		}
	}
}

func TestDrawn(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		d := drawn{most: 500}
		for range 100_000 {
			h := random.Uint64()
			d.add(h)
			d.add(h)
		}
		e := d.estimate()
		require.InDelta(t, 100_000, e.Value, e.Error)
		require.Less(t, e.Error, 40_000.0)
		require.LessOrEqual(t, len(d.keys), 500)
	}
}

func TestDistinct(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 10, 1000, 2560, 5000, 100_000} {
		var a, b distinct
		for i := range n {
			h := random.Uint64()
			a.add(h)
			if i%2 == 0 {
				b.add(h)
				a, b = b, a
			}
		}
		a.merge(b)
		require.InDelta(t, n, a.estimate(), 0.15*float64(n), "five standard errors: 1 in a million")
	}
}

func TestHeavyBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	zipf := rand.NewZipf(random, 1.2, 1, 10_000)
	top, truth := heavy{most: 100}, make(map[uint64]uint64)
	for range 100_000 {
		h := zipf.Uint64()
		truth[h]++
		top.add(h, fmt.Appendf(nil, "%d", h), 1)
	}
	ranked := top.ranked()
	require.Len(t, ranked, 100)
	for _, s := range ranked {
		require.LessOrEqual(t, s.count-s.error, truth[s.hash])
		require.GreaterOrEqual(t, s.count, truth[s.hash])
		require.Equal(t, fmt.Sprint(s.hash), string(s.key))
	}
	for i := range 10 {
		require.Equal(t, uint64(i), ranked[i].hash, "the heaviest first")
	}
}

func TestCalendar(t *testing.T) {
	for _, first := range []time.Duration{-77 * time.Hour, -7 * time.Minute, 0, 5*time.Hour + 55*time.Minute, 8 * time.Hour} {
		c := newCalendar(int64(first))
		counts := make([]int, 700) // by five minutes
		for h := range counts {
			counts[h] = h
		}
		for _, length := range []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour} {
			moved := c.widen()
			counts = joined(counts, moved, func(to *int, from int) { *to += from })
			want := make([]int, len(counts))
			for h := range 700 {
				want[c.step(int64(first)+int64(h)*int64(shortStep))] += h
			}
			require.Equal(t, want, counts)
			require.Equal(t, int64(length), c.length)
			require.Zero(t, c.start(0).UnixNano()%int64(length))
		}
		require.False(t, c.start(0).After(time.Unix(0, int64(first))))
	}
}

// A log of up to three hours is told by five minutes, a longer one by hours.
func TestStepsOfShortLogs(t *testing.T) {
	for over, length := range map[time.Duration]time.Duration{
		30 * time.Minute: 5 * time.Minute, 3 * time.Hour: 5 * time.Minute, 3*time.Hour + 11*time.Minute: time.Hour,
	} {
		r := analysed(t, Options{}, evenly(1000, 10, over))
		stepsAddUp(t, r)
		require.Equal(t, length, r.StepLength, over)
		require.Zero(t, r.Steps[0].Start.UnixNano()%int64(length))
	}
}

func TestHistogram(t *testing.T) {
	for _, v := range []uint64{1, 31, 32, 33, 1000, 1 << 40, math.MaxUint64} {
		end := binEnd(bin(v))
		require.GreaterOrEqual(t, end, v)
		require.LessOrEqual(t, float64(end), float64(v)*17/16)
		if end < math.MaxUint64 {
			require.Equal(t, bin(v)+1, bin(end+1))
		}
	}
	var h histogram
	for v := range uint64(1000) {
		h.add(v+1, 4)
	}
	u := h.use()
	require.Equal(t, uint64(1000), u.Counted)
	for _, p := range []struct{ got, want uint64 }{{u.P50, 500}, {u.P90, 900}, {u.P99, 990}, {u.P999, 999}, {u.Max, 1000}} {
		require.InEpsilon(t, p.want, p.got, 1.0/16)
	}
	require.Equal(t, Use{}, (&histogram{}).use())
	require.True(t, slices.IsSorted([]uint64{u.P50, u.P90, u.P99, u.P999, u.Max}))
}
