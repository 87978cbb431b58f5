package zipf

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The integral comes within a millionth of the sum.
func TestSums(t *testing.T) {
	for _, exponent := range []float64{0, 0.8, 1, 1.2, 3} {
		z, sum := New(100_000, exponent), 0.0
		for r := 1.0; r <= 100_000; r++ {
			sum += math.Pow(r, -exponent)
			if r == 500 || r == 5000 || r == 100_000 {
				require.InEpsilon(t, sum, z.UpTo(r), 1e-6, "%v of exponent %v", r, exponent)
			}
		}
	}
	z := New(3, 1)
	require.Equal(t, 0.0, z.UpTo(0))
	require.Equal(t, 1.25, z.UpTo(1.5))
}
