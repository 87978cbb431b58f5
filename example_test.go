package sketchlimit_test

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit:  3,
		Window: time.Minute,
		Keys:   1_000_000, // distinct clients expected in a window
	})
	if err != nil {
		panic(err)
	}
	for range 4 {
		d := limiter.Take("203.0.113.7", 1)
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// Time is an argument where it should not come from the wall clock: in tests, and
// when a log is replayed.
func ExampleLimiter_TakeAt() {
	limiter, _ := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 1000})
	start := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	limiter.TakeAt(start, "user:42", 10)
	d := limiter.TakeAt(start.Add(30*time.Second), "user:42", 1)
	fmt.Println(d.Allowed, d.RetryAfter, d.ResetAfter)
	fmt.Println(limiter.TakeAt(start.Add(30*time.Second+d.RetryAfter), "user:42", 1).Allowed)
	// Output:
	// false 36s 1m30s
	// true
}

// Nothing has to be sampled to know how often a limiter errs.
func ExampleLimiter_Stats() {
	limiter, _ := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Hour, MemoryBytes: 64 << 10, Seed: 1,
		Clock: func() time.Time { return time.Unix(0, 0) },
	})
	for i := range 400_000 {
		limiter.Allow(fmt.Sprint("client ", i%20_000))
	}
	s := limiter.Stats()
	fmt.Println(s.Admitted, s.FalseDenialRate < 1e-5)
	fmt.Printf("%.1g keys within 64 KiB: %t\n", s.DistinctKeys, limiter.MemoryBytes() <= 64<<10)
	// Output:
	// 400000 true
	// 2e+04 keys within 64 KiB: true
}
