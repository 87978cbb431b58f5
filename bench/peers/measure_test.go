package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWindowFromBeginsThere(t *testing.T) {
	for _, at := range []string{"2026-01-01T00:00:00Z", "2026-11-20T17:59:59.999999999Z", "2031-05-06T07:08:09.123456789Z"} {
		now, err := time.Parse(time.RFC3339Nano, at)
		require.NoError(t, err)
		w := windowFrom(now, 10*time.Minute)
		assert.InDelta(t, 10*time.Minute, w, float64(time.Second))
		assert.Less(t, now.UnixNano()%int64(w), int64(time.Millisecond))
	}
}

// hoard keeps 64 bytes of each key's first sight, and allocates 2 objects a decision.
type hoard struct {
	kept map[string]*[64]byte
	junk *[16]byte
}

func (h *hoard) Allow(key string) bool {
	if h.kept[key] == nil {
		h.kept[key] = new([64]byte)
	}
	for range 2 {
		h.junk = new([16]byte)
	}
	return true
}

func TestBytesAndAllocationsAreSeen(t *testing.T) {
	const n = 20_000
	w := workload{keys: uniform(n), limit: limit, size: size{window: time.Hour}, warm: 1, batches: 20}
	c := &contestant{implementation: implementation{
		name:  "hoard",
		keeps: true, // 16 bytes a key, beside the map's own 24 and more
		build: func(settings) (limiter, error) { return &hoard{kept: make(map[string]*[64]byte, n)}, nil },
	}}
	require.NoError(t, c.prepare(w))
	assert.Greater(t, c.bytes, 64.0+16+24)
	assert.Less(t, c.bytes, 64.0+16+24*3)
	assert.Positive(t, c.gc)
	r, err := c.time(w, 1)
	require.NoError(t, err)
	assert.InDelta(t, 2, r.allocs, 0.05)
	assert.Positive(t, r.ns)
}

func TestWrongDecisionsAreAnError(t *testing.T) {
	c := &contestant{implementation: implementation{name: "yes"}, limiter: nothing{}, window: time.Hour}
	w := workload{keys: hot(1, 1), batches: 2, denied: true}
	_, err := c.time(w, 1)
	assert.EqualError(t, err, "yes: 2000 of 2000 requests admitted, want 0")
	w.denied = false
	_, err = c.time(w, 1)
	assert.NoError(t, err)
}

func TestMedian(t *testing.T) {
	same := func(v float64) float64 { return v }
	assert.Equal(t, 3.0, median([]float64{5, 1, 3}, same))
	assert.Equal(t, 2.5, median([]float64{1, 2, 3, 9}, same))
}
