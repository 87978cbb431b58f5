package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/waiting"
)

func Example() {
	limiter, err := exact.NewGCRA(5, time.Second, 20) // 5 a second for each host, 20 at once
	if err != nil {
		panic(err)
	}
	queue, err := waiting.New(limiter)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(queue.Wait(ctx, sketchlimit.Request{Key: "example.com"}))
	fmt.Println(queue.Wait(ctx, sketchlimit.Request{Key: "example.com", N: 19}))
	hurried, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	err = queue.Wait(hurried, sketchlimit.Request{Key: "example.com"})
	fmt.Println(errors.Is(err, waiting.ErrDeadline))
	// Output:
	// <nil>
	// <nil>
	// true
}
