package bloom

import (
	"fmt"
	"testing"
)

// Filters that fit a core's second-level cache and that fit none, half full. Keys are
// random, so that the large one shows what memory costs.
func benchmark(b *testing.B, op func(f *Filter, h uint64)) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"256KiB", 256 << 10}, {"64MiB", 64 << 20}} {
		if testing.Short() && size.bytes > 1<<20 { // to fill it takes seconds
			size.name, size.bytes = "1MiB", 1<<20
		}
		for _, probes := range []int{2, 6, 12} {
			b.Run(fmt.Sprintf("probes=%d/size=%s", probes, size.name), func(b *testing.B) {
				f := newFilter(b, size.bytes, probes)
				for i := range uint64(size.bytes * 8 / probes * 2 / 3) {
					f.Add(seeded(i, 1))
				}
				b.ReportAllocs()
				for i := uint64(0); b.Loop(); i++ {
					// A counter mixed well: no key waits for the one before.
					op(f, seeded(i, 0x9e3779b97f4a7c15))
				}
			})
		}
	}
}

func BenchmarkTest(b *testing.B)       { benchmark(b, func(f *Filter, h uint64) { f.Test(h) }) }
func BenchmarkTestAndAdd(b *testing.B) { benchmark(b, func(f *Filter, h uint64) { f.TestAndAdd(h) }) }

// BenchmarkDistinct is one pass over the bits, as FalsePositiveRate is.
func BenchmarkDistinct(b *testing.B) {
	f := newFilter(b, 1<<20, 6)
	b.SetBytes(1 << 20)
	for b.Loop() {
		f.Distinct()
	}
}

// BenchmarkDimensions also tells how many times the bits of a classical filter a
// blocked one takes.
func BenchmarkDimensions(b *testing.B) {
	for _, p := range []float64{1e-1, 1e-2, 1e-3, 1e-4, 1e-6} {
		b.Run(fmt.Sprintf("p=%g", p), func(b *testing.B) {
			var bytes int
			for b.Loop() {
				bytes, _, _ = Dimensions(1_000_000, p)
			}
			b.ReportMetric(8*float64(bytes)/classicalBits(1_000_000, p), "×classical")
		})
	}
}
