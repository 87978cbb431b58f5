package budget_test

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// Tokens of a language model: a request holds its prompt and the most that the answer
// may have, and settles what it had.
func Example() {
	tokens, err := budget.New(budget.Config{
		Limits: []sketchlimit.Config{
			{Limit: 10_000, Window: time.Minute, Keys: 1_000_000},
			{Limit: 200_000, Window: 24 * time.Hour, Keys: 1_000_000},
		},
		InFlight: 100_000,
		HoldFor:  2 * time.Minute,
	})
	if err != nil {
		panic(err)
	}
	defer tokens.Close()

	first, d := tokens.Hold("user:42", 6000)
	fmt.Println(d.Allowed, d.Remaining)
	_, d = tokens.Hold("user:42", 6000) // while the first one runs
	fmt.Println(d.Allowed, d.Remaining, "limit", d.By)
	first.Settle(1500) // the answer was short
	_, d = tokens.Hold("user:42", 6000)
	fmt.Println(d.Allowed, d.Remaining)
	// Output:
	// true 4000
	// false 4000 limit 0
	// true 2500
}

// A stream that turns out longer holds more, and keeps its hold alive.
func ExampleHold_Extend() {
	seconds, err := budget.New(budget.Config{
		Limits:   []sketchlimit.Config{{Limit: 100, Window: time.Hour, Keys: 10_000}},
		InFlight: 1000,
		HoldFor:  time.Minute,
	})
	if err != nil {
		panic(err)
	}
	defer seconds.Close()

	used := 0
	stream, _ := seconds.Hold("ann", 40)
	for range 3 {
		used += 40
		if !stream.Extend(40).Allowed {
			break
		}
	}
	fmt.Println(used, stream.Settle(used), stream.Settle(used))
	// Output: 80 true false
}
