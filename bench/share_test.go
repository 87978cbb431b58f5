package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// BenchmarkShare is a limiter by itself and one that shares its limit, where others have
// used a unit or two in every cell, a million keys in turn.
func BenchmarkShare(b *testing.B) {
	k := uniform(1e6)
	for _, shared := range []bool{false, true} {
		for _, call := range []string{"Allow", "Take"} {
			b.Run(fmt.Sprintf("shared=%v/call=%s/algorithm=sliding/dist=uniform/keys=1e6", shared, call), func(b *testing.B) {
				l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: time.Second, Keys: 3e6, Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				if shared {
					share(b, l)
				}
				k.each(0, k.len(), func(key string) { l.Allow(key) })
				b.ReportAllocs()
				b.ResetTimer()
				if call == "Allow" {
					k.each(0, b.N, func(key string) { l.Allow(key) })
				} else {
					k.each(0, b.N, func(key string) { l.Take(key, 1) })
				}
			})
		}
	}
}

func share(b *testing.B, l *sketchlimit.Limiter) {
	s, err := l.Share()
	if err != nil {
		b.Fatal(err)
	}
	cells := s.PartWords() * 64 / s.CellBits()
	generation, _ := s.Generations()
	for part := range s.Parts() {
		s.AddOthers(part, generation, func(yield func(int, uint32) bool) {
			for cell := range cells {
				if !yield(cell, uint32(1+cell%2)) {
					return
				}
			}
		})
	}
}
