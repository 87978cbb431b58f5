package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/waiting"
)

func must[L any](l L, err error) L {
	if err != nil {
		panic(err)
	}
	return l
}

const ms = time.Millisecond

// buckets are limiters of 5 a second and 20 at once.
func buckets() map[string]sketchlimit.Member {
	return map[string]sketchlimit.Member{
		"sketch": must(sketchlimit.New(sketchlimit.Config{
			Limit: 5, Window: time.Second, Burst: 20, Algorithm: sketchlimit.TokenBucket, Keys: 1000,
		})),
		"GCRA":        must(exact.NewGCRA(5, time.Second, 20)),
		"TokenBucket": must(exact.NewTokenBucket(5, time.Second, 20)),
		"LeakyMeter":  must(exact.NewLeakyMeter(5, time.Second, 20)),
	}
}

// eachBucket runs a test in a bubble for each of the buckets.
func eachBucket(t *testing.T, test func(t *testing.T, l sketchlimit.Member)) {
	for name := range buckets() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, buckets()[name]) })
		})
	}
}

// Forty callers at once: twenty pass at once and then one every 200ms, in their order,
// as with x/time/rate.
func TestBurstThenPace(t *testing.T) {
	eachBucket(t, func(t *testing.T, l sketchlimit.Member) {
		q, start := must(waiting.New(l)), time.Now()
		var mu sync.Mutex
		var order []int
		var at []time.Duration
		for i := range 40 {
			go func() {
				err := q.Wait(t.Context(), sketchlimit.Request{Key: "k"})
				mu.Lock()
				defer mu.Unlock()
				require.NoError(t, err)
				order, at = append(order, i), append(at, time.Since(start))
			}()
			synctest.Wait() // this one waits, and then the next one comes
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, at, 40)
		require.True(t, slices.IsSorted(order), "%v", order)
		for i, d := range at {
			want := time.Duration(max(0, i-19)) * 200 * ms
			require.GreaterOrEqual(t, d, want, "caller %d", i)
			require.LessOrEqual(t, d, want+sketchlimit.Resolution, "caller %d", i)
		}
	})
}

// A deadline that cannot be met fails at once, and takes nothing. One that can be met is.
func TestDeadline(t *testing.T) {
	eachBucket(t, func(t *testing.T, l sketchlimit.Member) {
		q, start := must(waiting.New(l)), time.Now()
		r := sketchlimit.Request{Key: "k"}
		for range 20 {
			require.NoError(t, q.Wait(t.Context(), r))
		}
		for range 30 { // those pass after 200ms … 6s
			go func() { _ = q.Wait(t.Context(), r) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 6150*ms)
		defer cancel()
		err := q.Wait(ctx, r)
		require.ErrorIs(t, err, waiting.ErrDeadline)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, time.Since(start))
		require.Regexp(t, `^waiting: the turn would come after the deadline: in 6\.20?[01]?s: context deadline exceeded$`, err.Error())
		met, cancel := context.WithTimeout(t.Context(), 6250*ms)
		defer cancel()
		require.NoError(t, q.Wait(met, r))
		require.InDelta(t, 6200*ms, time.Since(start), float64(sketchlimit.Resolution))
	})
}

// Who gives up takes nothing: those behind move up, and the bucket has what it would
// have had without them.
func TestCancel(t *testing.T) {
	eachBucket(t, func(t *testing.T, l sketchlimit.Member) {
		q, start := must(waiting.New(l)), time.Now()
		first := must(q.Reserve(sketchlimit.Request{Key: "k", N: 20}))
		<-first.Done()
		require.NoError(t, first.Err())
		require.False(t, first.Cancel(), "what was taken stays taken")
		big := must(q.Reserve(sketchlimit.Request{Key: "k", N: 10}))
		small := must(q.Reserve(sketchlimit.Request{Key: "k"}))
		require.InDelta(t, 2*time.Second, big.Delay(), float64(sketchlimit.Resolution))
		require.InDelta(t, 2200*ms, small.Delay(), float64(sketchlimit.Resolution))
		require.NoError(t, small.Err())
		time.Sleep(time.Second)
		require.True(t, big.Cancel())
		require.True(t, big.Cancel())
		require.Equal(t, waiting.ErrCancelled, big.Err())
		<-small.Done()
		require.Equal(t, time.Second, time.Since(start), "five had flowed back")
		require.Zero(t, small.Delay())
		require.Equal(t, 4, l.Do(sketchlimit.Request{Key: "k", Peek: true}).Remaining)

		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- q.Wait(ctx, sketchlimit.Request{Key: "k", N: 20}) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-waited, context.Canceled)
		require.ErrorIs(t, q.Wait(ctx, sketchlimit.Request{Key: "other"}), context.Canceled)
		require.Equal(t, 4, l.Do(sketchlimit.Request{Key: "k", Peek: true}).Remaining)
	})
}

func TestNever(t *testing.T) {
	eachBucket(t, func(t *testing.T, l sketchlimit.Member) {
		q := must(waiting.New(l))
		for _, n := range []int{-1, 21} {
			require.ErrorIs(t, q.Wait(t.Context(), sketchlimit.Request{Key: "k", N: n}), waiting.ErrNever)
			_, err := q.Reserve(sketchlimit.Request{Key: "k", N: n})
			require.ErrorIs(t, err, waiting.ErrNever)
		}
		require.EqualError(t, q.Wait(t.Context(), sketchlimit.Request{Key: "k", N: 21}),
			"waiting: no wait makes the request admissible: cost 21")
		require.EqualError(t, q.Wait(t.Context(), sketchlimit.Request{Peek: true}),
			"waiting: Request with Time or Peek, must have neither")
	})
	_, err := waiting.New((*exact.GCRA)(nil))
	require.EqualError(t, err, "waiting: limiter nil, must be one")
}

