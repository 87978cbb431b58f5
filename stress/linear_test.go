package stress

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

const (
	limit  = 12
	window = 1200 * time.Millisecond
	unit   = window / limit
	bucket = 1 << 30 // ns: a generation of such a bucket
	keys   = 3
)

// call is what a goroutine asks; got is what it is told.
type call struct {
	at    int64 // unix time, ns, since the history began
	key   int
	n     int
	limit int
	peek  bool
	see   bool // it only brings its time, see history
}

type got struct {
	allowed   bool
	remaining int
}

// limiter is what histories are recorded of: this library's, or a broken one.
type limiter interface {
	Do(r sketchlimit.Request) sketchlimit.Decision
}

// record lets goroutines make a few calls each, of few keys, each at the same moment as
// those of the others, while the clock steps ahead and back, and returns what they saw
// in which order. Each call is held against one of the limits.
func record(l limiter, limits []int, start time.Time, round int, r *rand.Rand) (history []porcupine.Operation) {
	const goroutines, calls = 4, 10
	var clock, order, ready atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range goroutines {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		wg.Go(func() {
			mine := make([]porcupine.Operation, 0, calls)
			for i := range int64(calls) {
				if g == 0 {
					clock.Add(r.Int64N(int64(window)*3/4) - int64(window)/5)
				}
				c := call{0, r.IntN(keys), 1 + r.IntN(4)*r.IntN(2), limits[r.IntN(len(limits))], r.IntN(5) == 0, false}
				if c.peek {
					c.limit = limit
				}
				key := fmt.Sprintf("%d of %d", c.key, round)
				for ready.Add(1); ready.Load() < (i+1)*goroutines; {
					runtime.Gosched()
				}
				c.at = max(0, clock.Load())
				now := start.Add(time.Duration(c.at))
				began := order.Add(1)
				if r.IntN(2) == 0 { // late, with a time of before
					runtime.Gosched()
				}
				d := l.Do(sketchlimit.Request{Key: key, N: c.n, Limit: c.limit, Time: now, Peek: c.peek})
				if r.IntN(2) == 0 {
					runtime.Gosched()
				}
				mine = append(mine, porcupine.Operation{ClientId: g, Input: c, Call: began, Output: got{d.Allowed, d.Remaining}, Return: order.Add(1)})
			}
			mu.Lock()
			defer mu.Unlock()
			history = append(history, mine...)
		})
	}
	wg.Wait()
	return history
}

// state is that of a sequential limiter: what keys have taken in the current and the
// previous generation, or when their buckets are full.
type state struct {
	seen              int64 // the latest generation that a call has come with
	generation        int64 // of current
	current, previous [keys]int64
	full              [keys]int64
}

// rule answers a call that comes when the state's generation has so many ns elapsed.
type rule func(s *state, c call, elapsed int64) (free int64)

func sliding(s *state, c call, elapsed int64) int64 {
	weighted := (s.previous[c.key]*(int64(window)-elapsed) + int64(window) - 1) / int64(window)
	return int64(c.limit) - s.current[c.key] - weighted
}

func fixed(s *state, c call, _ int64) int64 { return int64(c.limit) - s.current[c.key] }

func gcra(s *state, c call, elapsed int64) int64 {
	ahead := max(0, s.full[c.key]-s.generation*bucket-elapsed)
	return limit - (ahead+int64(unit)-1)/int64(unit)
}

// model is a sequential limiter. If strict, all it does must be what the history saw; or
// else requests may be denied that it would admit, and no answer be better than its own.
func model(r rule, length int64, strict bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(old, input, output any) (bool, any) {
			s, c, seen := old.(state), input.(call), output.(got)
			g, elapsed := c.at/length, c.at%length
			after := s
			after.seen = max(s.seen, g)
			if c.see {
				return true, after
			}
			if g < s.seen {
				g, elapsed = s.seen, 0
			}
			if g > s.generation {
				if after.previous = after.current; g > s.generation+1 {
					after.previous = [keys]int64{}
				}
				after.generation, after.current = g, [keys]int64{}
			}
			n, free := int64(c.n), r(&after, c, elapsed)
			want := got{n <= free, int(max(free, 0))}
			switch {
			case c.peek:
				after = s // it turns nothing
			case seen.allowed:
				want.remaining -= c.n
				after.current[c.key] += n
				after.full[c.key] = max(after.full[c.key], g*length+elapsed) + n*int64(unit)
			}
			if strict {
				return seen == want, after
			}
			return (want.allowed || !seen.allowed) && (seen.allowed != want.allowed || seen.remaining <= want.remaining), after
		},
	}
}

