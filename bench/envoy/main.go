// Command envoy tells how many requests the rate limit service of this repository
// answers, and how many envoyproxy/ratelimit with a redis-server does, on the loopback
// interface of one machine. They take turns.
//
//	go run -C bench/envoy . [-write ../../notes/envoy.md] [-quick]
//
// The tests of this package hold the services against each other, and ours against a
// real Envoy.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"time"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/load"
	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

const (
	callers     = 64
	connections = 4
	clients     = 1_000_000
)

// byAddress are the rules: the window is long enough not to turn often.
var byAddress = servers.Rules{"bench.yaml": `
domain: bench
descriptors:
  - key: remote_address
    rate_limit: {unit: day, requests_per_unit: 100}
`}

func main() {
	log.SetFlags(0)
	write := flag.String("write", "", "write the table between the markers of this Markdown `file`")
	turn := flag.Duration("turn", 10*time.Second, "how long each service is asked at a time")
	rounds := flag.Int("rounds", 7, "how often each service is asked; medians count")
	quick := flag.Bool("quick", false, "one short turn each, whose figures mean nothing: does it work?")
	flag.Parse()
	if *quick {
		*turn, *rounds = time.Second/2, 1
	}
	if err := run(*turn, *rounds, *write); err != nil {
		log.Fatal("bench/envoy: ", err)
	}
}

func run(turn time.Duration, rounds int, write string) error {
	defer servers.Clean()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sides := []*side{{kind: servers.Reference}, {kind: servers.Sketchlimit}}
	for _, s := range sides {
		if err := s.start(dir); err != nil {
			return err
		}
		defer s.service.Kill()
	}
	l := load.Load{Domain: "bench", Key: "remote_address", Values: load.Addresses(clients), Callers: callers, Connections: connections}
	for round := range rounds {
		for _, s := range sides {
			if err := s.turn(l, turn); err != nil {
				return err
			}
			log.Printf("round %d of %d, %s: %.0f requests/s", round+1, rounds, s.kind.Name, s.rounds[round].rate)
		}
	}
	text, err := table(sides)
	if err != nil {
		return err
	}
	fmt.Print(text)
	if write == "" {
		return nil
	}
	return replace(write, text)
}

// replace puts the text between the markers of a file.
func replace(file, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	place := regexp.MustCompile(`(?s)<!-- load:begin -->\n.*<!-- load:end -->`)
	if !place.Match(old) {
		return fmt.Errorf("no markers load:begin and load:end in %s", file)
	}
	return os.WriteFile(file, place.ReplaceAllLiteral(old, []byte("<!-- load:begin -->\n"+text+"<!-- load:end -->")), 0o644)
}
