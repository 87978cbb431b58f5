//go:build unix

// Command clock holds the default clock of limiters against processes that freeze, and
// against many limiters in one process.
//
// It stops a process again and again for 2.2 s, and lets limiters of windows of 1 s
// decide as soon as the process goes on. Half of the times the process is idle until
// then, and half of the times another limiter is asked at full speed. Then it makes
// 10,000 limiters that decide twice and are asked no more, and at last it asks 1,000
// limiters at full speed. A goroutine with a ticker of a millisecond stands beside
// them, for comparison.
//
// It exits with 1 if
//
//   - a limiter that was idle for 20 ms or more before the process stopped decides by
//     the window of before, unless the bare ticker has not ticked in these either, as
//     on a machine with far more to do than processors,
//   - a limiter that was asked all the time does so for longer than twice the time
//     until the bare ticker ticks, and for a millisecond or more,
//   - 10,000 idle limiters have more than 10 goroutines, or take more than 1 % of a
//     core,
//   - the time of decisions of 1,000 limiters is more than twice as old as the bare
//     ticker's last tick.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

func main() {
	rounds := flag.Int("rounds", 200, "times that a process is stopped, about 2.4 s each")
	idle := flag.Int("idle", 10_000, "limiters that are not asked")
	busy := flag.Int("busy", 1000, "limiters that are asked all the time")
	lasts := flag.Duration("for", 10*time.Second, "how long these are watched")
	frozen := flag.Bool("frozen", false, "be the process that is stopped")
	flag.Parse()
	if *frozen {
		beFrozen(os.Stdin, os.Stdout)
		return
	}
	failed := false
	for _, part := range []func() error{
		func() error { return freeze(*rounds) },
		func() error { return many(*idle, *lasts) },
		func() error { return inUse(*busy, *lasts) },
	} {
		if err := part(); err != nil {
			fmt.Println("FAILED:", err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func limiter(c sketchlimit.Config) *sketchlimit.Limiter {
	l, err := sketchlimit.New(c)
	if err != nil {
		panic(err)
	}
	return l
}
