package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Sized by Keys alone, a limiter denies hardly anybody in ordinary use: one request in 100,000 while keys use up to a fifth
// of their limit, one in 1,000 at two fifths, and it does not say that it is outside its plan. At four times that it
// says so before it denies one in 1,000.
func TestOrdinaryUse(t *testing.T) {
	testkit.Unraced(t)
	const keys = 4000
	asPlanned, beyond := usual(keys, 40*keys, 1), usual(keys, 40*keys, 2, 4)
	for _, r := range asPlanned.rows() {
		if r.use < 0.1 || r.keys < keys/2 {
			continue
		}
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			t.Parallel()
			o, err := r.play(1)
			require.NoError(t, err)
			most := 1e-5
			if r.use > 0.2 {
				most = 1e-3
			}
			require.LessOrEqual(t, o.denied, testkit.MostFalseDenials(o.sent, most))
			require.False(t, o.outside)
		})
	}
	for _, r := range beyond.rows() {
		if r.use < 0.2 || r.keys < keys/2 {
			continue
		}
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			t.Parallel()
			o, err := r.play(1)
			require.NoError(t, err)
			require.True(t, o.outside || o.denied <= testkit.MostFalseDenials(o.sent, 1e-3), "%+v", o)
		})
	}
}
