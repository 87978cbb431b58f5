package sketchlimit_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// taker is what can be raced: this library's limiter, or a broken one.
type taker interface {
	TakeAt(now time.Time, key string, n int) sketchlimit.Decision
}

// ledger is what goroutines were admitted, by generation and key.
type ledger map[[2]int64]int64

// race lets 64 goroutines take costs 1 … 10 from so many keys while a clock turns
// generations and now and then steps back, and returns what each key was admitted in
// each of them, and in all. A request during which a generation began may have been
// counted on either side, so only the sum over all generations holds it.
func race(l taker, keys, perGoroutine int, window time.Duration) (certain ledger, all map[int64]int64, generations int64) {
	var clock, seen, latest atomic.Int64 // no generation is earlier than that of seen, or later than that of latest
	step := func(by time.Duration) {
		if to := clock.Load() + int64(by); to > latest.Load() {
			latest.Store(to)
			l.TakeAt(time.Unix(0, to), "", 0)
			seen.Store(to)
		}
		clock.Add(int64(by))
	}
	certain, all = ledger{}, map[int64]int64{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			mine, sum := ledger{}, map[int64]int64{}
			for i := range perGoroutine {
				key, n := r.Int64N(int64(keys)), 1+r.IntN(10)
				if every := perGoroutine/20 + 1; g == 0 && i%every == 0 {
					if i/every%4 == 3 {
						step(-window * 3 / 8)
					} else {
						step(window / 2)
					}
				}
				before := seen.Load() / int64(window)
				if l.TakeAt(time.Unix(0, clock.Load()), keyName(key), n).Allowed {
					if after := latest.Load() / int64(window); after == before {
						mine[[2]int64{before, key}] += int64(n)
					}
					sum[key] += int64(n)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range mine {
				certain[k] += n
			}
			for k, n := range sum {
				all[k] += n
			}
		})
	}
	wg.Wait()
	return certain, all, latest.Load()/int64(window) + 1
}

func keyName(i int64) string {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(i)*0x9e3779b97f4a7c15)
	return string(b[:])
}

// overAdmitted counts the keys and generations that were admitted more than limit.
func overAdmitted(certain ledger, all map[int64]int64, generations, limit int64) (over int) {
	for _, n := range certain {
		if n > limit {
			over++
		}
	}
	for _, n := range all {
		if n > limit*generations {
			over++
		}
	}
	return over
}

func TestNeverOverAdmitsUnderConcurrency(t *testing.T) {
	const limit = 100
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.FixedWindow, sketchlimit.SlidingWindow} {
		for keys, perGoroutine := range map[int]int{1: 3000, 100: 3000, 1_000_000: 40_000 / testkit.Slowdown} {
			l := build(t, sketchlimit.Config{Limit: limit, Window: time.Second, Algorithm: algorithm, MemoryBytes: 1 << 20})
			certain, all, generations := race(l, keys, perGoroutine, time.Second)
			require.Zero(t, overAdmitted(certain, all, generations, limit), "%v, %d keys", algorithm, keys)
			require.Greater(t, generations, int64(4))
			sum := uint64(0)
			for _, n := range all {
				sum += uint64(n)
			}
			stats := l.Stats()
			require.Equal(t, sum, stats.Admitted)
			if keys <= 100 {
				require.Greater(t, len(certain), keys*2, "most generations are judged")
				require.Greater(t, stats.Denied, sum, "the limit was in force")
			}
		}
	}
}

// readThenAdd checks and counts in two steps, each of them safe by itself.
type readThenAdd struct {
	mu     sync.Mutex
	limit  int
	counts map[string]int
}

func (b *readThenAdd) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	key += now.Truncate(time.Second).String()
	b.mu.Lock()
	count := b.counts[key]
	b.mu.Unlock()
	if count+n > b.limit {
		return sketchlimit.Decision{}
	}
	for range 50 { // what any pause between the two steps does
		runtime.Gosched()
	}
	b.mu.Lock()
	b.counts[key] += n
	b.mu.Unlock()
	return sketchlimit.Decision{Allowed: true}
}

func TestReadThenAddOverAdmits(t *testing.T) {
	for range 100 { // on a busy machine one of twenty races ends without a collision
		l := &readThenAdd{limit: 100, counts: map[string]int{}}
		certain, all, generations := race(l, 1, 3000, time.Second)
		if overAdmitted(certain, all, generations, 100) > 0 {
			return
		}
	}
	require.Fail(t, "the test above would not see it")
}

// Statistics may be read while decisions are made and generations turn.
func TestStatsWhileBusy(t *testing.T) {
	l := build(t, sketchlimit.Config{Limit: 10, Window: time.Second, MemoryBytes: 256 << 10})
	done := make(chan struct{})
	go func() {
		defer close(done)
		race(l, 1000, 2000, time.Second)
	}()
	for last := uint64(0); ; {
		s := l.Stats()
		require.GreaterOrEqual(t, s.Admitted+s.Denied, last)
		require.InDelta(t, 0.5, s.FalseDenialRate, 0.5)
		last = s.Admitted + s.Denied
		select {
		case <-done:
			return
		default:
		}
	}
}
