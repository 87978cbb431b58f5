package tests

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

func TestSizeIsThatOfTheLimiter(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("it sizes limiters that 32 bits cannot address")
	}
	for _, c := range []sketchlimit.Config{
		{Limit: 1, Keys: 1000},
		{Limit: 100, Keys: 100_000},
		{Limit: 100, Keys: 100_000, FalseDenialRate: 1e-7},
		{Limit: 5, Keys: 10_000, Algorithm: sketchlimit.FixedWindow},
		{Limit: 1000, Keys: 10_000, SubWindows: 6},
		{Limit: 100_000, MemoryBytes: 123_456},
		{Limit: 100, Keys: 10_000, MaxMemoryBytes: 1 << 20},
		{Limit: 10, Plan: &sketchlimit.Plan{Shards: 3, BloomBytes: 64, BloomProbes: 3, Depth: 4, Width: 1000, CellBits: 8}},
	} {
		c.Window = time.Minute
		plan, bytes, err := c.Size()
		require.NoError(t, err)
		l := build(t, c)
		require.Equal(t, l.MemoryBytes(), bytes)
		require.Equal(t, l.Plan(), plan)
	}
	for _, c := range []sketchlimit.Config{
		{Limit: 0, Window: time.Minute, Keys: 1},
		{Limit: 100, Window: time.Minute, MemoryBytes: 100},
		{Limit: 1, Window: time.Minute, Plan: new(sketchlimit.Plan)},
		{Limit: 10, Window: time.Minute, Keys: 1000, MaxMemoryBytes: 1},
	} {
		_, want := sketchlimit.New(c)
		_, _, err := c.Size()
		require.EqualError(t, err, want.Error())
	}
	_, bytes, err := sketchlimit.Config{Limit: 3, UnitsPerKey: 3, Window: time.Minute, Keys: 1 << 30, FalseDenialRate: 1e-8}.Size()
	require.NoError(t, err)
	require.Greater(t, float64(bytes), 1e11, "more than the machine has")
}
