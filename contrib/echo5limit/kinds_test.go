package echo5limit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/contrib/echo5limit"
	"github.com/sketchlimit/sketchlimit/internal/kinds"
)

// Each kind of limiter goes into the store.
func TestEachKind(t *testing.T) {
	for name, k := range kinds.Each() {
		t.Run(name, func(t *testing.T) {
			store, err := echo5limit.New(k.Member)
			require.NoError(t, err)
			n := 0
			for ok, err := store.Allow("a"); ok; ok, err = store.Allow("a") {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, k.Limit, n)
		})
	}
}
