package tests

import (
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

// keyIn is a key in a generation.
type keyIn struct{ generation, key int64 }

// ledger is what goroutines saw of a limiter that they raced.
type ledger struct {
	certain     map[keyIn]int64 // units that were admitted in that generation
	most        map[keyIn]int64 // the same, with those that may have been
	refused     map[keyIn]int64 // the cheapest request that was denied in that generation
	all         map[int64]int64 // units that a key was admitted in all
	admitted    uint64          // units
	denied      uint64          // units
	generations int64
	last        int64 // time of the clock, ns
}

// race lets 64 goroutines take costs 1 … 10 from so many keys while a clock turns
// generations and now and then steps back: twenty steps, evenly among the requests. A
// request during which a generation began may have been counted on either side, so it
// is not certain.
func race(l taker, keys, perGoroutine int, window time.Duration) *ledger {
	var clock, seen, latest, taken atomic.Int64 // no generation is earlier than that of seen, or later than that of latest
	var stepping sync.Mutex
	step := func(by time.Duration) {
		stepping.Lock()
		defer stepping.Unlock()
		if to := clock.Load() + int64(by); to > latest.Load() {
			latest.Store(to)
			l.TakeAt(time.Unix(0, to), "", 0)
			seen.Store(to)
		}
		clock.Add(int64(by))
	}
	sum := &ledger{certain: map[keyIn]int64{}, most: map[keyIn]int64{}, refused: map[keyIn]int64{}, all: map[int64]int64{}}
	type request struct {
		before, after, key, n int64
		allowed               bool
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			requests := make([]request, perGoroutine)
			for i := range requests {
				q := &requests[i]
				q.key, q.n = r.Int64N(int64(keys)), 1+r.Int64N(10)
				if i, every := int(taken.Add(1)), 64*perGoroutine/20; i%every == 0 {
					if i/every%4 == 3 {
						step(-window * 3 / 8)
					} else {
						step(window / 2)
					}
				}
				q.before = seen.Load() / int64(window)
				q.allowed = l.TakeAt(time.Unix(0, clock.Load()), keyName(q.key), int(q.n)).Allowed
				q.after = latest.Load() / int64(window)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, q := range requests {
				sum.add(q.before, q.after, q.key, q.n, q.allowed)
			}
		})
	}
	wg.Wait()
	sum.last = latest.Load()
	sum.generations = sum.last/int64(window) + 1
	return sum
}

// add enters a request that was decided in one of some generations.
func (s *ledger) add(first, last, key, n int64, allowed bool) {
	here := keyIn{first, key}
	if !allowed {
		s.denied += uint64(n)
		if least, ok := s.refused[here]; first == last && (!ok || n < least) {
			s.refused[here] = n
		}
		return
	}
	s.admitted += uint64(n)
	s.all[key] += n
	if first == last {
		s.certain[here] += n
	}
	for g := first; g <= last; g++ {
		s.most[keyIn{g, key}] += n
	}
}

// overAdmitted counts the keys and generations that were admitted more than limit.
func (s *ledger) overAdmitted(limit int64) (over int) {
	for _, n := range s.certain {
		if n > limit {
			over++
		}
	}
	for _, n := range s.all {
		if n > limit*s.generations {
			over++
		}
	}
	return over
}

// underAdmitted counts the keys and generations in which a request was denied although
// it and all that may have been admitted in as many generations as count do not pass
// the limit.
func (s *ledger) underAdmitted(limit, count int64) (under int) {
	for here, n := range s.refused {
		for back := range count {
			n += s.most[keyIn{here.generation - back, here.key}]
		}
		if n <= limit {
			under++
		}
	}
	return under
}

