// Command soak keeps the rate limit service under load for as long as it is told to,
// while its rules are read again every second. It fails if an answer is an error, if a
// client is admitted beyond its limit, or if memory, goroutines or file descriptors
// grow.
//
//	go run -C bench/envoy ./soak [-for 10m]
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

func main() {
	log.SetFlags(0)
	last := flag.Duration("for", 10*time.Minute, "how long")
	flag.Parse()
	if err := run(os.Stdout, *last); err != nil {
		log.Fatal("soak: ", err)
	}
}

func run(out io.Writer, last time.Duration) error {
	defer servers.Clean()
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	service, err := servers.Sketchlimit.Start(dir, rules(0))
	if err != nil {
		return err
	}
	defer service.Kill()
	return soak(out, service, last)
}

// rules are those after so many reloads: a limit changes, a rule comes and goes, and
// the judged rule stays.
func rules(reload int) servers.Rules {
	passing := ""
	if reload%2 == 1 {
		passing = `
  - key: passing
    rate_limit: {unit: minute, requests_per_unit: 7}`
	}
	return servers.Rules{file: fmt.Sprintf(`
domain: soak
descriptors:
  - key: judged
    rate_limit: {unit: day, requests_per_unit: %d}
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: %d}%s
`, judgedLimit, clientsLimit(reload), passing)}
}

func clientsLimit(reload int) int { return 50 + reload%10 }

const (
	file        = "soak.yaml"
	judgedLimit = 100
)
