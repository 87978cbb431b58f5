package cms

import (
	"fmt"
	"testing"
)

// One sketch that fits a core's second-level cache and one that fits none, 4 rows.
// Keys are random, so that the large one shows what memory costs.
func benchmark(b *testing.B, f func(s *Sketch, h uint64)) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"256KiB", 256 << 10}, {"64MiB", 64 << 20}} {
		if testing.Short() && size.bytes > 1<<20 { // to fill it takes seconds
			size.name, size.bytes = "1MiB", 1<<20
		}
		for _, cellBits := range allCellBits {
			b.Run(fmt.Sprintf("bits=%d/size=%s", cellBits, size.name), func(b *testing.B) {
				s := newSketch(b, 4, size.bytes*8/cellBits/4, cellBits)
				h := uint64(1)
				for range size.bytes / 16 { // a full sketch, and its pages mapped
					h = seeded(h, 1)
					s.AddBounded(h, 1, 8)
				}
				b.ReportAllocs()
				for i := uint64(0); b.Loop(); i++ {
					// A counter mixed well: no key waits for the one before.
					f(s, seeded(i, 0x9e3779b97f4a7c15))
				}
			})
		}
	}
}

func BenchmarkEstimate(b *testing.B) { benchmark(b, func(s *Sketch, h uint64) { s.Estimate(h) }) }
func BenchmarkAdd(b *testing.B)      { benchmark(b, func(s *Sketch, h uint64) { s.Add(h, 1) }) }
func BenchmarkRaise(b *testing.B)    { benchmark(b, func(s *Sketch, h uint64) { s.Raise(h, 9) }) }
func BenchmarkAddBounded(b *testing.B) {
	benchmark(b, func(s *Sketch, h uint64) { s.AddBounded(h, 1, 100) })
}

func BenchmarkTail(b *testing.B) {
	benchmark(b, func(s *Sketch, _ uint64) { s.Tail(0, 0, 2) })
}

func BenchmarkMerge(b *testing.B) {
	for _, cellBits := range allCellBits {
		b.Run(fmt.Sprintf("bits=%d", cellBits), func(b *testing.B) {
			s, other := newSketch(b, 4, 1<<20/cellBits, cellBits), newSketch(b, 4, 1<<20/cellBits, cellBits)
			b.SetBytes(int64(8 * len(s.words)))
			for b.Loop() {
				_ = s.Merge(other)
			}
		})
	}
}
