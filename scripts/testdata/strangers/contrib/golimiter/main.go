// Command golimiter uses module contrib/golimiter as somebody who gets it by its version.
package main

import (
	"context"
	"log"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/contrib/golimiter"
)

func main() {
	limits, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	var store limiter.Store
	if store, err = golimiter.New(limits); err != nil {
		log.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if _, _, _, ok, err := store.Take(context.Background(), "ann"); err != nil || ok != want {
			log.Fatalf("%v, want %v; %v", ok, want, err)
		}
	}
}
