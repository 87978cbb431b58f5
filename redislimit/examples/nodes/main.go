// Command nodes is one of several machines that share a limit: an HTTP server that admits
// ten requests a minute of each client, all nodes together. run.sh starts two of them and
// a Redis.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit/redislimit"
)

func main() {
	address := flag.String("address", "127.0.0.1:8081", "where to listen")
	server := flag.String("redis", "127.0.0.1:6379", "the Redis that all nodes share")
	flag.Parse()

	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{*server}})
	limiter, err := redislimit.NewStrict(client, redislimit.Config{
		Limit:   10,
		Window:  time.Minute,
		Keys:    100_000,
		Timeout: 100 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*address, handler(limiter)))
}

func handler(limiter *redislimit.Strict) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := limiter.Take(r.Context(), r.URL.Query().Get("client"), 1)
		switch {
		case err != nil: // the client has gone
		case !d.Allowed:
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.RetryAfter.Seconds()))))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		default:
			fmt.Fprintf(w, "%d left\n", d.Remaining)
		}
	})
}
