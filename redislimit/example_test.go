package redislimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
)

// The lines are those of docs/machines.md.
func ExampleNewSynced() {
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}})
	limiter := must(sketchlimit.New(sketchlimit.Config{
		Limit: 1000, Window: time.Minute,
		Keys: 3_000_000,        // three times the distinct keys of all machines
		Seed: 0x5bd1e995973b21, // a secret of yours, the same on all machines
	}))
	shared := must(redislimit.NewSynced(client, limiter, 100*time.Millisecond, redislimit.Prefix("api")))
	defer shared.Close() // tells the others what this machine has admitted
	fmt.Println(shared.Allow("user:42"))
}

// must returns v, or ends the program.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func ExampleNewStrict() {
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}})
	limiter, err := redislimit.NewStrict(client, redislimit.Config{
		Limit:   100,
		Window:  time.Minute,
		Keys:    1_000_000,
		Timeout: 50 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Take(context.Background(), "192.0.2.1", 1)
	fmt.Println(d.Allowed, d.Remaining, err)
}
