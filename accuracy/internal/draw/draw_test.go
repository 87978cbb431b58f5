package draw

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The alias table is exact up to 2⁻³² a cell: adding up what each rank gets from
// all cells gives back the weights.
func TestAliasTableAddsUpToItsWeights(t *testing.T) {
	for _, exponent := range []float64{0, 0.3, 1, 2.5, 10} {
		for _, n := range []int{1, 2, 3, 10, 1000} {
			got := make([]float64, n)
			for i, c := range NewAlias(n, exponent) {
				keep := math.Ldexp(float64(c.keep), -32)
				got[i] += keep
				got[c.other] += 1 - keep
			}
			var sum float64
			for i := range n {
				sum += math.Pow(float64(i+1), -exponent)
			}
			for i := range n {
				want := math.Pow(float64(i+1), -exponent) * float64(n) / sum
				// A rank gives or takes at most n roundings of 2⁻³².
				require.InDelta(t, want, got[i], float64(n)/(1<<32)+1e-9, "n %d, exponent %g, rank %d", n, exponent, i+1)
			}
		}
	}
}
