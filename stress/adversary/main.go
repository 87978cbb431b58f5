// Command adversary tries to make limiters break what they promise. It holds every
// answer against exact algorithms of its own, in whole numbers of any size, which share
// no code with this library: nothing may be admitted that the exact algorithm denies,
// Remaining may not be above exact, who waits as long as RetryAfter says must pass, a
// denied request is told what a fresh Peek tells, a group consumes from all of its
// limiters or from none.
//
// It draws one episode after another: a limiter (or several: a group, nodes that share
// a limit) so small that all keys collide, and some thousand operations at times in any
// order. Every episode follows from its seed and kind, so that each finding is printed
// with the command that repeats it, and with the fewest operations that still show it.
// Kinds whose names begin with threads ask from many goroutines at once and are judged
// by what was admitted; they do not repeat exactly.
//
//	go run ./adversary [-for 1m] [-seed n] [-kind sliding,group] [-episodes n] [-steps n] [-workers 32]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == childFlag {
		child(os.Args[2], real)
		return
	}
	b := bench{make: real, out: os.Stdout}
	kinds := flag.String("kind", "", "kinds to try, with commas between; all if empty")
	flag.Uint64Var(&b.seed, "seed", 0, "of the first episode; drawn if 0")
	flag.DurationVar(&b.time, "for", time.Minute, "how long, unless -episodes or -steps end it before")
	flag.IntVar(&b.episodes, "episodes", 0, "how many episodes; no bound if 0")
	flag.Int64Var(&b.steps, "steps", 0, "how many steps; no bound if 0")
	flag.IntVar(&b.workers, "workers", 8, "goroutines of the kinds that begin with threads, 1 … 32")
	flag.Parse()
	err := b.choose(*kinds)
	if err == nil && (b.workers < 1 || b.workers > 32) {
		err = fmt.Errorf("-workers %d, must be 1 … 32", b.workers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "adversary:", err)
		os.Exit(2)
	}
	if b.seed == 0 {
		b.seed = 1 + rand.Uint64N(1<<40)
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	slog.SetDefault(slog.New(alarms{&b}))
	if b.run(interrupted); b.violations() > 0 {
		os.Exit(1)
	}
}

// allKinds returns the kinds that there are.
func allKinds() []string {
	return slices.Concat(sequential, concurrent, []string{forged}, single, rare, probed)
}

// choose says which kinds are tried.
func (b *bench) choose(names string) error {
	all := allKinds()
	if names == "" {
		b.kinds = all
		return nil
	}
	for _, name := range strings.Split(names, ",") {
		if !slices.Contains(all, name) {
			return errors.New("-kind " + name + ", must be of " + strings.Join(all, ", "))
		}
		b.kinds = append(b.kinds, name)
	}
	return nil
}
