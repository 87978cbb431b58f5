package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A bucket of the array holds the limit, and one unit comes back at a time.
func TestBucketsHoldTheLimit(t *testing.T) {
	b, now := newBuckets(1024), time.Unix(1_800_000_000, 0)
	require.Len(t, b.times, 128)
	for range limit {
		require.True(t, b.take(now, "a"))
	}
	require.False(t, b.take(now, "a"))
	require.False(t, b.take(now.Add(window/limit-1), "a"))
	require.True(t, b.take(now.Add(window/limit), "a"))
	require.False(t, b.take(now.Add(window/limit), "a"))
}

// In the same memory, the array denies light keys that sketchlimit admits.
func TestLightKeysShareBuckets(t *testing.T) {
	l := load{light: 20_000, heavy: 200}
	requests, names := l.requests(), make([]string, l.light+l.heavy)
	for i := range names {
		names[i] = strings.Repeat("k", i%7) + time.Duration(i).String()
	}
	require.Len(t, requests, 20_000*lightUse+200*heavyUse)
	sketch, hashed, err := compare(l, requests, names, 32*len(names))
	require.NoError(t, err)
	require.Zero(t, sketch.denied)
	require.LessOrEqual(t, sketch.bytes, 32*len(names))
	require.LessOrEqual(t, hashed.bytes, 32*len(names))
	// 200 of 65,536 buckets are used up for part of the minute. A light key's is one of
	// them by chance.
	require.InDelta(t, 200./65_536, hashed.denied, 200./65_536*0.9)
	require.Positive(t, hashed.denied)
}
