package bench

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit"
)

var sizes = []int{4 << 20, 64 << 20, 256 << 20}

func mib(bytes int) string { return fmt.Sprintf("%dMiB", bytes>>20) }

// parallel runs f, which makes n decisions beginning with the first-th of the
// sequence, in so many goroutines at once.
func parallel(b *testing.B, goroutines int, f func(first, n int)) {
	if goroutines == 1 {
		b.ResetTimer()
		f(0, b.N)
		return
	}
	const batch = 1024
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range goroutines {
		wg.Go(func() {
			for {
				first := int(next.Add(batch)) - batch
				if first >= b.N {
					return
				}
				f(first, min(batch, b.N-first))
			}
		})
	}
	wg.Wait()
}

// limiter is one whose window turns every second, so that both generations are in use.
func limiter(b *testing.B, algorithm sketchlimit.Algorithm, memory int) *sketchlimit.Limiter {
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Second, Algorithm: algorithm, MemoryBytes: memory, Seed: 1,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

// run takes the keys in turn, after a warm-up of up to a million of them.
func run(b *testing.B, l *sketchlimit.Limiter, k keys, goroutines int) {
	k.each(0, min(k.len(), 1<<20), func(key string) { l.Allow(key) })
	b.ReportAllocs()
	parallel(b, goroutines, func(first, n int) {
		k.each(first, n, func(key string) { l.Allow(key) })
	})
}

func BenchmarkTake(b *testing.B) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		for _, d := range distributions {
			for _, n := range []int{1e3, 1e6, 1e7} {
				k := d.make(n)
				for _, memory := range sizes[:2] {
					for _, p := range []int{1, 2, 8, 64} {
						b.Run(fmt.Sprintf("impl=sketch/algorithm=%v/dist=%s/keys=%.0e/memory=%s/goroutines=%d", algorithm, d.name, float64(n), mib(memory), p), func(b *testing.B) {
							run(b, limiter(b, algorithm, memory), k, p)
						})
					}
				}
			}
		}
	}
}

// BenchmarkTakeHot is one key over and over: admitted (a limit that is never reached)
// and denied, as in a flood, which is when a limiter matters most.
func BenchmarkTakeHot(b *testing.B) {
	k := hot()
	for _, c := range []struct {
		name  string
		limit int
	}{{"hot", 1<<31 - 1}, {"hot-denied", 100}} {
		for _, p := range []int{1, 2, 8, 64} {
			b.Run(fmt.Sprintf("impl=sketch/algorithm=sliding/dist=%s/goroutines=%d", c.name, p), func(b *testing.B) {
				l, err := sketchlimit.New(sketchlimit.Config{Limit: c.limit, Window: time.Hour, MemoryBytes: 4 << 20, Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { l.Close() })
				run(b, l, k, p)
			})
		}
	}
}

// BenchmarkFloor is the bound to compare with: xxhash and the update of four rows of
// a sketch of the same bytes, without doorkeeper, generations, lock or clock.
func BenchmarkFloor(b *testing.B) {
	for _, n := range []int{1e6, 1e7} {
		k := uniform(n)
		for _, memory := range sizes {
			b.Run(fmt.Sprintf("dist=uniform/keys=%.0e/memory=%s", float64(n), mib(memory)), func(b *testing.B) {
				f := newFloor(memory)
				k.each(0, min(k.len(), 1<<20), func(key string) { f.add(key) })
				parallel(b, 1, func(first, n int) {
					k.each(first, n, func(key string) { f.add(key) })
				})
			})
		}
	}
}

// floor is a count-min sketch of four rows with conservative updates up to 100.
type floor struct{ rows [4][]uint8 }

func newFloor(memory int) *floor {
	f := new(floor)
	for r := range f.rows {
		f.rows[r] = make([]uint8, memory/4)
	}
	return f
}

func (f *floor) add(key string) bool {
	h := xxhash.Sum64String(key)
	hi, lo := bits.Mul64(h^0x2d358dccaa6c78a5, 0x8bb84b93962eacc9)
	w := uint64(len(f.rows[0]))
	a := &f.rows[0][h>>32*w>>32]
	c := &f.rows[1][h&0xffffffff*w>>32]
	d := &f.rows[2][hi>>32*w>>32]
	e := &f.rows[3][lo>>32*w>>32]
	least := min(*a, *c, *d, *e)
	t := min(least+1, 100)
	*a, *c, *d, *e = max(*a, t), max(*c, t), max(*d, t), max(*e, t)
	return least < 100
}
