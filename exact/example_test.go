package exact_test

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit/exact"
)

func Example() {
	l, err := exact.NewSlidingWindow(10, time.Minute)
	if err != nil {
		panic(err)
	}
	now := time.Date(2024, 2, 24, 12, 0, 0, 0, time.UTC)
	fmt.Println(l.TakeAt(now, "192.0.2.7", 10).Allowed)
	fmt.Println(l.TakeAt(now, "192.0.2.7", 1).RetryAfter)
	// Output:
	// true
	// 1m6s
}
