package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
)

const (
	limit     = 100
	aMillion  = 1_000_000
	rounds    = 24 // of each contender, in turns: the median counts, whatever else the machine does now and then
	oneLasts  = 100 * time.Millisecond
	manyNames = 100_000
)

var algorithms = []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket}

// contender is one way to decide.
type contender struct {
	name string
	take func(ctx context.Context, key int) (bool, error)
}

func name(key int) string { return fmt.Sprintf("client-%07d", key) }

func config(a sketchlimit.Algorithm, limit int, window time.Duration) redislimit.Config {
	return redislimit.Config{Limit: limit, Window: window, Algorithm: a, Keys: aMillion,
		Failure: redislimit.FailClosed, Timeout: 10 * time.Minute}
}

// rate returns redis_rate at 100 units a window.
func rate(addr string, window time.Duration) contender {
	l := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: addr}))
	return contender{"redis_rate v10", func(ctx context.Context, key int) (bool, error) {
		r, err := l.Allow(ctx, name(key), redis_rate.Limit{Rate: limit, Burst: limit, Period: window})
		return err == nil && r.Allowed > 0, err
	}}
}

// stricts returns a Strict of each algorithm for so many keys at so many units a window.
func stricts(addr string, keys, limit int, window time.Duration) (all []contender, err error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	for _, a := range algorithms {
		c := config(a, limit, window)
		c.Keys = keys
		s, err := redislimit.NewStrict(client, c)
		if err != nil {
			return nil, err
		}
		all = append(all, contender{"`Strict`, " + a.String(), func(ctx context.Context, key int) (bool, error) {
			ok, err := s.Allow(ctx, name(key))
			if h := s.Health(); h.Err != nil {
				err = h.Err
			}
			return ok, err
		}})
	}
	return all, nil
}

func exacts(addr string) (all []contender, err error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	for _, a := range algorithms {
		e, err := redislimit.NewExact(client, config(a, limit, time.Minute))
		if err != nil {
			return nil, err
		}
		label := a.String()
		if a == sketchlimit.SlidingWindow {
			label = "log"
		}
		all = append(all, contender{"`Exact`, " + label, func(ctx context.Context, key int) (bool, error) {
			return e.Allow(ctx, name(key))
		}})
	}
	return all, nil
}

func throughput(w io.Writer, addr string) error {
	s, err := stricts(addr, manyNames, limit, time.Minute)
	if err != nil {
		return err
	}
	e, err := exacts(addr)
	if err != nil {
		return err
	}
	return compare(w, addr, slices.Concat([]contender{rate(addr, time.Minute)}, s, e))
}

// compare prints decisions a second and latencies. The contenders take turns.
func compare(w io.Writer, addr string, all []contender) error {
	callers := []int{1, 4, 16, 128}
	results := make(map[string][]measured)
	for range rounds {
		for _, n := range callers {
			for _, i := range rand.Perm(len(all)) {
				c := all[i]
				m, err := run(c, addr, n)
				if err != nil {
					return err
				}
				id := fmt.Sprint(c.name, n)
				results[id] = append(results[id], m)
			}
		}
	}
	fmt.Fprintln(w, "| | 1 caller | 4 callers | 16 callers | 128 callers | in Redis, a decision |\n|---|---|---|---|---|---|")
	for _, c := range all {
		fmt.Fprintf(w, "| %s |", c.name)
		for _, n := range callers {
			m := median(results[fmt.Sprint(c.name, n)])
			fmt.Fprintf(w, " %.1f k/s, %.2g … %.2g ms |", m.rate/1000, m.p50.Seconds()*1000, m.p99.Seconds()*1000)
		}
		fmt.Fprintf(w, " %.1f µs |\n", median(results[fmt.Sprint(c.name, 128)]).inside)
	}
	return nil
}

// measured is what a contender did.
type measured struct {
	rate     float64 // decisions a second
	p50, p99 time.Duration
	inside   float64 // µs a script took in the server
}

func median(m []measured) measured {
	slices.SortFunc(m, func(a, b measured) int { return int(a.rate - b.rate) })
	return m[len(m)/2]
}

// run lets callers decide for a while.
func run(c contender, addr string, callers int) (measured, error) {
	if _, err := c.take(context.Background(), 0); err != nil { // connects, loads the script
		return measured{}, err
	}
	server := redis.NewClient(&redis.Options{Addr: addr})
	defer server.Close()
	if err := server.ConfigResetStat(context.Background()).Err(); err != nil {
		return measured{}, err
	}
	start := time.Now()
	took, err := ask(c, callers, manyNames, oneLasts)
	if err != nil {
		return measured{}, err
	}
	lasted := time.Since(start)
	slices.Sort(took)
	n := len(took)
	info, err := server.Info(context.Background(), "commandstats").Result()
	if err != nil {
		return measured{}, err
	}
	inside := 0.
	if found := regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([0-9.]+)`).FindStringSubmatch(info); found != nil {
		inside, _ = strconv.ParseFloat(found[1], 64)
	}
	return measured{float64(n) / lasted.Seconds(), took[n/2], took[n*99/100], inside}, nil
}

// ask lets callers decide for a while, each about keys that it draws, and returns how
// long each decision took.
func ask(c contender, callers, keys int, lasts time.Duration) ([]time.Duration, error) {
	type result struct {
		took []time.Duration
		err  error
	}
	results := make([]result, callers)
	end := time.Now().Add(lasts)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			r := &results[i]
			random := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for now := time.Now(); now.Before(end) && r.err == nil; {
				_, r.err = c.take(context.Background(), random.IntN(keys))
				done := time.Now()
				r.took = append(r.took, done.Sub(now))
				now = done
			}
		})
	}
	all.Wait()
	var took []time.Duration
	for _, r := range results {
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, r.err)
		}
		took = append(took, r.took...)
	}
	return took, nil
}
