// Command audit holds the rates that limiters count of themselves, see
// [sketchlimit.Audit], against those of all their requests, on every trace of a folder,
// in limiters that are too small.
//
//	go run ./bench/audit -data FOLDER
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

const (
	leastDenied = 10 // requests from which on a rate means something
	auditBytes  = 16 << 10
)

func main() {
	folder := flag.String("data", "", "`FOLDER` with traces")
	match := flag.String("only", "", "traces whose `NAME` contains it")
	seeds := flag.Uint64("seeds", 1, "`NUMBER` of seeds of each row")
	flag.Parse()
	fmt.Println("| trace | algorithm | window | limit | KiB | seed | denied | measured | audited | low | high | share |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	var all tally
	for _, file := range must(filepath.Glob(filepath.Join(*folder, "*.tsv*"))) {
		if name, _, _ := strings.Cut(filepath.Base(file), "."); strings.Contains(name, *match) {
			trace(os.Stdout, name, read(file, name), *seeds, &all)
		}
	}
	fmt.Printf("\n%d rows with %d denials or more, %d outside the interval; %d units over-admitted\n", all.rows, leastDenied, all.outside, all.over)
}

// tally is what all rows come to.
type tally struct {
	rows, outside int
	over          uint64
}

func read(file, name string) []accuracy.Request {
	f := must(os.Open(file))
	defer f.Close()
	source := must(accuracy.ReadTrace(f, name))
	if speed, ok := speeds[name]; ok {
		source = must(source.Speed(speed))
	}
	return slices.Collect(source.Requests())
}

func trace(out io.Writer, name string, requests []accuracy.Request, seeds uint64, all *tally) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		for _, limit := range []int{5, 20, 100, 1000} {
			for _, kib := range []int{4, 16} {
				for seed := range seeds {
					c := sketchlimit.Config{
						Algorithm: algorithm, Limit: limit, Window: time.Minute, Seed: seed + 1,
						MemoryBytes: kib<<10 + auditBytes + 1<<10, AuditBytes: auditBytes,
					}
					m := measure(requests, c)
					all.over += m.audit.OverAdmitted
					if m.denied < leastDenied {
						continue
					}
					rate, low, high := m.audit.Rate()
					measured := float64(m.denied) / float64(m.light)
					all.rows++
					if measured < low || measured > high {
						all.outside++
					}
					fmt.Fprintf(out, "| %s | %v | %v | %d | %d | %d | %d | %.2e | %.2e | %.1e | %.1e | %.3g |\n", name, algorithm,
						c.Window, limit, kib, c.Seed, m.denied, measured, rate, low, high, m.audit.Share)
				}
			}
		}
	}
}

// measured is the requests of light keys, and how many of them were denied wrongly,
// beside what the limiter has counted.
type measured struct {
	light, denied int
	audit         sketchlimit.Audit
}

func measure(requests []accuracy.Request, c sketchlimit.Config) (m measured) {
	l := must(sketchlimit.New(c))
	defer l.Close()
	oracle := must(exact.Of(c))
	for _, r := range requests {
		d := oracle.TakeAt(r.Time, r.Key, r.Cost)
		free := d.Remaining
		if d.Allowed {
			free += r.Cost
		}
		allowed := l.TakeAt(r.Time, r.Key, r.Cost).Allowed
		if d.Allowed && 2*(c.Limit-free) < c.Limit {
			m.light++
			if !allowed {
				m.denied++
			}
		}
	}
	m.audit = l.Stats().Audit
	return m
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
