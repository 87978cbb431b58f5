package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// kill kills Redis while nodes decide a thousand times a second each, and starts it again: once
// with a log of all writes, and once with nothing.
func kill(down time.Duration) {
	for _, c := range []struct {
		name string
		args []string
	}{
		{"with its log", []string{"--appendonly", "yes", "--appendfsync", "always"}},
		{"with nothing", nil},
	} {
		dir, err := os.MkdirTemp("", "syncbench")
		if err != nil {
			log.Fatal(err)
		}
		server, err := redistest.Start(dir, c.args...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("Redis killed, and back %s %v later:\n", c.name, down)
		killUnderLoad(server, down)
		server.Kill()
		os.RemoveAll(dir)
	}
}

// killTimeout is how long a decision may wait.
const killTimeout = 100 * time.Millisecond

// decider is what the load asks.
type decider struct {
	take     func() bool
	admitted int
	asked    int
	longest  time.Duration // a decision
}

// load asks a thousand times a second until it is told to stop.
func (d *decider) load(stop <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		start := time.Now()
		if d.take() {
			d.admitted++
		}
		d.asked++
		d.longest = max(d.longest, time.Since(start))
	}
}

func killUnderLoad(server *redistest.Server, down time.Duration) {
	const limit = 4000 // of the Strict's key, which offers pass soon
	redis.SetLogger(silent{})
	quiet := slog.New(slog.DiscardHandler)
	now := time.Now() // stands still, so that all units are in one window
	synced, all := make([]*redislimit.Synced, nodes), make([]*decider, 2*nodes)
	for i := range nodes {
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1 << 30, Window: time.Hour, Keys: 1000, Seed: 1,
			Algorithm: sketchlimit.FixedWindow, Clock: func() time.Time { return now }})
		if err != nil {
			log.Fatal(err)
		}
		s, err := redislimit.NewSynced(client, limiter, killTimeout, redislimit.Timeout(killTimeout), redislimit.Log(quiet))
		if err != nil {
			log.Fatal(err)
		}
		strict, err := redislimit.NewStrict(client, redislimit.Config{Limit: limit, Window: time.Hour, Keys: 1000,
			Timeout: killTimeout, Failure: redislimit.FailClosed, Log: quiet})
		if err != nil {
			log.Fatal(err)
		}
		synced[i] = s
		all[i] = &decider{take: func() bool { return s.Allow("k") }}
		all[nodes+i] = &decider{take: func() bool {
			d, err := strict.TakeAt(context.Background(), now, "k", 1)
			return err == nil && d.Allowed
		}}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, d := range all {
		wg.Go(func() { d.load(stop) })
	}
	time.Sleep(500 * time.Millisecond)
	server.Kill()
	time.Sleep(down)
	if err := server.Restart(); err != nil {
		log.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	close(stop)
	wg.Wait()
	time.Sleep(time.Second)

	s, t := total(all[:nodes]), total(all[nodes:])
	fmt.Printf("  Synced: %d admitted by %d nodes; longest decision %v; the nodes count", s.admitted, nodes, s.longest)
	for _, node := range synced {
		d := node.Peek("k")
		fmt.Printf(" %d", d.Limit-d.Remaining)
		node.Close()
	}
	fmt.Printf("\n  Strict: %d of %d admitted, the limit is %d; longest decision %v, the timeout is %v\n", t.admitted, t.asked, limit, t.longest, killTimeout)
}

func total(all []*decider) (sum decider) {
	for _, d := range all {
		sum.admitted += d.admitted
		sum.asked += d.asked
		sum.longest = max(sum.longest, d.longest)
	}
	return sum
}

// silent keeps go-redis from telling of each connection that is refused.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
