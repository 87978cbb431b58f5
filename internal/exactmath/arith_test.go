package exactmath

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGenerationsAreFloored(t *testing.T) {
	for _, c := range []struct{ t, generation, elapsed int64 }{
		{0, 0, 0}, {9, 0, 9}, {10, 1, 0}, {-1, -1, 9}, {-10, -1, 0}, {-11, -2, 9},
	} {
		generation, elapsed := Split(c.t, 10)
		require.Equal(t, c, struct{ t, generation, elapsed int64 }{c.t, generation, elapsed})
	}
}
