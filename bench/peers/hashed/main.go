// Command hashed compares a token bucket of sketchlimit with an array of buckets that
// keys choose by their hash, in the same memory: the design of webriots/rate. One
// compare-and-swap decides there, and keys that share a bucket share its units. The array
// is written from that project's description, with theoretical arrival times.
//
//	go run -C bench/peers ./hashed
//
// A minute of traffic: a million light keys of three requests and 10,000 heavy ones that
// ask for three times their limit of 100 a minute, in random order.
package main

import (
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"log"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

const (
	limit     = 100
	window    = time.Minute
	lightUse  = 3         // requests of a light key
	heavyUse  = 3 * limit // of a heavy key
	fewRounds = 3
)

func main() {
	log.SetFlags(0)
	quick := flag.Bool("quick", false, "a tenth of the keys")
	flag.Parse()
	l := load{light: 1_000_000, heavy: 10_000}
	if *quick {
		l = load{light: 100_000, heavy: 1000}
	}
	if err := table(os.Stdout, l, []int{2 << 20, 8 << 20, 64 << 20}); err != nil {
		log.Fatal(err)
	}
}

// load is numbers of keys.
type load struct{ light, heavy int }

// requests returns the keys of a minute in random order. Those below l.light are light.
func (l load) requests() []uint32 {
	all := make([]uint32, 0, l.light*lightUse+l.heavy*heavyUse)
	for key := range l.light + l.heavy {
		n := lightUse
		if key >= l.light {
			n = heavyUse
		}
		for range n {
			all = append(all, uint32(key))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// buckets is an array of theoretical arrival times, in ns since the Unix epoch.
type buckets struct {
	seed  maphash.Seed
	times []atomic.Int64
}

// newBuckets returns as many buckets as fit in so many bytes, a power of two.
func newBuckets(bytes int) *buckets {
	n := 1 << (bits.Len(uint(bytes/8)) - 1)
	return &buckets{seed: maphash.MakeSeed(), times: make([]atomic.Int64, n)}
}

// take consumes a unit of the key's bucket.
func (b *buckets) take(now time.Time, key string) bool {
	t := &b.times[maphash.String(b.seed, key)&uint64(len(b.times)-1)]
	at := now.UnixNano()
	for {
		old := t.Load()
		next := max(old, at) + int64(window/limit)
		if next-at > int64(window) {
			return false
		}
		if t.CompareAndSwap(old, next) {
			return true
		}
	}
}

// outcome is of one limiter.
type outcome struct {
	denied float64       // share of the requests of light keys
	took   time.Duration // a decision
	bytes  int           // memory in use
}

// play sends the requests to take, evenly over a minute.
func play(l load, requests []uint32, names []string, take func(now time.Time, key string) bool) (o outcome) {
	begin := time.Unix(1_800_000_000, 0)
	step := window / time.Duration(len(requests))
	denied := 0
	start := time.Now()
	for i, key := range requests {
		if !take(begin.Add(time.Duration(i)*step), names[key]) && int(key) < l.light {
			denied++
		}
	}
	o.took = time.Since(start) / time.Duration(len(requests))
	o.denied = float64(denied) / float64(l.light*lightUse)
	return o
}

// compare plays the requests to both in turns. Times are medians.
func compare(l load, requests []uint32, names []string, bytes int) (sketch, hashed outcome, err error) {
	var times [2][]time.Duration
	for range fewRounds {
		limiter, err := sketchlimit.New(sketchlimit.Config{
			Algorithm: sketchlimit.TokenBucket, Limit: limit, Window: window, MemoryBytes: bytes,
		})
		if err != nil {
			return sketch, hashed, err
		}
		array := newBuckets(bytes)
		sketch = play(l, requests, names, func(now time.Time, key string) bool { return limiter.TakeAt(now, key, 1).Allowed })
		hashed = play(l, requests, names, array.take)
		sketch.bytes, hashed.bytes = limiter.MemoryBytes(), 8*len(array.times)
		times[0], times[1] = append(times[0], sketch.took), append(times[1], hashed.took)
	}
	for i, o := range []*outcome{&sketch, &hashed} {
		slices.Sort(times[i])
		o.took = times[i][fewRounds/2]
	}
	return sketch, hashed, nil
}

// table writes a row for each size of memory.
func table(w io.Writer, l load, sizes []int) error {
	requests, names := l.requests(), make([]string, l.light+l.heavy)
	for i := range names {
		names[i] = fmt.Sprintf("%016x", i)
	}
	fmt.Fprintln(w, "| memory | light requests denied: buckets by hash | sketchlimit, TokenBucket | its time, × that of buckets by hash |\n|---|---|---|---|")
	for _, n := range sizes {
		sketch, hashed, err := compare(l, requests, names, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %d MiB | %s | %s | %.1f |\n", n>>20, share(hashed.denied), share(sketch.denied), float64(sketch.took)/float64(hashed.took))
	}
	return nil
}

func share(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 1e-3:
		return fmt.Sprintf("%.1e", v)
	}
	return fmt.Sprintf("%.2g %%", 100*v)
}