func TestLimitsHoldUnderConcurrency(t *testing.T) {
	const limit = 100
	for algorithm, count := range map[sketchlimit.Algorithm]int64{sketchlimit.FixedWindow: 1, sketchlimit.SlidingWindow: 2} {
		for keys, perGoroutine := range map[int]int{1: 3000, 100: 3000, 1_000_000: 20_000 / testkit.Divisor} {
			l := build(t, sketchlimit.Config{Limit: limit, Window: time.Second, Algorithm: algorithm, MemoryBytes: 8 << 20})
			s := race(l, keys, perGoroutine, time.Second)
			require.Zero(t, s.overAdmitted(limit), "%v, %d keys", algorithm, keys)
			require.Zero(t, s.underAdmitted(limit, count), "%v, %d keys", algorithm, keys)
			require.EqualValues(t, 6, s.generations)
			stats := l.Stats()
			require.Equal(t, s.admitted, stats.Admitted)
			require.Equal(t, s.denied, stats.Denied)
			if keys <= 100 {
				require.Greater(t, len(s.certain), keys*4, "most of the six generations are judged")
				require.Greater(t, len(s.refused), keys*4, "and the limit was in force in them")
			} else {
				require.Zero(t, s.denied, "no key comes near the limit")
			}
		}
	}
}

// careful is a fixed window with a mutex around all of it, and a limit of its own: too
// low or right.
type careful struct {
	mu         sync.Mutex
	limit      int
	generation int64
	counts     map[string]int
}

func (c *careful) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil || now.Unix() > c.generation {
		c.generation, c.counts = now.Unix(), map[string]int{}
	}
	if c.counts[key]+n > c.limit {
		return sketchlimit.Decision{}
	}
	c.counts[key] += n
	return sketchlimit.Decision{Allowed: true}
}

// The judgement above finds a limit that is one unit too high or too low. Every key has
// many times its limit asked of it in each generation, in costs down to 1. A single
// race may miss it, if in each of the six generations an admitted request was under way
// as another began.
func TestRaceFindsALimitThatIsWrong(t *testing.T) {
	for limit := 99; limit <= 101; limit++ {
		over, under := 0, 0
		for range 5 {
			s := race(&careful{limit: limit}, 1, 3000, time.Second)
			over, under = over+s.overAdmitted(100), under+s.underAdmitted(100, 1)
		}
		require.Equal(t, limit > 100, over > 0, "%d", limit)
		require.Equal(t, limit < 100, under > 0, "%d", limit)
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

// Two steps must be found. One race in twenty ends without a collision on a busy
// machine, so that twenty in a row do has a chance of 1e-26.
func TestReadThenAddOverAdmits(t *testing.T) {
	for range 20 {
		if race(&readThenAdd{limit: 100, counts: map[string]int{}}, 1, 3000, time.Second).overAdmitted(100) > 0 {
			return
		}
	}
	require.Fail(t, "the race does not find it")
}

// Statistics are read while decisions are made and generations turn. They never run
// backwards, and in the end they are what the goroutines saw.
func TestStatsWhileBusy(t *testing.T) {
	const keys = 1000
	l := build(t, sketchlimit.Config{Limit: 10, Window: time.Second, MemoryBytes: 256 << 10})
	done := make(chan *ledger)
	go func() { done <- race(l, keys, 2000, time.Second) }()
	var last sketchlimit.Stats
	for reads := 0; ; reads++ {
		s := l.Stats()
		require.GreaterOrEqual(t, s.Admitted, last.Admitted)
		require.GreaterOrEqual(t, s.Denied, last.Denied)
		require.GreaterOrEqual(t, s.Rotations, last.Rotations)
		require.Less(t, s.FalseDenialRate, 1e-6, "a few keys in much memory")
		require.LessOrEqual(t, max(s.DistinctKeys, s.PreviousDistinctKeys), 1.05*keys)
		last = s
		select {
		case all := <-done:
			require.Positive(t, reads)
			s := l.Stats()
			require.Equal(t, all.admitted, s.Admitted)
			require.Equal(t, all.denied, s.Denied)
			require.EqualValues(t, all.generations-1, s.Rotations)
			return
		default:
		}
	}
}
