// Command natslimit uses module natslimit as somebody who gets it by its version. No NATS
// server listens at its address: a node decides alone while NATS is away.
package main

import (
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/natslimit"
)

func main() {
	conn, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true))
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	shared, err := natslimit.NewSynced(js, limiter, 100*time.Millisecond, natslimit.Prefix("stranger"))
	if err != nil {
		log.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if allowed := shared.Allow("ann"); allowed != want {
			log.Fatalf("allowed %v, want %v", allowed, want)
		}
	}
}
