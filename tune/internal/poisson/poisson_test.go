package poisson

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	require.Equal(t, 0.0, Quantile(1, 0.05))
	require.Equal(t, 3.0, Quantile(1, 0.95))
	require.InDelta(t, 1000+1.645*31.6, Quantile(1000, 0.95), 1)
}

// The approximation lies within 1 % of the exact bounds.
func TestUpperBound(t *testing.T) {
	for count, exact := range map[float64]float64{0: 2.996, 1: 4.744, 10: 16.96, 100: 118.1} {
		require.InEpsilon(t, exact, UpperBound(count), 0.01)
	}
}

// Sums of 20,000 draws lie within five standard deviations.
func TestDraw(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, mean := range []float64{0.1, 7, 2000} {
		const draws = 20_000
		sum := 0.0
		for range draws {
			sum += float64(Draw(r, mean))
		}
		require.InDelta(t, mean*draws, sum, 5*math.Sqrt(mean*draws), "mean %v", mean)
	}
}
