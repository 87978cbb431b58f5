package main

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// playMany makes thousands of limiters by the default clock, asks them from many
// goroutines and lets go of them, of some without Close. Goroutines must stay few, and
// what was let go of must be collected.
func playMany(t *trial) {
	const others = 120 // goroutines of an episode beside this one
	limiters := 500 + t.IntN(1500)
	before := runtime.NumGoroutine()
	var kept, collected atomic.Int64
	var crew crew
	all := make([]subject, limiters)
	limit := 1 + t.IntN(5)
	for w := range 4 {
		r := newRand(t.Uint64())
		crew.start(func() {
			for i := w; i < limiters; i += 4 {
				c := sketchlimit.Config{Limit: limit, Window: 24 * time.Hour, Algorithm: anyWindow(r), MemoryBytes: 8 << 10, Seed: 1}
				l, err := t.b.make.limiter(c)
				if err != nil {
					panic(err)
				}
				admitted := 0
				for range limit + 3 {
					if l.Allow("key") {
						admitted++
					}
				}
				if admitted > 2*limit { // midnight
					panic("over-admission")
				}
				all[i] = l
				runtime.AddCleanup(unwrap(l), func(int) { collected.Add(1) }, 0)
			}
		})
	}
	crew.Wait()
	time.Sleep(20 * time.Millisecond) // they go on by themselves, if they do
	if now := runtime.NumGoroutine(); now > before+others {
		t.fail("goroutines", "%d goroutines with %d limiters, %d before", now, limiters, before)
	}
	for i, l := range all {
		if t.IntN(3) == 0 {
			l.Close()
			if t.IntN(2) == 0 {
				l.Close()
			}
		}
		if t.IntN(50) > 0 {
			all[i] = nil
		} else {
			kept.Add(1)
		}
	}
	want := int64(limiters) - kept.Load()
	for range 60 { // some may be on somebody's stack still
		if runtime.GC(); collected.Load() >= want {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := collected.Load(); n < want {
		t.fail("kept", "%d of %d limiters collected that nobody has", n, want)
	}
	if now := runtime.NumGoroutine(); now > before+others {
		t.fail("goroutines", "%d goroutines after %d limiters were let go of, %d before", now, want, before)
	}
	for _, l := range all { // those that are left go on
		if l != nil && l.Allow("key") && l.Allow("key") && limit == 1 {
			t.fail("over-admission", "a limiter that others have left admits more than its limit")
		}
	}
	runtime.KeepAlive(all)
	for _, p := range crew.panics {
		t.fail("panic", "%v", p)
	}
	t.steps += limiters
}
