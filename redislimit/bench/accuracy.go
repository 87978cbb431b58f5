package main

import (
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

const perWindow = 5 * aMillion / 2

// accuracies prints how often a Strict is wrong: two windows of 2.5 million requests each,
// 15 % of them by some 1,200 abusers at three times the limit and the others
// spread evenly over a million keys. Times are the callers', and the exact algorithm
// beside is charged with what Strict admits.
func accuracies(w io.Writer, addr string) error {
	fmt.Fprintln(w, "| 1 M keys, 100 an hour | strings | false denials of innocent keys | withheld | over-admissions |\n|---|---|---|---|---|")
	client := redis.NewClient(&redis.Options{Addr: addr})
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.TokenBucket} {
		s, err := redislimit.NewStrict(client, config(a, time.Hour))
		if err != nil {
			return err
		}
		oracle, err := oracleOf(a)
		if err != nil {
			return err
		}
		e, err := replay(s, oracle)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| `Strict`, %v | %.1f MB | %d of %.1f M | %d of %.1f M | %d |\n", a, float64(s.MemoryBytes())/1e6,
			e.wronged, float64(e.innocent)/1e6, e.withheld, float64(e.due)/1e6, e.over)
	}
	return nil
}

func oracleOf(a sketchlimit.Algorithm) (exact.Limiter, error) {
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
// every key's requests in their order.
func replay(s *redislimit.Strict, oracle exact.Limiter) (sum errors, err error) {
	const callers, windows = 128, 2
	start := time.UnixMicro(500_000 * time.Hour.Microseconds())
	var mu sync.Mutex
	var latest atomic.Int64 // step of any caller; a Strict may take a time as one that others have brought
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			var e errors
			var failed error
			random := rand.New(rand.NewPCG(uint64(caller), 9))
			for i := 0; i < windows*perWindow/callers && failed == nil; i++ {
				at := func(step int64) time.Time { return start.Add(time.Duration(step) * time.Hour / (perWindow / callers)) }
				now := at(int64(i))
				for seen := latest.Load(); seen < int64(i) && !latest.CompareAndSwap(seen, int64(i)); seen = latest.Load() {
				}
				key := name(random.IntN(aMillion/callers)*callers + caller)
				if random.IntN(100) < 15 {
					key = fmt.Sprint("abuser", random.IntN(1200/callers)*callers+caller)
				}
				due := oracle.PeekAt(now, key, 1)
				var d sketchlimit.Decision
				d, failed = s.TakeAt(context.Background(), now, key, 1)
				if h := s.Health(); h.Err != nil {
					failed = h.Err
				}
				e.count(due, d.Allowed)
				if d.Allowed && !oracle.PeekAt(at(latest.Load()), key, 1).Allowed {
					e.over++
				}
				if d.Allowed {
					oracle.Charge(now, key, 1)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			sum.innocent += e.innocent
			sum.wronged += e.wronged
			sum.due += e.due
			sum.withheld += e.withheld
			sum.over += e.over
			if failed != nil {
				err = failed
			}
		})
	}
	all.Wait()
	return sum, err
}

func (e *errors) count(due sketchlimit.Decision, allowed bool) {
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
