package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
)

// BenchmarkStats reads limiters that are loaded as they were made for: a megabyte or
// so, half of their keys new in each generation, with costs where the limit is high. It
// reports milliseconds for each MiB.
func BenchmarkStats(b *testing.B) {
	const mebi = 1 << 20
	memory := mebi
	if testing.Short() {
		memory /= 16
	}
	for _, c := range []struct {
		name   string
		config sketchlimit.Config
		cost   int
		shared bool
	}{
		{"sliding/limit=100", sketchlimit.Config{Limit: 100}, 1, false},
		{"fixed/limit=100", sketchlimit.Config{Limit: 100, Algorithm: sketchlimit.FixedWindow}, 1, false},
		{"sliding/limit=10", sketchlimit.Config{Limit: 10}, 1, false},
		{"sliding/limit=10000", sketchlimit.Config{Limit: 10_000}, 100, false},
		{"sliding/limit=100000", sketchlimit.Config{Limit: 100_000}, 2000, false},
		{"sub-windows=6/limit=100", sketchlimit.Config{Limit: 100, SubWindows: 6}, 1, false},
		{"sub-windows=60/limit=100", sketchlimit.Config{Limit: 100, SubWindows: 60}, 1, false},
		{"sub-windows=60/limit=10000", sketchlimit.Config{Limit: 10_000, SubWindows: 60}, 100, false},
		{"bucket/limit=100", sketchlimit.Config{Limit: 100, Algorithm: sketchlimit.TokenBucket}, 1, false},
		{"shared/limit=100", sketchlimit.Config{Limit: 100}, 1, true},
		{"shared/limit=1000", sketchlimit.Config{Limit: 1000}, 10, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			now := time.Unix(0, 0)
			c.config.Window, c.config.Seed, c.config.MemoryBytes = time.Minute, 1, memory
			if c.config.SubWindows > 10 {
				c.config.MemoryBytes = 9 * memory
			}
			c.config.Clock = func() time.Time { return now }
			l, err := sketchlimit.New(c.config)
			require.NoError(b, err)
			bytes := l.MemoryBytes()
			if c.shared {
				s, err := l.Share()
				require.NoError(b, err)
				bytes += s.MemoryBytes()
				now = now.Add(149 * time.Second)
				fillShare(b, s, c.cost)
				now = time.Unix(0, 0)
			}
			generations := max(1, c.config.SubWindows) + 1
			keys := bytes / generations
			for i := range 5 * keys {
				now = time.Unix(0, int64(150*time.Second*time.Duration(i)/time.Duration(5*keys)))
				l.TakeAt(now, fmt.Sprint(i%keys), 1+i%c.cost)
			}
			for b.Loop() {
				l.Stats()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N)/(float64(bytes)/mebi), "ms/MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fillShare adds as many units of other nodes as the limiter was made for itself: small
// counts in nearly all cells.
func fillShare(b *testing.B, s *sharing.Share, cost int) {
	current, kept := s.Generations()
	for part := range s.Parts() {
		for g := current - int64(kept) + 1; g <= current; g++ {
			require.True(b, s.AddOthers(part, g, func(yield func(int, uint32) bool) {
				for cell := range s.PartWords() * 64 / s.CellBits() {
					if !yield(cell, uint32((cell*7+part)%(8*cost))) {
						return
					}
				}
			}))
		}
	}
}
