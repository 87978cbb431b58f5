package redislimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit/redislimit"
)

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
