package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/redislimit"
)

const (
	perWindow = 5 * aMillion / 2
	callers   = 128
)

// accuracies prints how often a Strict is wrong: two windows of 2.5 million requests each,
// 15 % of them by one key in a hundred, which asks for nearly four times the limit in tenths of
// it, and the others spread evenly over a million keys. Times are the callers', and the
// exact algorithm beside is charged with what Strict admits.
func accuracies(w io.Writer, addr string) error {
	fmt.Fprintln(w, "| 1 M keys, an hour | limit | strings | false denials of innocent keys | withheld | over-admissions |\n|---|---|---|---|---|---|")
	client := redis.NewClient(&redis.Options{Addr: addr})
	for _, c := range []redislimit.Config{
		config(sketchlimit.SlidingWindow, 100, time.Hour), config(sketchlimit.SlidingWindow, 1000, time.Hour),
		config(sketchlimit.FixedWindow, 100, time.Hour), config(sketchlimit.FixedWindow, 1000, time.Hour),
		config(sketchlimit.FixedWindow, 10_000, time.Hour), config(sketchlimit.TokenBucket, 100, time.Hour),
	} {
		s, err := redislimit.NewStrict(client, c)
		if err != nil {
			return err
		}
		oracle, err := oracleOf(c.Algorithm, c.Limit)
		if err != nil {
			return err
		}
		e, err := replay(s, oracle, c.Limit)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| `Strict`, %v | %d | %.1f MB | %d of %.1f M | %d of %.1f M | %d |\n", c.Algorithm, c.Limit, float64(s.MemoryBytes())/1e6,
			e.wronged, float64(e.innocent)/1e6, e.withheld, float64(e.due)/1e6, e.over)
		if err := client.FlushAll(context.Background()).Err(); err != nil {
			return err
		}
	}
	return nil
}

func oracleOf(a sketchlimit.Algorithm, limit int) (exact.Limiter, error) {
	switch a {
	case sketchlimit.SlidingWindow:
		return exact.NewSlidingWindow(limit, time.Hour)
	case sketchlimit.FixedWindow:
		return exact.NewFixedWindow(limit, time.Hour)
	}
	return exact.NewTokenBucket(limit, time.Hour, limit)
}

// errors counts requests.
type errors struct {
	innocent, wronged int // of keys with half of their limit left; denied though due
	due, withheld     int // to be admitted; denied
	over              int // admitted though not due, not even at the latest time of any caller
}

// replay lets each of many callers take units of keys of its own, so that the oracle sees
// every key's requests in their order. All callers wait for each other at a window's end.
func replay(s *redislimit.Strict, oracle exact.Limiter, limit int) (sum errors, err error) {
	var mu sync.Mutex
	var latest atomic.Int64 // step of any caller; a Strict may take a time as one that others have brought
	for window := range 2 {
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				e, failed := replayed(s, oracle, limit, window, caller, &latest)
				mu.Lock()
				defer mu.Unlock()
				sum.add(e)
				if failed != nil {
					err = failed
				}
			})
		}
		all.Wait()
	}
	return sum, err
}

// replayed is what one caller does in one window.
func replayed(s *redislimit.Strict, oracle exact.Limiter, limit, window, caller int, latest *atomic.Int64) (e errors, err error) {
	const steps = perWindow / callers
	at := func(step int64) time.Time {
		return time.UnixMicro(500_000 * time.Hour.Microseconds()).Add(time.Duration(step) * time.Hour / steps)
	}
	random := rand.New(rand.NewPCG(uint64(caller), uint64(window)))
	for i := range int64(steps) {
		i += int64(window) * steps
		now := at(i)
		for seen := latest.Load(); seen < i && !latest.CompareAndSwap(seen, i); seen = latest.Load() {
		}
		key, n := name(random.IntN(aMillion/callers)*callers+caller), 1
		if random.IntN(100) < 15 {
			key, n = fmt.Sprint("abuser", random.IntN(aMillion/100/callers)*callers+caller), limit/10
		}
		due := oracle.PeekAt(now, key, n)
		d, err := s.TakeAt(context.Background(), now, key, n)
		if h := s.Health(); err != nil || h.Err != nil {
			return e, cmp.Or(err, h.Err)
		}
		e.count(due, d.Allowed, limit)
		if d.Allowed {
			if !oracle.PeekAt(at(latest.Load()), key, n).Allowed {
				e.over++
			}
			oracle.Charge(now, key, n)
		}
	}
	return e, nil
}

func (e *errors) add(o errors) {
	e.innocent += o.innocent
	e.wronged += o.wronged
	e.due += o.due
	e.withheld += o.withheld
	e.over += o.over
}

func (e *errors) count(due sketchlimit.Decision, allowed bool, limit int) {
	if due.Allowed {
		e.due++
		if !allowed {
			e.withheld++
		}
	}
	if due.Remaining > limit/2 {
		e.innocent++
		if !allowed {
			e.wronged++
		}
	}
}
