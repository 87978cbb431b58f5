// Command soak keeps a growing limiter under load for as many seconds as it is told to:
// all cores take decisions at full speed (up to five a key and second), windows turn
// every second, the keys become 200 times as many and fewer again every two minutes, a
// snapshot is saved every five seconds and metrics are scraped every second. It prints
// what it sees twice a minute, and at the end whether memory and goroutines stayed
// flat, whether anything was admitted beyond the limit, and how often a light key
// was denied.
//
//	go run ./soak [-seconds 600] [-keys 10000000]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"go.uber.org/goleak"

	"github.com/sketchlimit/sketchlimit"
)

const (
	limit  = 20
	window = time.Second
	goal   = 1e-5 // of light requests may be denied
	cycle  = 120  // seconds from few keys to many and back
	ratio  = 200  // of many to few
	busy   = 5    // requests a key and second at most, which is what Config.Keys is for
	judged = 4096 // keys
)

func main() {
	seconds := flag.Int("seconds", 600, "how long")
	keys := flag.Int("keys", 10_000_000, "distinct keys when they are many")
	flag.Parse()
	if err := soak(*seconds, *keys); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func config(keys int) sketchlimit.Config {
	return sketchlimit.Config{Limit: limit, Window: window, Keys: keys / ratio, FalseDenialRate: goal,
		MaxMemoryBytes: 512 << 20}
}

func soak(seconds, keys int) error {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := sketchlimit.New(config(keys))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	j, err := newJudge(judged)
	if err != nil {
		return err
	}
	s, err := newScraper(l)
	if err != nil {
		return err
	}
	load := startLoad(l, j, keys)
	w := watcher{l: l, judge: j, load: load, scraper: s, file: filepath.Join(dir, "snapshot")}
	for second := 0; second < seconds && interrupted.Err() == nil; second++ { // which lasts longer in a process that is stopped meanwhile
		time.Sleep(window)
		load.keys.Store(wave(second, keys))
		if err = w.second(second + 1); err != nil {
			break
		}
	}
	load.stop()
	if err == nil {
		err = w.restore(config(keys))
	}
	return errors.Join(err, s.close(), l.Close(), w.summary(), ended(stop))
}

// ended returns an error if goroutines are left.
func ended(stop func()) error {
	stop()
	return goleak.Find(goleak.IgnoreTopFunction("os/signal.signal_recv"), goleak.IgnoreAnyFunction("os/signal.loop"))
}
