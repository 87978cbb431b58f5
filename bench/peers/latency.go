package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sketchlimit/sketchlimit"
)

// timings are the durations of decisions, in nanoseconds.
type timings struct {
	all    *hdrhistogram.Histogram
	passes []*hdrhistogram.Histogram // the same by round
}

// latency is one limiter's decisions while its window turns, and another's, alike but
// for a window that has turned before and does not again.
type latency struct {
	size
	turning, still timings
	turns          int // while decisions were made
}

// latencies are the results, and what the timer itself takes.
type latencies struct {
	timer timings
	cases []latency
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 3) }

// latencyOf times decisions one by one. No garbage is collected meanwhile: decisions
// make none.
func latencyOf(s scale, progress io.Writer) (latencies, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var l latencies
	for range s.passes {
		h := newHistogram()
		if err := timeEach(nothing{}, hot(1, 1), 0, s.timed/batchKeys, h); err != nil {
			return l, err
		}
		l.timer.add(h)
	}
	var k keys
	for _, size := range s.latencies {
		fmt.Fprintln(progress, "latencies of", mebibytes(size.memory), "with", count(size.keys), "keys")
		if k.distinct != size.keys {
			k = uniform(size.keys)
		}
		c, err := latencyCase(s, size, k)
		if err != nil {
			return l, err
		}
		l.cases = append(l.cases, c)
		runtime.GC()
	}
	return l, nil
}

func latencyCase(s scale, size size, k keys) (latency, error) {
	result := latency{size: size}
	w := workload{keys: k, limit: limit, size: size, warm: 1, turns: true}

	turning, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: s.turning, MemoryBytes: size.memory})
	if err != nil {
		return result, err
	}
	defer turning.Close()
	still := &contestant{implementation: implementations[0]}
	if err := still.prepare(w); err != nil {
		return result, err
	}
	defer free(still)
	// Through all generations that there are, so that none of their memory is new.
	for end := time.Now().Add(3 * s.turning); time.Now().Before(end); {
		(&contestant{limiter: turning}).warm(w)
	}

	at := 0
	for range s.passes {
		t, u := newHistogram(), newHistogram()
		// In turns of a tenth: so the noise of the machine hits both, and windows
		// turn while decisions are made as well as between them.
		n := s.timed / batchKeys / 10
		for range 10 {
			before := time.Now().UnixNano() / int64(s.turning)
			if err := timeEach(turning, k, at, n, t); err != nil {
				return result, err
			}
			result.turns += int(time.Now().UnixNano()/int64(s.turning) - before)
			if err := timeEach(still.limiter, k, at, n, u); err != nil {
				return result, err
			}
			at += n
		}
		result.turning.add(t)
		result.still.add(u)
	}
	return result, nil
}

// nothing is a limiter that takes no time, to see what the timer takes.
type nothing struct{}

func (nothing) Allow(string) bool { return true }

// timeEach times every decision of so many batches from the first-th on.
func timeEach(l limiter, k keys, first, batches int, h *hdrhistogram.Histogram) error {
	base := time.Now() // time.Since reads the monotonic clock alone, time.Now two
	admitted := 0
	for i := range batches {
		for batch := k.batch(first + i); len(batch) >= keyBytes; batch = batch[keyBytes:] {
			key := view(batch)
			start := time.Since(base)
			ok := l.Allow(key)
			took := time.Since(base) - start
			if ok {
				admitted++
			}
			if err := h.RecordValue(int64(took)); err != nil {
				return err
			}
		}
	}
	if all := batches * batchKeys; admitted < all-all/1000 {
		return fmt.Errorf("latency: %d of %d requests admitted, want all", admitted, all)
	}
	return nil
}

func (t *timings) add(h *hdrhistogram.Histogram) {
	if t.all == nil {
		t.all = newHistogram()
	}
	t.all.Merge(h)
	t.passes = append(t.passes, h)
}

// at is the median over the rounds of what a share of the decisions, in percent, took
// at most.
func (t *timings) at(percentile float64) float64 {
	return median(t.passes, func(h *hdrhistogram.Histogram) float64 {
		return float64(h.ValueAtQuantile(percentile))
	})
}

// ratio is how much longer the slowest decisions take while windows turn: the median
// over the rounds.
func (l *latency) ratio(percentile float64) float64 {
	ratios := make([]float64, len(l.turning.passes))
	for i, h := range l.turning.passes {
		ratios[i] = float64(h.ValueAtQuantile(percentile)) / float64(l.still.passes[i].ValueAtQuantile(percentile))
	}
	return median(ratios, func(r float64) float64 { return r })
}
