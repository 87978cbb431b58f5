package leased

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// BenchmarkTime compares a local decision with that of a limiter that shares nothing, in
// turns.
func BenchmarkTime(b *testing.B) {
	config := sketchlimit.Config{Limit: 1_000_000, Window: time.Minute, Keys: 100_000}
	w := newWorld(b, config, Options{Machines: 4})
	l := w.start(0)
	l.observe = nil
	plain, err := sketchlimit.New(config)
	require.NoError(b, err)
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	b.ReportAllocs()
	var own, other time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		for j := range 256 {
			plain.Take(keys[(i*256+j)%len(keys)], 1)
		}
		middle := time.Now()
		for j := range 256 {
			l.Take(keys[(i*256+j)%len(keys)], 1)
		}
		other, own = other+middle.Sub(start), own+time.Since(middle)
	}
	b.ReportMetric(float64(own)/float64(other), "times")
	b.ReportMetric(float64(own.Nanoseconds())/float64(b.N)/256, "ns/Take")
}

func TestLeased_NoAllocations(t *testing.T) {
	w := newWorld(t, sketchlimit.Config{Limit: 1000, Window: time.Minute, Keys: 1000}, Options{Machines: 4})
	l := w.start(0)
	l.observe = nil
	require.Zero(t, testing.AllocsPerRun(200, func() { l.Take("k", 1) }))
}
