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
	accuracyKeys = aMillion / 10
	perKey       = 5 // requests of a key a window, on average
	abuseTimes   = 3 // limits that an abuser asks for
	callers      = 128
	goal         = 1e-5
)

// accuracies prints how often a Strict is wrong: two windows in which each of a hundred
// thousand keys sends five requests on average, and a hundredth as many keys ask for
// three times the limit, in tenths of it. Times are the callers', and the exact
// algorithm beside is charged with what Strict admits.
func accuracies(w io.Writer, addr string) error {
	fmt.Fprintln(w, "| limit, an hour | | bytes a key | false denials of innocent keys | rate | goal | withheld | over-admissions |\n|---|---|---|---|---|---|---|---|")
	client := redis.NewClient(&redis.Options{Addr: addr})
	for _, limit := range []int{5, 100, 1000, 10_000} {
		for _, a := range algorithms {
			c := config(a, limit, time.Hour)
			c.Keys = accuracyKeys
			s, err := redislimit.NewStrict(client, c)
			if err != nil {
				return err
			}
			oracle, err := oracleOf(a, limit)
			if err != nil {
				return err
			}
			e, err := replay(s, oracle, limit)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "| %d | `Strict`, %v | %.1f | %d of %.1f M | %.1e | %.0e | %d of %.1f M | %d |\n", limit, a,
				float64(s.MemoryBytes())/accuracyKeys, e.falseDenials, float64(e.innocent)/1e6, float64(e.falseDenials)/float64(e.innocent), goal,
				e.withheld, float64(e.due)/1e6, e.over)
			if err := client.FlushAll(context.Background()).Err(); err != nil {
				return err
			}
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
	innocent, falseDenials int // of keys with half of their limit left; denied though due
	due, withheld          int // to be admitted; denied
	over                   int // admitted though not due, not even at the latest time of any caller
}

// load is what comes in a window: a share of its requests is of abusers, each for so
// many units.
type load struct {
	requests, abusers, units int
	abuse                    float64
}

func loadAt(limit int) load {
	l := load{abusers: accuracyKeys / 100, units: max(1, limit/10)}
	abuse := float64(l.abusers) * float64(abuseTimes*limit) / float64(l.units)
	all := perKey*accuracyKeys + abuse
	l.requests, l.abuse = int(all), abuse/all
	return l
}

// replay lets each of many callers take units of keys of its own, so that the oracle
// sees every key's requests in their order, one after another by time. All callers wait
// for each other at a window's end, for the oracle's sake.
func replay(s *redislimit.Strict, oracle exact.Limiter, limit int) (sum errors, err error) {
	var mu sync.Mutex
	for window := range 2 {
		var next atomic.Int64 // request of this window
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				e, failed := replayed(s, oracle, limit, window, caller, &next)
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
func replayed(s *redislimit.Strict, oracle exact.Limiter, limit, window, caller int, next *atomic.Int64) (e errors, err error) {
	l := loadAt(limit)
	at := func(request int64) time.Time {
		request = min(request, int64(l.requests)-1)
		return time.UnixMicro((500_000+int64(window))*time.Hour.Microseconds() + request*time.Hour.Microseconds()/int64(l.requests))
	}
	random := rand.New(rand.NewPCG(uint64(caller), uint64(window)))
	for {
		i := next.Add(1) - 1
		if i >= int64(l.requests) {
			return e, nil
		}
		now := at(i)
		key, n := name(random.IntN(accuracyKeys/callers)*callers+caller), 1
		if random.Float64() < l.abuse {
			key, n = fmt.Sprint("abuser", random.IntN(l.abusers/callers)*callers+caller), l.units
		}
		due := oracle.PeekAt(now, key, n)
		d, err := s.TakeAt(context.Background(), now, key, n)
		if h := s.Health(); err != nil || h.Err != nil {
			return e, cmp.Or(err, h.Err)
		}
		e.count(due, d.Allowed, limit)
		if d.Allowed { // a Strict may take a time as one that others have brought
			if !oracle.PeekAt(at(next.Load()), key, n).Allowed {
				e.over++
			}
			oracle.Charge(now, key, n)
		}
	}
}

func (e *errors) add(o errors) {
	e.innocent += o.innocent
	e.falseDenials += o.falseDenials
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
			e.falseDenials++
		}
	}
}
