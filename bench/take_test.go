package bench

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
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

// warm shows a limiter its first keys, up to a million of them; a few with -short,
// which only shows that all works.
func warm(k keys, take taker) {
	most := 1 << 20
	if testing.Short() {
		most = 1 << 10
	}
	k.each(0, min(k.len(), most), take)
}

// counts are numbers of keys, or of bytes; with -short the first one.
func counts(all ...int) []int {
	if testing.Short() {
		return all[:1]
	}
	return all
}

// taker is a decision on one unit of a key.
type taker func(key string)

// limiter is one whose window turns every second, so that both generations are in use.
func limiter(b *testing.B, algorithm sketchlimit.Algorithm, memory int) *sketchlimit.Limiter {
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: limit, Window: time.Second, Algorithm: algorithm, MemoryBytes: memory, Seed: 1,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

const limit = 100

// exactly is the same by the exact algorithm, which reads the clock itself.
func exactly(b *testing.B, algorithm sketchlimit.Algorithm) taker {
	var l exact.Limiter
	var err error
	switch algorithm {
	case sketchlimit.FixedWindow:
		l, err = exact.NewFixedWindow(limit, time.Second)
	case sketchlimit.TokenBucket:
		l, err = exact.NewGCRA(limit, time.Second, limit)
	default:
		l, err = exact.NewSlidingWindow(limit, time.Second)
	}
	if err != nil {
		b.Fatal(err)
	}
	return func(key string) { l.TakeAt(time.Now(), key, 1) }
}

// group is such a limiter and one with 60 times the limit for a minute, each of so much
// memory.
func group(b *testing.B, algorithm sketchlimit.Algorithm, memory int) *sketchlimit.Group {
	longer, err := sketchlimit.New(sketchlimit.Config{
		Limit: 60 * limit, Window: time.Minute, Algorithm: algorithm, MemoryBytes: memory, Seed: 2,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { longer.Close() })
	g, err := sketchlimit.NewGroup(limiter(b, algorithm, memory), longer)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// address is the key as an IPv6 address.
func address(key string) netip.Addr {
	return netip.AddrFrom16(*(*[keyBytes]byte)(unsafe.Pointer(unsafe.StringData(key))))
}

// BenchmarkTake takes the keys in turn, after a warm-up of up to a million of them.
func BenchmarkTake(b *testing.B) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		for _, d := range distributions {
			for _, n := range counts(1e6, 1e3, 1e7) {
				made := sync.OnceValue(func() keys { return d.make(n) }) // not where -bench leaves them out
				for _, p := range []int{1, 2, 8, 64} {
					at := fmt.Sprintf("algorithm=%v/dist=%s/keys=%.0e/goroutines=%d", algorithm, d.name, float64(n), p)
					for _, memory := range sizes[:2] {
						// Allow returns whether; Take also what is left and until when.
						// The calls are written out: by way of a variable they cost
						// some nanoseconds more.
						b.Run("impl=sketch/call=Allow/memory="+mib(memory)+"/"+at, func(b *testing.B) {
							l, k := limiter(b, algorithm, memory), made()
							warm(k, func(key string) { l.Allow(key) })
							b.ReportAllocs()
							parallel(b, p, func(first, n int) { k.each(first, n, func(key string) { l.Allow(key) }) })
						})
						b.Run("impl=sketch/call=Take/memory="+mib(memory)+"/"+at, func(b *testing.B) {
							l, k := limiter(b, algorithm, memory), made()
							warm(k, func(key string) { l.Take(key, 1) })
							b.ReportAllocs()
							parallel(b, p, func(first, n int) { k.each(first, n, func(key string) { l.Take(key, 1) }) })
						})
						if algorithm == sketchlimit.SlidingWindow && d.name == "uniform" && n == 1e6 && memory == sizes[0] && p <= 2 {
							requests(b, "memory="+mib(memory)+"/"+at, algorithm, memory, made, p)
						}
					}
					b.Run("impl=exact/"+at, func(b *testing.B) {
						take, k := exactly(b, algorithm), made()
						warm(k, take)
						b.ReportAllocs()
						parallel(b, p, func(first, n int) { k.each(first, n, take) })
					})
				}
			}
		}
	}
}

// requests is the rows of BenchmarkTake for Do and for groups, which one combination is
// enough for.
func requests(b *testing.B, at string, algorithm sketchlimit.Algorithm, memory int, made func() keys, p int) {
	b.Run("impl=sketch/call=Do/"+at, func(b *testing.B) {
		l, k := limiter(b, algorithm, memory), made()
		warm(k, func(key string) { l.Do(sketchlimit.Request{Key: key}) })
		b.ReportAllocs()
		parallel(b, p, func(first, n int) { k.each(first, n, func(key string) { l.Do(sketchlimit.Request{Key: key}) }) })
	})
	b.Run("impl=sketch/call=DoAddr/"+at, func(b *testing.B) {
		l, k := limiter(b, algorithm, memory), made()
		warm(k, func(key string) { l.Do(sketchlimit.Request{Addr: address(key)}) })
		b.ReportAllocs()
		parallel(b, p, func(first, n int) {
			k.each(first, n, func(key string) { l.Do(sketchlimit.Request{Addr: address(key)}) })
		})
	})
	b.Run("impl=sketch/call=GroupTake/"+at, func(b *testing.B) {
		g, k := group(b, algorithm, memory), made()
		warm(k, func(key string) { g.Take(key, 1) })
		b.ReportAllocs()
		parallel(b, p, func(first, n int) { k.each(first, n, func(key string) { g.Take(key, 1) }) })
	})
	b.Run("impl=sketch/call=GroupDoEach/"+at, func(b *testing.B) { // each of two limiters for another key
		g, k := group(b, algorithm, memory), made()
		take := func(key string) {
			asks := [...]sketchlimit.Ask{
				{Limiter: 0, Request: sketchlimit.Request{Key: key}},
				{Limiter: 1, Request: sketchlimit.Request{Key: key[:keyBytes-1]}},
			}
			g.DoEach(asks[:])
		}
		warm(k, take)
		b.ReportAllocs()
		parallel(b, p, func(first, n int) { k.each(first, n, take) })
	})
}

// BenchmarkTakeHot is one key over and over: admitted (a limit that is never reached)
// and denied, as in a flood, which is when a limiter matters most.
func BenchmarkTakeHot(b *testing.B) {
	k := hot()
	for _, c := range []struct {
		name  string
		limit int
	}{{"hot", 1<<31 - 1}, {"hot-denied", limit}} {
		for _, p := range []int{1, 2, 8, 64} {
			l, err := sketchlimit.New(sketchlimit.Config{Limit: c.limit, Window: time.Hour, MemoryBytes: 4 << 20, Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { l.Close() })
			b.Run(fmt.Sprintf("impl=sketch/call=Allow/algorithm=sliding/dist=%s/goroutines=%d", c.name, p), func(b *testing.B) {
				k.each(0, limit, func(key string) { l.Allow(key) })
				parallel(b, p, func(first, n int) { k.each(first, n, func(key string) { l.Allow(key) }) })
			})
			b.Run(fmt.Sprintf("impl=sketch/call=Take/algorithm=sliding/dist=%s/goroutines=%d", c.name, p), func(b *testing.B) {
				k.each(0, limit, func(key string) { l.Take(key, 1) })
				parallel(b, p, func(first, n int) { k.each(first, n, func(key string) { l.Take(key, 1) }) })
			})
		}
	}
}

// BenchmarkTakeNew is 1e8 possible keys in 256 MiB, with the floor of that size: most
// requests come from a key that is not known yet. Keys are drawn, in batches that are
// not timed.
func BenchmarkTakeNew(b *testing.B) {
	const possible = 1e8
	memory, batch := 256<<20, 1<<22
	if testing.Short() {
		memory, batch = memory/64, batch/64
	}
	for _, impl := range []string{"sketch", "floor"} {
		b.Run(fmt.Sprintf("impl=%s/algorithm=sliding/keys=%.0e/memory=%s", impl, possible, mib(memory)), func(b *testing.B) {
			var take taker
			if impl == "floor" {
				f := newFloor(memory)
				take = func(key string) { f.add(key) }
			} else {
				l := limiter(b, sketchlimit.SlidingWindow, memory)
				take = func(key string) { l.Allow(key) }
			}
			r := rand.New(rand.NewPCG(1, 2))
			k := make(keys, batch*keyBytes)
			draw := func() {
				for i := 0; i < len(k); i += keyBytes {
					name(k[i:], r.Uint64N(possible))
				}
			}
			for range 2 { // no page of the memory is new
				draw()
				k.each(0, k.len(), take)
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += k.len() {
				b.StopTimer()
				draw()
				b.StartTimer()
				k.each(0, min(k.len(), b.N-n), take)
			}
		})
	}
}

// BenchmarkRotate times requests one by one while a generation turns: each shard turns
// when it is next touched, and the request that touches it waits for that. It reports
// what the timer alone takes as well, which is contained in all.
func BenchmarkRotate(b *testing.B) {
	k := uniform(1e6)
	if testing.Short() {
		k = uniform(1e4)
	}
	for _, memory := range counts(4<<20, 256<<20, 1<<30) {
		b.Run("memory="+mib(memory), func(b *testing.B) {
			l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: time.Second, MemoryBytes: memory, Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			now := time.Unix(0, 0)
			take := func(key string) { l.TakeAt(now, key, 1) }
			for range 3 { // no page of the memory is new
				now = now.Add(time.Second)
				k.each(0, k.len(), take)
			}
			turning, still, timer := rotate(k, &now, take)
			b.ReportMetric(float64(turning), "worst-turning-ns")
			b.ReportMetric(float64(still), "worst-still-ns")
			b.ReportMetric(float64(timer), "worst-timer-ns")
			p := l.Plan() // after two windows without a request a shard is cleared as a whole
			b.ReportMetric(float64(2*(p.BloomBytes+p.Depth*p.Width*p.CellBits/8)+8*p.HeavyEntries), "bytes-cleared-at-most")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rotate returns the medians, over the turns, of the worst that any of so many requests
// as there are keys took: those right after a turn, as many later on, and as many
// nothings.
func rotate(k keys, now *time.Time, take taker) (turning, still, timer time.Duration) {
	worst := func(take taker) time.Duration {
		most := time.Duration(0)
		base := time.Now()
		k.each(0, k.len(), func(key string) {
			start := time.Since(base)
			take(key)
			most = max(most, time.Since(base)-start)
		})
		return most
	}
	var t [3][]time.Duration
	for range 9 {
		*now = now.Add(time.Second)
		for i, take := range []taker{take, take, func(string) {}} {
			t[i] = append(t[i], worst(take))
		}
	}
	for i := range t {
		slices.Sort(t[i])
	}
	middle := len(t[0]) / 2
	return t[0][middle], t[1][middle], t[2][middle]
}

// BenchmarkControl is the bound to compare a key that is denied over and over with:
// xxhash and three atomic loads.
func BenchmarkControl(b *testing.B) {
	k, words := hot(), new([3]atomic.Uint64)
	parallel(b, 1, func(first, n int) {
		sum := uint64(0)
		k.each(first, n, func(key string) {
			sum += xxhash.Sum64String(key) ^ words[0].Load() ^ words[1].Load() ^ words[2].Load()
		})
		words[0].Store(sum)
	})
}

// BenchmarkFloor is the bound to compare with: xxhash and the update of four rows of a
// sketch of the same bytes, without Bloom filter, generations, lock or clock. Two
// goroutines race: some updates are lost.
func BenchmarkFloor(b *testing.B) {
	for _, n := range counts(1e6, 1e7) {
		uniform := sync.OnceValue(func() keys { return uniform(n) })
		for _, memory := range counts(sizes...) {
			for _, p := range []int{1, 2} {
				b.Run(fmt.Sprintf("dist=uniform/keys=%.0e/memory=%s/goroutines=%d", float64(n), mib(memory), p), func(b *testing.B) {
					f, k := newFloor(memory), uniform()
					warm(k, func(key string) { f.add(key) })
					parallel(b, p, func(first, n int) { k.each(first, n, func(key string) { f.add(key) }) })
				})
			}
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
