//go:build unix

package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// many makes limiters that decide twice and are asked no more.
func many(n int, lasts time.Duration) error {
	all := make([]*sketchlimit.Limiter, n)
	for i := range all {
		all[i] = limiter(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 10})
		all[i].Allow("k")
		all[i].Allow("k")
	}
	runtime.GC()
	time.Sleep(100 * time.Millisecond)
	goroutines, start := runtime.NumGoroutine(), used()
	time.Sleep(lasts)
	share := float64(used()-start) / float64(lasts)
	runtime.KeepAlive(all)
	fmt.Printf("%d idle limiters: %d goroutines, %.3f %% of a core over %v\n", n, goroutines, 100*share, lasts)
	if goroutines > 10 || share > 0.01 {
		return errors.New("idle limiters cost too much")
	}
	return nil
}

// used returns the processor time of the process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// inUse asks limiters in turn, each twice: the second time it may decide by the time of
// the first. What a decision took for the time follows from what it tells of the end of
// its window.
func inUse(n int, lasts time.Duration) error {
	const window = time.Hour
	all := make([]*sketchlimit.Limiter, n)
	for i := range all {
		all[i] = limiter(sketchlimit.Config{Limit: 1 << 30, Window: window, Keys: 10, Algorithm: sketchlimit.FixedWindow})
	}
	var last atomic.Int64
	start := time.Now()
	ticker := time.NewTicker(sketchlimit.Resolution)
	defer ticker.Stop()
	go func() { // the bare ticker
		for now := range ticker.C {
			_ = now // when it was due
			last.Store(int64(time.Since(start)))
		}
	}()
	var ours, bare []time.Duration
	for i := 0; time.Since(start) < lasts; i++ {
		l := all[i%n]
		l.Allow("k")
		for range 3 {
			since, now := time.Since(start), sketchlimit.Now()
			tick := last.Load()
			d := l.Take("k", 1)
			end := now.Truncate(window).Add(window)
			if taken := end.Add(sketchlimit.Resolution - d.ResetAfter); now.Sub(taken) < window/2 {
				ours, bare = append(ours, now.Sub(taken)), append(bare, since-time.Duration(tick))
			}
		}
	}
	slices.Sort(ours)
	slices.Sort(bare)
	at := func(d []time.Duration, part float64) time.Duration { return d[int(part*float64(len(d)-1))] }
	fmt.Printf("%d limiters in use, %d decisions: their time is old by, and the last tick of a bare ticker:\n", n, len(ours))
	late := false
	for _, part := range []float64{0.5, 0.99, 0.999, 1} {
		o, b := at(ours, part), at(bare, part)
		fmt.Printf("- %5.1f %% at most %v, %v\n", 100*part, o.Round(time.Microsecond), b.Round(time.Microsecond))
		late = late || o > 2*max(b, sketchlimit.Resolution)
	}
	if late {
		return errors.New("the time of decisions is too old")
	}
	return nil
}
