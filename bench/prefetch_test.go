package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// BenchmarkPrefetch measures what two limits cost a request, with Limiter.Prefetch and
// without, in a service that goes through other memory in between: so many lines of 64
// bytes, of 64 MiB in all. What that takes is not in ns/limits. The keys are a million,
// and the limits have met each of them some four times.
func BenchmarkPrefetch(b *testing.B) {
	start := time.Unix(1<<30, 0)
	now := start
	var pair []*sketchlimit.Limiter
	for _, c := range []sketchlimit.Config{{Limit: 100}, {Limit: 40, Algorithm: sketchlimit.FixedWindow}} {
		c.Window, c.Keys, c.Seed, c.Clock = time.Minute, 1e6, 1, func() time.Time { return now }
		l, err := sketchlimit.New(c)
		if err != nil {
			b.Fatal(err)
		}
		pair = append(pair, l)
	}
	random := rand.New(rand.NewPCG(1, 1))
	key := []byte{7: 0}
	draw := func() { binary.LittleEndian.PutUint32(key, random.Uint32N(1<<20)) }
	requests := 4 << 20
	if testing.Short() {
		requests >>= 8
	}
	for i := range requests {
		now = start.Add(time.Duration(i) * 20 * time.Microsecond)
		draw()
		for _, l := range pair {
			l.Do(sketchlimit.Request{Bytes: key})
		}
	}

	memory, at, sum := make([]uint64, 64<<20/8), 0, uint64(0)
	sweep := func(lines int) {
		for range lines {
			at = (at + 8) % len(memory)
			memory[at]++
		}
		for range 30 { // one after the other, as a request's own memory is gone through
			sum += memory[sum*0x9e3779b97f4a7c15>>20%uint64(len(memory))] + 1
		}
		draw()
	}
	for _, lines := range []int{0, 500} {
		for _, prefetch := range []bool{false, true} {
			b.Run(fmt.Sprintf("lines=%d/prefetch=%t", lines, prefetch), func(b *testing.B) {
				var took time.Duration
				for range b.N {
					sweep(lines)
					began := time.Now()
					if prefetch {
						for _, l := range pair {
							l.Prefetch(key)
						}
					}
					for _, l := range pair {
						l.Do(sketchlimit.Request{Bytes: key})
					}
					took += time.Since(began)
					began = time.Now()
					took -= time.Since(began)
				}
				b.ReportMetric(float64(took)/float64(b.N), "ns/limits")
			})
		}
	}
}