// history records one and checks it. It tells as well how many calls began before the
// one that began before them had ended.
//
// The latest generation that calls have come with is the limiter's as soon as one has:
// what is decided in between, for others that are behind, is decided in that. So a call
// is two events, of which the first may come as early as the call.
func history(l limiter, m porcupine.Model, limits []int, start time.Time, round int, r *rand.Rand) (linear bool, overlaps int) {
	h := record(l, limits, start, round, r)
	slices.SortFunc(h, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for i := range h[1:] {
		if h[i+1].Call < h[i].Return {
			overlaps++
		}
	}
	for _, o := range h {
		if c := o.Input.(call); !c.peek {
			c.see = true
			h = append(h, porcupine.Operation{ClientId: o.ClientId, Input: c, Call: o.Call, Output: got{}, Return: o.Return})
		}
	}
	return porcupine.CheckOperations(m, h), overlaps
}

// What goroutines see is what they would see one after another, in an order in which no
// call comes before one that had ended when it began: decision and units left.
func TestLinearizable(t *testing.T) {
	both := []int{limit, limit / 3}
	for name, c := range map[string]struct {
		algorithm sketchlimit.Algorithm
		model     porcupine.Model
		limits    []int
	}{
		"sliding": {sketchlimit.SlidingWindow, model(sliding, int64(window), true), both},
		"fixed":   {sketchlimit.FixedWindow, model(fixed, int64(window), true), both},
		"bucket":  {sketchlimit.TokenBucket, model(gcra, bucket, true), both[:1]},
	} {
		start := time.Unix(0, 0)
		r := rand.New(rand.NewPCG(1, 2))
		overlaps := 0
		for round := range 300 {
			l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, LowestLimit: limit / 3, Window: window, Algorithm: c.algorithm,
				MemoryBytes: 64 << 10, Seed: 1, Clock: func() time.Time { return start.AddDate(1, 0, 0) }}) // which nobody asks
			require.NoError(t, err)
			linear, n := history(l, c.model, c.limits, start, round, r)
			require.True(t, linear, "%s, history %d", name, round)
			overlaps += n
		}
		require.Greater(t, overlaps, 1000, "%s: the goroutines took turns", name)
	}
}

// While a larger or smaller limiter takes over, requests may be denied for what other
// keys have left, but none is admitted that a sequential limiter would deny.
func TestLinearizableWhileGrowing(t *testing.T) {
	start := time.Unix(0, 0)
	l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: window, MemoryBytes: 8 << 10, Seed: 1,
		MaxMemoryBytes: 1 << 20, Clock: func() time.Time { return start }})
	require.NoError(t, err)
	defer l.Close()
	r := rand.New(rand.NewPCG(1, 2))
	sizes := map[int]bool{}
	for round := range 120 {
		start = start.Add(4 * window)
		for i := range 2000 * (round / 20 % 2) { // a load that comes and goes
			l.TakeAt(start.Add(-1), fmt.Sprint(round, i), limit)
		}
		linear, _ := history(l, model(sliding, int64(window), false), []int{limit}, start, round, r)
		require.True(t, linear, "history %d", round)
		sizes[l.MemoryBytes()] = true
	}
	require.Greater(t, len(sizes), 3, "it has hardly changed its size")
}

// mutexed is a fixed window behind a mutex, which checks and counts in two steps if
// broken.
type mutexed struct {
	broken bool

	mu         sync.Mutex
	generation int64
	counts     map[string]int
}

func (m *mutexed) turn(now time.Time) {
	if g := now.UnixNano() / int64(window); g > m.generation {
		m.generation, m.counts = g, map[string]int{}
	}
}

func (m *mutexed) Do(r sketchlimit.Request) sketchlimit.Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Peek {
		return m.peek(r)
	}
	m.turn(r.Time)
	free := r.Limit - m.counts[r.Key]
	if r.N > free {
		return sketchlimit.Decision{Remaining: max(free, 0)}
	}
	if m.broken {
		m.mu.Unlock()
		runtime.Gosched()
		m.mu.Lock()
	}
	m.counts[r.Key] += r.N
	return sketchlimit.Decision{Allowed: true, Remaining: free - r.N}
}

func (m *mutexed) peek(r sketchlimit.Request) sketchlimit.Decision {
	free := r.Limit
	if r.Time.UnixNano()/int64(window) <= m.generation {
		free -= m.counts[r.Key]
	}
	return sketchlimit.Decision{Allowed: r.N <= free, Remaining: max(free, 0)}
}

func TestTwoStepsAreNotLinearizable(t *testing.T) {
	for _, strict := range []bool{true, false} {
		for _, broken := range []bool{false, true} {
			r := rand.New(rand.NewPCG(1, 2))
			seen := 0
			for round := range 200 {
				l := &mutexed{broken: broken, counts: map[string]int{}}
				linear, _ := history(l, model(fixed, int64(window), strict), []int{limit, limit / 3}, time.Unix(0, 0), round, r)
				if !linear {
					seen++
				}
			}
			require.Equal(t, broken, seen > 0, "%d histories of 200, strict %t", seen, strict)
		}
	}
}
