package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	limit      = 100
	hotLimit   = 60_000 // of keys that are hot and admitted: beyond their hotBatches
	hotBatches = 48
	rejected   = 3 * limit // requests of a key that is to be denied, before timing
)

// goroutines are the numbers of them that decide at once.
var goroutines = [2]int{1, 2}

// workload is a sequence of keys that every limiter decides on.
type workload struct {
	keys    keys
	limit   int
	size    size // that limiters are built for
	warm    int  // requests of each key before timing
	batches int  // in a round, for each number of goroutines
	denied  bool // all of them, when timing begins
	turns   bool // a window turns after each key has been seen, and they are seen again
}

// contestant is an implementation in a workload and what was measured of it.
type contestant struct {
	implementation
	limiter limiter
	window  time.Duration
	bytes   float64 // live heap per key
	gc      time.Duration
	at      int // the next batch
	runs    [len(goroutines)][]run
}

// run is one round's measurement.
type run struct {
	ns     float64 // per decision
	ratio  float64 // to this library in the same round
	allocs float64 // per decision
	passed float64 // share of the window that had passed
}

// prepare builds the contestant's limiter and shows it all keys, in another order than
// that of their use: or else what maps keep of them would lie in memory in this order.
func (c *contestant) prepare(w workload) error {
	before := liveBytes()
	if c.generations && w.turns {
		// Keys come in every window, so the previous one's memory is in use as well.
		for allowance := time.Duration(w.keys.distinct) * 500 * time.Nanosecond; ; {
			begun := time.Now()
			turn := begun.Add(allowance)
			if err := c.start(w, windowFrom(turn, w.size.window)); err != nil {
				return err
			}
			if time.Now().Before(turn) {
				time.Sleep(time.Until(turn.Add(50 * time.Millisecond)))
				break
			}
			allowance = time.Since(begun) * 3 / 2 // not all keys came before the turn
			free(c)
		}
		c.warm(w)
	} else if err := c.start(w, windowFrom(time.Now(), w.size.window)); err != nil {
		return err
	}
	start := time.Now()
	after := liveBytes()
	c.gc = time.Since(start)
	c.bytes = float64(after-before) / float64(w.keys.distinct)
	return nil
}

// start builds the limiter and shows it all keys.
func (c *contestant) start(w workload, window time.Duration) (err error) {
	c.window = window
	c.limiter, err = c.build(settings{w.limit, window, w.size})
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	c.warm(w)
	return nil
}

// windowFrom is the length, about so much, of windows since the Unix epoch one of which
// begins at t, less a millisecond at most.
func windowFrom(t time.Time, length time.Duration) time.Duration {
	ns := t.UnixNano()
	return time.Duration(ns / (ns / int64(length)))
}

func (c *contestant) warm(w workload) {
	key := make([]byte, keyBytes)
	for id := range w.keys.distinct {
		name(key, uint64(id))
		seen := view(key)
		if c.keeps {
			seen = strings.Clone(seen) // as each request has its own
		}
		for range w.warm {
			c.limiter.Allow(seen)
		}
	}
}

// free lets go of the limiters' memory.
func free(contestants ...*contestant) {
	for _, c := range contestants {
		if l, ok := c.limiter.(io.Closer); ok {
			l.Close()
		}
		c.limiter = nil
	}
	runtime.GC()
	runtime.Gosched() // to finalizers, of which one more collection frees the rest
	runtime.GC()
}

// liveBytes is the heap in use after a collection.
func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// compete times the contestants round by round, one after another, so that the noise of
// the machine hits all alike. The first one is what the others are compared with.
func compete(w workload, rounds int, contestants ...*contestant) error {
	for round := range rounds {
		for g, n := range goroutines {
			first := 0.0
			for i := range contestants {
				// The order changes, so that none has always the same one's
				// remains in the caches; the first goes first, as all need it.
				c := contestants[0]
				if i > 0 {
					c = contestants[1+(i+round)%(len(contestants)-1)]
				}
				r, err := c.time(w, n)
				if err != nil {
					return err
				}
				if i == 0 {
					first = r.ns
				}
				r.ratio = r.ns / first
				c.runs[g] = append(c.runs[g], r)
			}
		}
	}
	return nil
}

// time makes one round's decisions in n goroutines.
func (c *contestant) time(w workload, n int) (run, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	admitted := decide(c.limiter, w.keys, c.at, w.batches, n)
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	c.at += w.batches

	decisions := w.batches * batchKeys
	expected := decisions
	if w.denied {
		expected = 0
	}
	// Token buckets admit a unit now and then, and a sketch may err; a limiter that
	// does so more often than once in a thousand is doing other work than the others.
	if off := max(admitted-expected, expected-admitted); off > decisions/1000 {
		return run{}, fmt.Errorf("%s: %d of %d requests admitted, want %d", c.name, admitted, decisions, expected)
	}
	return run{
		ns:     float64(elapsed) / float64(decisions),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(decisions),
		passed: float64(start.UnixNano()%int64(c.window)) / float64(c.window),
	}, nil
}

// decide makes the decisions of so many batches, from the first-th on, in n goroutines,
// and returns how many keys were admitted.
func decide(l limiter, k keys, first, batches, n int) int {
	if n == 1 {
		admitted := 0
		for i := range batches {
			admitted += decideBatch(l, k.batch(first+i))
		}
		return admitted
	}
	var next, sum atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			admitted := 0
			for {
				i := int(next.Add(1)) - 1
				if i >= batches {
					break
				}
				admitted += decideBatch(l, k.batch(first+i))
			}
			sum.Add(int64(admitted))
		})
	}
	wg.Wait()
	return int(sum.Load())
}

func decideBatch(l limiter, batch []byte) int {
	admitted := 0
	for ; len(batch) >= keyBytes; batch = batch[keyBytes:] {
		if l.Allow(view(batch)) {
			admitted++
		}
	}
	return admitted
}

// median of the runs' values, of which there is at least one.
func median[T any](runs []T, value func(T) float64) float64 {
	v := make([]float64, len(runs))
	for i, r := range runs {
		v[i] = value(r)
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
