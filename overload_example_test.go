package sketchlimit_test

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// A limiter for a thousand clients meets many more. It grows as far as it may, and then refuses only those of whom it
// is certain that they are above the limit.
func ExampleOverload() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Hour,
		Keys: 1000, MaxMemoryBytes: 64 << 10, Overload: sketchlimit.Spare,
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close()
	began, now := limiter.MemoryBytes(), time.Unix(0, 0)
	take := func(key string, n int) bool {
		now = now.Add(100 * time.Millisecond)
		return limiter.TakeAt(now, key, n).Allowed
	}

	for i := range 3000 {
		take(fmt.Sprint("client ", i), 20)
	}
	for limiter.MemoryBytes() == began { // it grows beside the requests
		time.Sleep(time.Millisecond)
	}
	for i := range 100_000 { // in three windows
		take(fmt.Sprint("more ", i), 20)
	}
	fmt.Println("spares:", limiter.Stats().Spared.Active, "in at most 64 KiB:", limiter.MemoryBytes() <= 64<<10)

	refused, admitted := 0, 0
	for i := range 1000 {
		if !take(fmt.Sprint("newcomer ", i), 1) {
			refused++
		}
	}
	for range 10_000 {
		if take("abuser", 1) {
			admitted++
		}
	}
	fmt.Println("newcomers refused:", refused)
	fmt.Println("an abuser is stopped:", admitted < 1000)
	// Output:
	// spares: true in at most 64 KiB: true
	// newcomers refused: 0
	// an abuser is stopped: true
}
