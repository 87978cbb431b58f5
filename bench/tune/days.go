package main

import (
	"fmt"
	"io"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/tune"
)

// days makes plans for the first half of every trace of the folder, and replays the
// second half through limiters of them with other seeds. How much busier that is tells
// the number of keys in the fullest window.
func (b *bench) days() { printDays(b.out, b.data, b.load) }

func printDays(out io.Writer, folder, match string) {
	fmt.Fprintln(out, "| trace | window | limit | goal | busier | memory | replayed | measured, mean … worst of ten | keys | lost, replayed | measured | goal held | at most 10 times |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for name, source := range sources(folder, match) {
		for _, window := range traceWindows {
			first, second := halves(source, window)
			most := float64(fullest(second, window))
			for _, limit := range traceLimits {
				t := newTraced(second, limit, window)
				for _, goal := range traceGoals {
					g := tune.Goal{Limit: limit, FalseDenialRate: goal}
					p, forecast := planned(tune.Traffic{Trace: first}, g)
					head := fmt.Sprintf("| %s | %v | %d | %.0e | %.2f", name, window, limit, goal, most/forecast.Keys)
					t.row(out, head, goal, p, forecast, tomorrow)
					fmt.Fprintln(out)
				}
			}
		}
	}
}

// halves returns the first half of the requests as what to plan for, and the second one
// as what comes.
func halves(source *accuracy.Trace, window time.Duration) (first *tune.Trace, second []accuracy.Request) {
	first = tune.NewTrace(window)
	n := 0
	for r := range source.Requests() {
		if n++; n <= source.Len()/2 {
			first.Add(r.Time, r.Key, r.Cost)
		} else {
			second = append(second, r)
		}
	}
	return first, second
}

// fullest returns the number of keys in the window with the most of them.
func fullest(requests []accuracy.Request, window time.Duration) (most int) {
	keys, now := map[string]bool{}, time.Time{}
	for _, r := range requests {
		if w := r.Time.Truncate(window); w != now {
			clear(keys)
			now = w
		}
		keys[r.Key] = true
		most = max(most, len(keys))
	}
	return most
}
