package krakendlimit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/contrib/krakendlimit"
	"github.com/sketchlimit/sketchlimit/internal/kinds"
)

// Each kind of limiter goes into the store.
func TestEachKind(t *testing.T) {
	for name, k := range kinds.Each() {
		t.Run(name, func(t *testing.T) {
			store, err := krakendlimit.New(k.Member)
			require.NoError(t, err)
			n := 0
			for store.Key("a").Allow() {
				n++
			}
			require.Equal(t, k.Limit, n)
		})
	}
}
