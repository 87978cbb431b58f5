package cms

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// What strangers are told to read is what they read: every frequency lies within five standard errors (a false
// alarm in some 3e5 runs for all counts together, and the draws are fixed).
func TestReadings(t *testing.T) {
	for _, c := range []struct {
		depth, width, bits int
		most               uint32
	}{{1, 64, 4, 15}, {4, 64, 8, 200}, {3, 64, 16, 300}, {2, 64, 16, 60_000}, {4, 32, 32, 2e9}} {
		s, err := New(c.depth, c.width, c.bits)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(1, uint64(c.bits)))
		for range 40 {
			s.Raise(r.Uint64(), uint32(float64(c.most)*math.Pow(r.Float64(), 3)))
		}
		const strangers = 400_000
		seen := map[uint32]float64{}
		for range strangers {
			seen[s.Estimate(r.Uint64())]++
		}
		sum, last := 0.0, int64(-1)
		for _, reading := range s.Readings() {
			require.Greater(t, int64(reading.Count), last)
			last = int64(reading.Count)
			want := strangers * reading.Chance
			require.InDelta(t, want, seen[reading.Count], 5*math.Sqrt(want)+5, "%+v reads %d", c, reading.Count)
			delete(seen, reading.Count)
			sum += reading.Chance
		}
		require.InDelta(t, 1, sum, 1e-9)
		require.Empty(t, seen)
	}
	require.Equal(t, []Reading{{0, 1}}, new(Sketch).Readings())
}

// Both ways of counting are one.
func TestReadingsByTallyAndByRank(t *testing.T) {
	s, err := New(4, 256, 16)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		s.Raise(r.Uint64(), uint32(r.IntN(50)*r.IntN(50)))
	}
	tally, ranked := s.tally(int(s.top())), s.ranked()
	require.Len(t, ranked, len(tally))
	for i, want := range tally {
		require.Equal(t, want.Count, ranked[i].Count)
		require.InDelta(t, want.Chance, ranked[i].Chance, 1e-12)
	}
}

func BenchmarkReadings(b *testing.B) {
	for _, bits := range []int{4, 8, 16, 32} {
		s, _ := New(4, 170*64/bits, bits)
		r := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			s.Raise(r.Uint64(), uint32(r.IntN(1<<min(bits, 14))))
		}
		b.Run(map[int]string{4: "4", 8: "8", 16: "16", 32: "32"}[bits], func(b *testing.B) {
			b.SetBytes(int64(8 * s.Words()))
			for b.Loop() {
				s.Readings()
			}
		})
	}
}