// An address waits in the line of its bytes; another key in none of them.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(waiting.New(must(exact.NewGCRA(1, time.Second, 1))))
		addr := netip.MustParseAddr("192.0.2.1")
		must(q.Reserve(sketchlimit.Request{Addr: addr}))
		second := must(q.Reserve(sketchlimit.Request{Bytes: addr.AsSlice()}))
		third := must(q.Reserve(sketchlimit.Request{Addr: netip.AddrFrom16(addr.As16())}))
		require.Equal(t, time.Second, second.Delay())
		require.Equal(t, 2*time.Second, third.Delay())
		require.NoError(t, q.Wait(t.Context(), sketchlimit.Request{Key: "other"}))
		text := []byte("abc")
		must(q.Reserve(sketchlimit.Request{Bytes: text}))
		p := must(q.Reserve(sketchlimit.Request{Bytes: text}))
		copy(text, "xyz") // the caller's again
		<-p.Done()
		require.Equal(t, time.Second, must(q.Reserve(sketchlimit.Request{Key: "abc"})).Delay(), "it waited as abc")
	})
}

// passed is units of a key that passed at a time.
type passed struct {
	at time.Time
	n  int
}

// Callers who come, give up and run out of time in any order: what passed satisfies the
// algorithm's plain definition, a limiter of package exact that is asked again with the
// times at which they passed.
func TestWhatPassesIsAdmitted(t *testing.T) {
	type kind struct {
		limiter func() sketchlimit.Member
		oracle  func() exact.Limiter
	}
	window := func(a sketchlimit.Algorithm) func() sketchlimit.Member {
		return func() sketchlimit.Member {
			return must(sketchlimit.New(sketchlimit.Config{Limit: 6, Window: time.Second, Algorithm: a, Keys: 1000, Clock: time.Now}))
		}
	}
	for name, k := range map[string]kind{
		"GCRA": {
			func() sketchlimit.Member { return must(exact.NewGCRA(6, time.Second, 9)) },
			func() exact.Limiter { return must(exact.NewTokenBucket(6, time.Second, 9)) },
		},
		"SlidingLog": {
			func() sketchlimit.Member { return must(exact.NewSlidingLog(6, time.Second)) },
			func() exact.Limiter { return must(exact.NewSlidingLog(6, time.Second)) },
		},
		"sketch, bucket": {window(sketchlimit.TokenBucket), func() exact.Limiter { return must(exact.NewGCRA(6, time.Second, 6)) }},
		"sketch, sliding": {
			window(sketchlimit.SlidingWindow), func() exact.Limiter { return must(exact.NewSlidingWindow(6, time.Second)) },
		},
		"Group": {
			func() sketchlimit.Member {
				return must(sketchlimit.NewGroup(must(exact.NewGCRA(6, time.Second, 6)), must(exact.NewFixedWindow(100, time.Minute))))
			},
			func() exact.Limiter { return must(exact.NewLeakyMeter(6, time.Second, 6)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(waiting.New(k.limiter()))
				var mu sync.Mutex
				history := map[string][]passed{}
				var gaveUp, late, through atomic.Int64
				r := rand.New(rand.NewPCG(1, 2))
				for i := range 600 {
					time.Sleep(time.Duration(r.IntN(80)) * ms)
					key, n := fmt.Sprint(r.IntN(2)), 1+r.IntN(4)
					patience := time.Duration(r.IntN(3000)) * ms
					go func() {
						ctx, cancel := context.WithCancel(t.Context())
						switch i % 3 {
						case 0:
							ctx, cancel = context.WithTimeout(ctx, patience)
						case 1:
							time.AfterFunc(patience, cancel)
						}
						defer cancel()
						err := q.Wait(ctx, sketchlimit.Request{Key: key, N: n})
						switch {
						case err == nil:
							mu.Lock()
							defer mu.Unlock()
							history[key] = append(history[key], passed{time.Now(), n})
							through.Add(1)
						case errors.Is(err, context.DeadlineExceeded):
							late.Add(1)
						default:
							gaveUp.Add(1)
						}
					}()
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				require.EqualValues(t, 600, through.Load()+late.Load()+gaveUp.Load())
				for _, n := range []int64{through.Load(), late.Load(), gaveUp.Load()} {
					require.Greater(t, n, int64(30))
				}
				for key, list := range history {
					oracle := k.oracle() // whose clock is that of all its keys
					for i, p := range list {
						require.True(t, oracle.TakeAt(p.at, key, p.n).Allowed, "%s, request %d at %v", key, i, p.at)
					}
				}
			})
		})
	}
}

// With real goroutines and without a bubble: no more than the limit passes, and the
// lines are gone at the end.
func TestWaitersAtOnce(t *testing.T) {
	l := must(exact.NewFixedWindow(50, 1000*time.Hour))
	q := must(waiting.New(l))
	var through atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for worker := range 200 {
		wg.Go(func() {
			passed := false
			if worker%2 == 0 {
				p, err := q.Reserve(sketchlimit.Request{Key: "k"})
				passed = err == nil && !p.Cancel()
			} else {
				passed = q.Wait(ctx, sketchlimit.Request{Key: "k"}) == nil
			}
			if passed && through.Add(1) >= 50 {
				cancel()
			}
		})
	}
	wg.Wait()
	cancel()
	require.EqualValues(t, 50, through.Load())
	require.EqualValues(t, 50, l.Stats().Admitted)
	require.Zero(t, waiting.Lines(q))
}
