package cms

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// What strangers are told to read is what they read: every frequency lies within five
// standard errors (a false alarm in some 3e5 runs for all counts together, and the
// draws are fixed).
func TestReadings(t *testing.T) {
	for _, c := range []struct {
		depth, width, bits int
		most               uint32
	}{{1, 64, 4, 15}, {3, 64, 4, 100}, {4, 64, 8, 400}, {3, 64, 16, 300}, {2, 64, 16, 60_000}, {4, 32, 32, 2e9}} {
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

// The count of a single key, in any lane, is among what is read.
func TestReadingsOfOneKey(t *testing.T) {
	for _, bits := range []int{4, 8, 16, 32} {
		for lane := range uint64(64 / bits) {
			s, err := New(1, 64/bits, bits)
			require.NoError(t, err)
			for _, count := range []uint32{1, 11, s.Max()} {
				s.Raise(lane*uint64(bits), count)
				readings := s.Readings()
				require.Equal(t, count, readings[len(readings)-1].Count, "%d bits, lane %d", bits, lane)
			}
		}
	}
}

// Keys are told until most pairs of cells have some, whatever their counts.
func TestDistinct(t *testing.T) {
	for _, bits := range []int{4, 8, 16, 32} {
		for _, count := range []uint32{1, 100} {
			s, err := New(3, 4096, bits)
			require.NoError(t, err)
			r, n := rand.New(rand.NewPCG(1, uint64(bits))), 0
			for ; n < 4000; n++ {
				if n%500 == 0 {
					keys, ok := s.Distinct()
					require.True(t, ok)
					require.InDelta(t, n, keys, 20+0.05*float64(n), "%d bits, counts of %d", bits, count)
				}
				s.Raise(r.Uint64(), count)
			}
			for ; n < 12_000; n++ {
				s.Raise(r.Uint64(), count)
			}
			_, ok := s.Distinct()
			require.False(t, ok)
		}
	}
	_, ok := new(Sketch).Distinct()
	require.False(t, ok)
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
