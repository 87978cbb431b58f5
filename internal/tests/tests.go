// Package tests holds tests of package sketchlimit through its public API that are about
// no single file of it: one-sidedness, concurrency, growth, overload, statistics, sizes.
package tests

import (
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/stretchr/testify/require"
)

// Build returns a reproducible limiter whose clock stands at the epoch. Fields of c
// that are set stay.
func Build(t testing.TB, c sketchlimit.Config) *sketchlimit.Limiter {
	t.Helper()
	if c.Clock == nil {
		c.Clock = func() time.Time { return time.Unix(0, 0) }
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.MemoryBytes == 0 && c.Keys == 0 && c.Plan == nil {
		c.MemoryBytes = 1 << 20
	}
	l, err := sketchlimit.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}
