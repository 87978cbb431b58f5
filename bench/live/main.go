// Command live holds the false-denial rates that a limiter states of itself against those that it is seen to have, on
// every trace of a folder, for limits, windows and memories.
//
//	go run ./bench/live -data FOLDER
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/exact"
)

// speeds are those of traces whose requests lie hours apart.
var speeds = map[string]float64{"aws_honeypot": 10_000, "reconstructr_sessions": 1000}

// leastWronged is the number of distinct keys from which a measured rate means something.
const leastWronged = 50

func main() {
	folder := flag.String("data", "", "`FOLDER` with traces")
	match := flag.String("only", "", "traces whose `NAME` contains it")
	flag.Parse()
	fmt.Println("| trace | algorithm | window | limit | KiB | keys wronged | measured | of innocent keys | ratio | of a new key | ratio |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	var all tally
	for _, file := range must(filepath.Glob(filepath.Join(*folder, "*.tsv*"))) {
		if name, _, _ := strings.Cut(filepath.Base(file), "."); strings.Contains(name, *match) {
			var one tally
			trace(os.Stdout, name, read(file, name), &one)
			fmt.Fprintf(os.Stderr, "%s: %s\n", name, one)
			all = append(all, one...)
		}
	}
	fmt.Printf("\n%s\n", all)
}

// tally is the quotients of stated and measured rates, by row.
type tally []float64

// String tells how many are within a factor of two, and the worst.
func (t tally) String() string {
	if len(t) == 0 {
		return "no rows"
	}
	within := 0
	for _, q := range t {
		if q > 0.5 && q < 2 {
			within++
		}
	}
	return fmt.Sprintf("stated ÷ measured: %d of %d rows within a factor of 2, all %.2f … %.2f", within, len(t), slices.Min(t), slices.Max(t))
}

func read(file, name string) []accuracy.Request {
	f := must(os.Open(file))
	defer f.Close()
	source := must(accuracy.ReadTrace(f, name, accuracy.Auto))
	if speed, ok := speeds[name]; ok {
		source = must(source.Speed(speed))
	}
	return slices.Collect(source.Requests())
}

func trace(out io.Writer, name string, requests []accuracy.Request, quotients *tally) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		for _, window := range []time.Duration{time.Minute, 10 * time.Minute} {
			for _, limit := range []int{5, 20, 100, 1000} {
				for kib := 4; kib <= 128; kib += max(1, kib/4) {
					c := sketchlimit.Config{Algorithm: algorithm, Limit: limit, Window: window, MemoryBytes: kib << 10, Seed: 1}
					m, err := measure(requests, c)
					if err != nil {
						continue // too little memory
					}
					if m.keys < leastWronged {
						break
					}
					*quotients = append(*quotients, m.innocent/m.rate)
					fmt.Fprintf(out, "| %s | %v | %v | %d | %d | %d | %.1e | %.1e | %.2f | %.1e | %.2f |\n", name, algorithm,
						window, limit, kib, m.keys, m.rate, m.innocent, m.innocent/m.rate, m.fresh, m.fresh/m.rate)
				}
			}
		}
	}
}

// rates are means over the requests of innocent keys.
type rates struct {
	keys                  int // wronged
	rate, innocent, fresh float64
}

// looks is how often Stats is read.
const looks = 1000

func measure(requests []accuracy.Request, c sketchlimit.Config) (m rates, err error) {
	l, err := sketchlimit.New(c)
	if err != nil {
		return rates{}, err
	}
	defer l.Close()
	oracle := must(exact.Of(c))
	keys := map[string]bool{}
	innocents, since, denied := 0, 0, 0
	for i, r := range requests {
		d := oracle.TakeAt(r.Time, r.Key, r.Cost)
		free := d.Remaining
		if d.Allowed {
			free += r.Cost
		}
		innocent := 2*(c.Limit-free) < c.Limit
		if allowed := l.TakeAt(r.Time, r.Key, r.Cost).Allowed; innocent {
			since++
			if !allowed && d.Allowed {
				denied++
				keys[r.Key] = true
			}
		}
		if i%max(1, len(requests)/looks) == 0 {
			s := l.Stats()
			m.fresh += float64(since) * s.FalseDenialRate
			m.innocent += float64(since) * s.InnocentDenialRate
			innocents, since = innocents+since, 0
		}
	}
	m.keys = len(keys)
	m.rate = float64(denied) / float64(innocents)
	m.innocent /= float64(innocents)
	m.fresh /= float64(innocents)
	return m, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
