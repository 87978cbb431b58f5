package errorrate

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/cms"
)

// drawn returns a random distribution of numbers up to most.
func drawn(r *rand.Rand, most int64) (d Distribution) {
	sum := 0.0
	for units := int64(0); units <= most; units += 1 + r.Int64N(3) {
		d = append(d, Chance{units, r.Float64()})
		sum += d[len(d)-1].P
	}
	for i := range d {
		d[i].P /= sum
	}
	return d
}

func total(d Distribution) (p float64) {
	for _, c := range d {
		p += c.P
	}
	return p
}

// orMore adds up pairs of numbers one by one.
func orMore(a, b Distribution, units int64) (p float64) {
	for _, x := range a {
		for _, y := range b {
			if x.Units+y.Units >= units {
				p += x.P * y.P
			}
		}
	}
	return p
}

func TestAddAndBeside(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		a, b := drawn(r, r.Int64N(30)), drawn(r, r.Int64N(30))
		sum, tail := a.Add(b, 60), a.OrMore()
		require.InDelta(t, 1, total(sum), 1e-12)
		for units := range int64(62) {
			want := orMore(a, b, units)
			require.InDelta(t, want, tail.Beside(b, units), 1e-12)
			require.InDelta(t, want, sum.OrMore().Beside(None(), units), 1e-12)
		}
		low := a.Add(b, 5)
		require.LessOrEqual(t, low[len(low)-1].Units, max(int64(5), a[len(a)-1].Units, b[len(b)-1].Units))
		require.InDelta(t, orMore(a, b, 5), low.OrMore().Beside(None(), 5), 1e-12)
	}
}

// Where numbers are too many to be told apart they are rounded up: a rate is never too
// low.
func TestAddRoundsUp(t *testing.T) {
	a, b := Distribution{{0, 0.5}, {100_001, 0.5}}, Distribution{{0, 0.5}, {3, 0.5}}
	sum := a.Add(b, 1_000_000).OrMore()
	for _, units := range []int64{1, 3, 100_001, 100_004} {
		require.GreaterOrEqual(t, sum.Beside(None(), units), orMore(a, b, units)-1e-12)
	}
	require.Zero(t, sum.Beside(None(), 100_004+2*1_000_000/maxNumbers))
}

func TestFromAll(t *testing.T) {
	d := FromAll(0.25, []cms.Reading{{Count: 1, Chance: 0.5}, {Count: 7, Chance: 0.5}})
	require.Equal(t, Distribution{{0, 0.75}, {1, 0.125}, {7, 0.125}}, d)
	require.Equal(t, d, None().Add(d, 5))
	require.Equal(t, d, d.Add(None(), 5))
}

// A sample whose levels are the true probabilities states what the distributions do.
func TestSampleAbove(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		limit := 1 + r.Int64N(MaxLevels) // each number has a level of its own
		s := NewSample(limit)
		require.Equal(t, limit, s.Steps())
		current, previous := drawn(r, limit), drawn(r, limit)
		s.Weight = 1
		for level := range s.Steps() + 1 {
			require.Equal(t, level, s.UnitsAt(level))
			s.Current[level] = current.OrMore().Beside(None(), level)
			s.Previous[level] = previous.OrMore().Beside(None(), level)
		}
		for units := range limit {
			require.InDelta(t, orMore(current, previous, units+1), s.Above(units), 1e-9)
		}
		s.Weight = 0
		require.InDelta(t, orMore(current, None(), 1), s.Above(0), 1e-9)
	}
}

func TestLevelAbove(t *testing.T) {
	for _, limit := range []int64{1, 2, 255, 256, 257, 1000, 1 << 31} {
		s := NewSample(limit)
		for level := range s.Steps() {
			require.Less(t, s.UnitsAt(level), s.UnitsAt(level+1))
			require.Equal(t, level+1, s.LevelAbove(s.UnitsAt(level)))
		}
		require.Equal(t, limit, s.UnitsAt(s.Steps()))
		require.Equal(t, s.Steps()+1, s.LevelAbove(limit))
		require.Zero(t, s.LevelAbove(-1))
	}
}
