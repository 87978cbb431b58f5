package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"
)

// scale is how much of everything the measurements take.
type scale struct {
	rounds    int
	few, many size // all limiters side by side, and one at a time beside this library

	latencies []size
	passes    int           // rounds of the latencies
	timed     int           // decisions in each, timed one by one
	turning   time.Duration // the window that turns meanwhile
}

// size is the number of keys that a limiter is built for, the bytes that this library's
// is given, the decisions of each limiter in a round, which begins with caches full of
// another one's memory, and a window that is long enough for all that is measured, and
// not so long that it would all fall on the first percents, in which the window before
// matters most.
type size struct {
	keys, memory, decisions int
	window                  time.Duration
}

var (
	full = scale{
		rounds: 5,
		few:    size{1e6, 1 << 20, 960_000, 2 * time.Minute}, many: size{1e7, 8 << 20, 2_880_000, 6 * time.Minute},
		latencies: []size{{keys: 1e6, memory: 4 << 20, window: time.Hour}, {keys: 1e7, memory: 256 << 20, window: time.Hour}, {keys: 1e7, memory: 1 << 30, window: time.Hour}},
		passes:    5, timed: 6e6, turning: time.Second,
	}
	quick = scale{
		rounds: 3,
		few:    size{1e5, 1 << 20, 96_000, 20 * time.Second}, many: size{5e5, 4 << 20, 96_000, 20 * time.Second},
		latencies: []size{{keys: 1e5, memory: 1 << 20, window: time.Hour}, {keys: 5e5, memory: 16 << 20, window: time.Hour}},
		passes:    2, timed: 1e6, turning: 50 * time.Millisecond,
	}
)

// comparison is every limiter's results, in the order of implementations.
type comparison struct {
	few, many, hot, denied []*contestant
}

// compare measures all implementations. Garbage is collected between the measurements
// only, or it would stop limiters that have nothing to do with it; how long that takes
// is measured apart.
func compare(s scale, progress io.Writer) (c comparison, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	batches := s.few.decisions / batchKeys
	hotKeys := (len(goroutines)*s.rounds*batches + hotBatches - 1) / hotBatches
	few := workload{keys: uniform(s.few.keys), limit: limit, size: s.few, warm: 1, batches: batches, turns: true}
	many := workload{keys: uniform(s.many.keys), limit: limit, size: s.many, warm: 1, batches: s.many.decisions / batchKeys, turns: true}
	oneHot := workload{keys: hot(hotKeys, hotBatches), limit: hotLimit, size: s.few, warm: 1, batches: batches}
	oneDenied := workload{keys: hot(1, 1), limit: limit, size: s.few, warm: rejected, batches: batches, denied: true}

	fmt.Fprintln(progress, count(s.few.keys), "keys, all limiters side by side")
	if c.few, err = sideBySide(few, s.rounds); err != nil {
		return c, err
	}
	fmt.Fprintln(progress, "one hot key")
	if c.hot, err = sideBySide(oneHot, s.rounds); err != nil {
		return c, err
	}
	fmt.Fprintln(progress, "one hot denied key")
	if c.denied, err = sideBySide(oneDenied, s.rounds); err != nil {
		return c, err
	}
	c.many, err = oneByOne(many, s.rounds, func(c *contestant) {
		fmt.Fprintln(progress, count(s.many.keys), "keys,", c.title())
	})
	return c, err
}

func contestants() []*contestant {
	c := make([]*contestant, len(implementations))
	for i := range c {
		c[i] = &contestant{implementation: implementations[i]}
	}
	return c
}

// sideBySide has all limiters in memory and takes turns among them.
func sideBySide(w workload, rounds int) ([]*contestant, error) {
	all := contestants()
	defer free(all...)
	for _, c := range all {
		if err := c.prepare(w); err != nil {
			return nil, err
		}
	}
	return all, compete(w, rounds, all...)
}

// oneByOne has one limiter in memory beside one of this library's, and takes turns
// between the two: all of them together would need many gigabytes. This library's is
// new each time, or it would be asked for more than it was built for.
func oneByOne(w workload, rounds int, progress func(*contestant)) ([]*contestant, error) {
	all := contestants()
	for _, c := range all[1:] {
		progress(c)
		for _, c := range []*contestant{all[0], c} {
			if err := c.prepare(w); err != nil {
				return nil, err
			}
		}
		err := compete(w, rounds, all[0], c)
		free(all[0], c)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
