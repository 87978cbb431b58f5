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

// The lines are those of docs/machines.md.
func ExampleNewSynced() {
	js := must(jetstream.New(must(nats.Connect("nats://127.0.0.1:4222"))))
	limiter := must(sketchlimit.New(sketchlimit.Config{
		Limit: 1000, Window: time.Minute,
		Keys: 3_000_000,        // three times the distinct keys of all machines
		Seed: 0x5bd1e995973b21, // a secret of yours, the same on all machines
	}))
	shared := must(natslimit.NewSynced(js, limiter, 100*time.Millisecond, natslimit.Prefix("api")))
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
