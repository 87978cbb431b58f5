// Command redislimit uses module redislimit as somebody who gets it by its version. No
// Redis listens at its address: Strict decides alone while Redis is away.
package main

import (
	"context"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sketchlimit/sketchlimit/redislimit"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	limiter, err := redislimit.NewStrict(client, redislimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if d, err := limiter.Take(context.Background(), "ann", 1); err != nil || d.Allowed != want {
			log.Fatalf("allowed %v, want %v; %v", d.Allowed, want, err)
		}
	}
}
