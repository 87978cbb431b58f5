package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
)

// paceStep is how often a node decides what has come since, at once: a reading of the clock takes
// as long as a decision.
const paceStep = 20 * time.Millisecond

// allower is a [redislimit.Synced] or the plain limiter beside it.
type allower interface {
	Allow(key string) bool
	Take(key string, n int) sketchlimit.Decision
}

// pace is how long decisions took, in ns, by call and limiter: the mean of each step.
type pace struct{ Allow, PlainAllow, Take, PlainTake []float64 }

// measure offers a key to a node's limiter and to one like it that shares with nobody, as many times
// each, one before the other by turns.
func (l *load) measure(s *redislimit.Synced, plain *sketchlimit.Limiter) (p pace, offered int) {
	for step := 0; time.Now().Before(l.End); step++ {
		time.Sleep(paceStep)
		due := int(time.Since(l.Start).Seconds()*float64(l.Rate)) - offered
		if due < 1 || due > 2*l.Rate/int(time.Second/paceStep) { // stopped for long: clients do not wait
			offered += max(0, due)
			continue
		}
		shared, alone := &p.Allow, &p.PlainAllow
		decide := func(a allower) { a.Allow("k") }
		if step/2%2 == 1 {
			shared, alone = &p.Take, &p.PlainTake
			decide = func(a allower) { a.Take("k", 1) }
		}
		clocked := func(a allower, to *[]float64) {
			start := time.Now()
			for range due {
				decide(a)
			}
			*to = append(*to, float64(time.Since(start))/float64(due))
		}
		if step%2 == 0 {
			clocked(s, shared)
			clocked(plain, alone)
		} else {
			clocked(plain, alone)
			clocked(s, shared)
		}
		offered += due
	}
	return p, offered
}

// paces prints how long decisions take while nodes share the limit of a key that is offered 50
// times that.
func paces(windows int) {
	l := hot(windows)
	l.Pace = true
	results, _ := run(l, 0)
	offered := 0
	for i, r := range results {
		offered += r.Offered
		allow, plainAllow, take, plainTake := median(r.Pace.Allow), median(r.Pace.PlainAllow), median(r.Pace.Take), median(r.Pace.PlainTake)
		fmt.Printf("node %d: Allow %.1f ns, plain %.1f, %.2f times; Take %.1f ns, plain %.1f, %.2f times; medians of %d steps of %v\n",
			i, allow, plainAllow, allow/plainAllow, take, plainTake, take/plainTake, len(r.Pace.Take)+len(r.Pace.Allow), paceStep)
	}
	fmt.Printf("%d nodes, limit %d per %v, one key, offered %.1f times the limit, interval %v\n", nodes, l.Limit, l.Window,
		float64(offered)/float64(l.Limit*(windows+1)), l.Interval)
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	slices.Sort(of)
	return of[len(of)/2]
}
