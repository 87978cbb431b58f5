package golimiter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/contrib/golimiter"
	"github.com/sketchlimit/sketchlimit/internal/kinds"
)

// Each kind of limiter goes into the store.
func TestEachKind(t *testing.T) {
	for name, k := range kinds.Each() {
		t.Run(name, func(t *testing.T) {
			store, err := golimiter.New(k.Member)
			require.NoError(t, err)
			n := 0
			for take := true; take; {
				_, remaining, _, ok, err := store.Take(t.Context(), "a")
				require.NoError(t, err)
				if take = ok; ok {
					n++
					require.EqualValues(t, k.Limit-n, remaining)
				}
			}
			require.Equal(t, k.Limit, n)
		})
	}
}
