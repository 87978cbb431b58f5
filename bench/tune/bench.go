package main

import (
	"fmt"
	"io"
	"log"
	"math"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// bench is what the flags ask for.
type bench struct {
	out       io.Writer
	keys      float64 // of a window
	limit     int     // 0 is all
	load      string  // how the names of loads begin
	algorithm string  // how those of algorithms do
	data      string  // the folder of traces
}

// head prints the head of a table.
func (b *bench) head(columns ...string) {
	b.row(columns...)
	b.row(strings.Split(strings.Repeat("---,", len(columns)-1)+"---", ",")...)
}

func (b *bench) row(cells ...string) { fmt.Fprintf(b.out, "| %s |\n", strings.Join(cells, " | ")) }

type load struct {
	name    string
	traffic tune.Traffic // of one key
}

var (
	uniform = load{"uniform", tune.Traffic{}}
	abusers = load{"1 % abusers", tune.Traffic{Abusers: 0.01}}
	loads   = []load{
		uniform,
		{"Zipf 0.7", tune.Traffic{Exponent: 0.7}},
		{"Zipf 1.0", tune.Traffic{Exponent: 1}},
		{"Zipf 1.2", tune.Traffic{Exponent: 1.2}},
		{"0.1 % abusers", tune.Traffic{Abusers: 0.001}},
		abusers,
		{"5 % abusers", tune.Traffic{Abusers: 0.05}},
		{"scan", tune.Traffic{Exponent: 1, OneHit: 0.9}},
	}
	limits = []int{5, 100, 1000}
)

const (
	mostRequests = 12e6 // a window: where abusers send more, there are fewer keys
	requestsAKey = 5    // beside those of abusers, who send three times the limit
	// A plan is sized for a false-denial rate of target, or a lost share of lost
	// times that.
	target       = 1e-3
	lostOfTarget = 5
)

// at returns the traffic of so many keys.
func (l *load) at(keys float64, limit int) tune.Traffic {
	t := l.traffic
	t.Keys = int(keys)
	t.Requests = requestsAKey*t.Keys + 3*limit*int(math.Round(t.Abusers*keys))
	return t
}

// most returns the keys for the load, fewer than asked for if they sent too much.
func (l *load) most(keys float64, limit int) float64 {
	return math.Min(keys, mostRequests/(requestsAKey+3*l.traffic.Abusers*float64(limit)))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// planned returns the plan for a goal that must be within reach.
func planned(t tune.Traffic, g tune.Goal) (sketchlimit.Plan, tune.Forecast) {
	p, f, err := tune.Plan(t, g)
	return must(p, err), f
}

const window = time.Minute
