// Command krakendlimit uses package contrib/krakendlimit as somebody who gets it by its
// version.
package main

import (
	"log"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/contrib/krakendlimit"
)

// Limiter is KrakenD's.
type Limiter interface{ Allow() bool }

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	store, err := krakendlimit.New(limiter)
	if err != nil {
		log.Fatal(err)
	}
	perClient := func(key string) Limiter { return store.Key(key) }
	for _, want := range []bool{true, false} {
		if ok := perClient("ann").Allow(); ok != want {
			log.Fatalf("%v, want %v", ok, want)
		}
	}
}
