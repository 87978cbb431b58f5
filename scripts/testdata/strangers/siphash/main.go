// Command siphash uses module siphash as somebody who gets it by its version.
package main

import (
	"log"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/siphash"
)

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 1, Window: 24 * time.Hour, Keys: 1000, Hash: siphash.New([16]byte{1, 2, 3}),
	})
	if err != nil {
		log.Fatal(err)
	}
	if !limiter.Allow("ann") || limiter.Allow("ann") {
		log.Fatal("not one of two requests was admitted")
	}
}
