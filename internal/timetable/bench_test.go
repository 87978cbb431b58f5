package timetable

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkFind looks up keys and gives them a time, of which most have one.
func BenchmarkFind(b *testing.B) {
	for _, lines := range []int{127, 127 * 64, 127 * 512} {
		for _, stale := range []bool{false, true} {
			b.Run(fmt.Sprintf("lines=%d/stale=%v", lines, stale), func(b *testing.B) {
				l, table := layout(b, lines, 9)
				r := rand.New(rand.NewPCG(1, 2))
				keys := make([]uint64, lines*9*4/10)
				for i := range keys {
					keys[i] = r.Uint64()
				}
				now := uint32(1)
				var e Entry
				for i := range b.N + len(keys) {
					if i == len(keys) {
						b.ResetTimer()
					}
					if stale && i%len(keys) == 0 {
						now += 10
					}
					l.Find(table, keys[i%len(keys)], now, &e)
					l.Set(table, &e, now+5)
				}
			})
		}
	}
}
