package natslimit_test

import (
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/natslimit"
)

func ExampleNewSynced() {
	conn, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 1000, Window: time.Minute,
		Keys: 3_000_000,        // three times the distinct keys of all machines
		Seed: 0x5bd1e995973b21, // a secret of yours, the same on all machines
	})
	if err != nil {
		log.Fatal(err)
	}
	shared, err := natslimit.NewSynced(js, limiter, 100*time.Millisecond, natslimit.Prefix("api"))
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close() // tells the others what this machine has admitted
	if !shared.Allow("user:42") {
		fmt.Println("too many requests")
	}
}
