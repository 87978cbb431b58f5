package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/sharing"
)

// node is one of several limiters with one limit.
type node struct {
	*sketchlimit.Limiter
	share *sharing.Share
	sent  map[int64][]uint64 // own cells that the others know, by generation
}

func newNode(t testing.TB, c sketchlimit.Config) *node {
	l := build(t, c)
	share, err := l.Share()
	require.NoError(t, err)
	return &node{l, share, map[int64][]uint64{}}
}

// tell carries to another node what this one has admitted since the last time.
func (n *node) tell(t testing.TB, other *node) {
	current, kept := n.share.Generations()
	words := n.share.PartWords()
	own := make([]uint64, words)
	bits, lanes := n.share.CellBits(), 64/n.share.CellBits()
	for g := current - int64(kept) + 1; g <= current; g++ {
		if n.sent[g] == nil {
			n.sent[g] = make([]uint64, words*n.share.Parts())
		}
		for part := range n.share.Parts() {
			sent := n.sent[g][part*words:][:words]
			require.True(t, n.share.Own(part, g, own))
			require.True(t, other.share.AddOthers(part, g, func(yield func(int, uint32) bool) {
				for cell := range words * lanes {
					shift := cell % lanes * bits
					more := (own[cell/lanes] - sent[cell/lanes]) >> shift & (1<<bits - 1)
					if more > 0 && !yield(cell, uint32(more)) {
						return
					}
				}
			}))
			copy(sent, own)
		}
	}
}

// Two limiters that tell each other all that they admit decide as one exact algorithm
// does, whenever the others' cells were weighed last.
func TestShareDecidesAsOne(t *testing.T) {
	const window = 1200 * ms
	for _, c := range []struct {
		config sketchlimit.Config
		oracle func() (exact.Limiter, error)
	}{
		{sketchlimit.Config{Algorithm: sketchlimit.FixedWindow}, func() (exact.Limiter, error) { return exact.NewFixedWindow(60, window) }},
		{sketchlimit.Config{}, func() (exact.Limiter, error) { return exact.NewSlidingWindow(60, window) }},
		{sketchlimit.Config{SubWindows: 4}, func() (exact.Limiter, error) { return exact.NewSlots(60, window, 4) }},
		{sketchlimit.Config{MaxMemoryBytes: 1 << 20, Algorithm: sketchlimit.FixedWindow}, func() (exact.Limiter, error) { return exact.NewFixedWindow(60, window) }},
		{sketchlimit.Config{MaxMemoryBytes: 1 << 20}, func() (exact.Limiter, error) { return exact.NewSlidingWindow(60, window) }},
		{sketchlimit.Config{MaxMemoryBytes: 1 << 20, SubWindows: 4}, func() (exact.Limiter, error) { return exact.NewSlots(60, window, 4) }},
	} {
		now := time.Unix(1_700_000_000, 0)
		c.config.Limit, c.config.Window, c.config.Seed = 60, window, 1
		c.config.Keys, c.config.Clock = 1000, func() time.Time { return now }
		nodes := []*node{newNode(t, c.config), newNode(t, c.config)}
		oracle, err := c.oracle()
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(1, 2))
		refused, resized := 0, 0
		for i := range 6000 {
			if c.config.MaxMemoryBytes > 0 && i%97 == 0 && resize(nodes[i%2].Limiter, 16<<10*(1+r.IntN(8))) {
				resized++
			}
			now = now.Add(time.Duration(r.Int64N(int64(30 * ms))))
			here := r.IntN(2)
			key := fmt.Sprint(r.IntN(3))
			n := 1 + r.IntN(3)
			require.Equal(t, oracle.PeekAt(now, key, n), nodes[here].Do(sketchlimit.Request{Time: now, Key: key, N: n, Peek: true}), "%+v, request %d", c.config, i)
			want, got := oracle.TakeAt(now, key, n), nodes[here].TakeAt(now, key, n)
			if want.Allowed { // less may be left for all that the limiter has looked at
				require.LessOrEqual(t, got.Remaining, want.Remaining)
				want.Remaining = got.Remaining
			} else {
				refused++
			}
			require.Equal(t, want, got, "%+v, request %d: %d units", c.config, i, n)
			nodes[here].tell(t, nodes[1-here])
			if r.IntN(10) == 0 {
				nodes[1-here].share.Weigh()
			}
		}
		require.Greater(t, refused, 100)
		require.Equal(t, c.config.MaxMemoryBytes > 0, resized > 20, resized)
	}
}

// Nodes that admit the limit each, before they hear of each other, use twice the limit.
// Allow counts that as Take does, also while an engine has a predecessor.
func TestAllowCountsOthersAboveTheLimit(t *testing.T) {
	const limit, window = 60, 1200 * ms
	for _, subWindows := range []int{1, 4} {
		now := time.Unix(1_700_000_000, 0).Truncate(window)
		c := sketchlimit.Config{
			Limit: limit, Window: window, SubWindows: subWindows, Seed: 1, Keys: 1000, MaxMemoryBytes: 1 << 20,
			Clock: func() time.Time { return now },
		}
		here, there := newNode(t, c), newNode(t, c)
		for range limit {
			require.True(t, here.Allow("key"))
			require.True(t, there.Allow("key"))
		}
		there.tell(t, here)
		require.True(t, resize(here.Limiter, 64<<10))
		now = now.Add(window + window/time.Duration(4*subWindows)) // three quarters of the first generation count
		require.False(t, here.Allow("key"), "%d sub-windows", subWindows)
		require.False(t, here.Take("key", 1).Allowed, "%d sub-windows", subWindows)
		now = now.Add(window / time.Duration(2*subWindows)) // a quarter
		require.True(t, here.Allow("key"), "%d sub-windows", subWindows)
	}
}

// The sum of several limiters' cells bounds every key's count, however crowded they
// are; and with one limiter's cells missing it does not.
func TestShareSumIsAnUpperBound(t *testing.T) {
	const keys = 3000
	now := time.Unix(1_700_000_000, 0)
	c := sketchlimit.Config{Limit: 100, Window: time.Hour, Seed: 1, Keys: 3 * keys / 4, Clock: func() time.Time { return now }}
	var nodes []*node
	for range 4 {
		nodes = append(nodes, newNode(t, c))
	}
	r := rand.New(rand.NewPCG(3, 4))
	counts := make([]int, keys) // of the first three
	for range 5 * keys {
		key := int(float64(keys) * r.Float64() * r.Float64())
		if nodes[r.IntN(3)].Allow(fmt.Sprint(key)) {
			counts[key]++
		}
	}
	below := func() (n int) {
		for key, count := range counts {
			if nodes[3].Peek(fmt.Sprint(key)).Remaining > 100-count {
				n++
			}
		}
		return n
	}
	nodes[0].tell(t, nodes[3])
	nodes[1].tell(t, nodes[3])
	require.NotZero(t, below(), "this must be able to fail")
	nodes[2].tell(t, nodes[3])
	require.Zero(t, below())
	sum := 0
	for key, count := range counts {
		sum += 100 - nodes[3].Peek(fmt.Sprint(key)).Remaining - count
	}
	t.Logf("keys read %.1f units above their %d on average, at %d bytes a key", float64(sum)/keys, 5,
		nodes[3].share.MemoryBytes()/keys)
}

// What was admitted at the end of a generation can be told in the next one, and no later.
func TestShareKeepsOwnCellsOverTurns(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).Truncate(time.Minute)
	n := newNode(t, sketchlimit.Config{Limit: 100, Window: time.Minute, Seed: 1, Keys: 100, Clock: func() time.Time { return now }})
	g, kept := n.share.Generations()
	require.Equal(t, 2, kept)
	sum := func(generation int64) (sum uint64) {
		words := make([]uint64, n.share.PartWords())
		for part := range n.share.Parts() {
			if !n.share.Own(part, generation, words) {
				return 1000
			}
			for _, w := range words {
				for ; w > 0; w >>= n.share.CellBits() {
					sum += w & (1<<n.share.CellBits() - 1)
				}
			}
		}
		return sum
	}
	n.TakeAt(now, "k", 7)
	require.EqualValues(t, 4*7, sum(g))
	now = now.Add(time.Minute)
	require.EqualValues(t, 4*7, sum(g))
	require.EqualValues(t, 0, sum(g+1))
	n.TakeAt(now, "k", 2)
	require.EqualValues(t, 4*7, sum(g))
	require.EqualValues(t, 4*2, sum(g+1))
	now = now.Add(time.Minute)
	require.EqualValues(t, 1000, sum(g))
	require.EqualValues(t, 4*2, sum(g+1))
	require.EqualValues(t, 0, sum(g+2))
	now = now.Add(time.Hour)
	require.EqualValues(t, 1000, sum(g+2))
	require.EqualValues(t, 0, sum(g+61))
	require.False(t, n.share.AddOthers(0, g, nil))
	require.False(t, n.share.SetOthers(0, g+63, nil))
}

// Times may come in any order inside a generation: what others weigh is then asked for
// that time.
func TestShareAtEarlierTimes(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).Truncate(time.Minute)
	c := sketchlimit.Config{Limit: 100, Window: time.Minute, Seed: 1, Keys: 100, Clock: func() time.Time { return now }}
	a, b := newNode(t, c), newNode(t, c)
	require.True(t, a.TakeAt(now, "k", 100).Allowed)
	now = now.Add(90 * time.Second)
	a.tell(t, b)
	b.share.Weigh()
	require.Equal(t, 49, b.TakeAt(now, "k", 1).Remaining)
	require.Equal(t, 23, b.TakeAt(now.Add(-15*time.Second), "k", 1).Remaining, "three quarters then, not half")
}

// The same for cells that are set. They were weighed for the clock's time, and a
// request of an earlier one was held against that.
func TestSetOthersHoldsAtEarlierTimes(t *testing.T) {
	start := time.Unix(1_700_000_000, 0).Truncate(time.Minute)
	now := start
	c := sketchlimit.Config{Limit: 100, Window: time.Minute, Seed: 1, Keys: 100, Clock: func() time.Time { return now }}
	a, b := newNode(t, c), newNode(t, c)
	require.True(t, a.TakeAt(now, "k", 100).Allowed)
	now = start.Add(90 * time.Second)
	own := make([]uint64, a.share.PartWords())
	set := func() {
		first, _ := a.share.Generations()
		for part := range a.share.Parts() {
			require.True(t, a.share.Own(part, first-1, own))
			require.True(t, b.share.SetOthers(part, first-1, own))
		}
	}
	set()
	earlier := start.Add(75 * time.Second)
	require.False(t, b.TakeAt(earlier, "k", 26).Allowed, "25 are free then, 50 at the clock's time")
	require.True(t, b.TakeAt(earlier, "k", 25).Allowed)

	// The clock steps back after the cells were weighed, and they are weighed again.
	b.share.Weigh()
	now = start.Add(80 * time.Second)
	b.share.Weigh()
	set()
	require.False(t, b.TakeAt(now, "k", 9).Allowed, "33 are free of the others', less 25")
	require.True(t, b.TakeAt(now, "k", 8).Allowed)
}

// What others have admitted denies new keys here, and Stats say so.
func TestStatsSeeTheOthersCells(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := sketchlimit.Config{Limit: 100, Window: time.Minute, Seed: 1, Keys: 1000, Clock: func() time.Time { return now }}
	a, b := newNode(t, c), newNode(t, c)
	for i := range 30_000 { // thirty times as many keys as planned
		a.AllowN(fmt.Sprint(i), 100)
	}
	a.tell(t, b)
	b.AllowN("one", 1)
	denied := 0
	for i := range 10_000 {
		if !b.Peek(fmt.Sprint("new", i)).Allowed {
			denied++
		}
	}
	require.Greater(t, denied, 5000)
	s := b.Stats()
	require.InDelta(t, float64(denied)/10_000, s.FalseDenialRate, 0.02)
	require.True(t, s.OutsidePlan)
}

// Requests, and whoever carries the counts, all at once: what others have used is used.
func TestShareIsSafeForConcurrentUse(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := sketchlimit.Config{Limit: 1000, Window: time.Hour, Seed: 1, Keys: 1000, Clock: func() time.Time { return now }}
	a, b := newNode(t, c), newNode(t, c)
	require.True(t, a.AllowN("k", 400))
	var admitted atomic.Int64
	var wg sync.WaitGroup
	a.tell(t, b)
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				if b.Allow("k") {
					admitted.Add(1)
				}
				b.Allow(fmt.Sprint(i))
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			b.share.Weigh()
			b.tell(t, a)
		}
	})
	wg.Wait()
	b.tell(t, a)
	require.EqualValues(t, 600, admitted.Load())
	require.False(t, a.Allow("k"))
}

func TestShareRefusals(t *testing.T) {
	for _, c := range []sketchlimit.Config{
		{Limit: 10, Window: time.Minute, Keys: 100, Algorithm: sketchlimit.TokenBucket},
		{Limit: 10, Window: time.Minute, Keys: 100, Overload: sketchlimit.DenyProven},
	} {
		_, err := build(t, c).Share()
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
	c := sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 100, Seed: 1}
	one, again := newNode(t, c), newNode(t, c)
	same, err := one.Share()
	require.NoError(t, err)
	require.Same(t, one.share, same)
	require.Equal(t, one.share.Layout(), again.share.Layout())
	c.Seed = 2
	require.NotEqual(t, one.share.Layout(), newNode(t, c).share.Layout())
	c.Seed, c.Hash = 1, sketchlimit.XXHash(0)
	require.NotEqual(t, one.share.Layout(), newNode(t, c).share.Layout())
	require.Zero(t, testing.AllocsPerRun(1000, func() { one.Take("k", 1) }))
}

// A limiter that has grown shares as one that has not: it has the parts of the first
// engine.
func TestShareOfAGrownLimiter(t *testing.T) {
	c := sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 100, MaxMemoryBytes: 1 << 20, Seed: 1}
	grown := build(t, c)
	require.True(t, resize(grown, 512<<10))
	share, err := grown.Share()
	require.NoError(t, err)
	require.Equal(t, newNode(t, c).share.Layout(), share.Layout())
}

// A caller's iterator may use the limiter and the Share: it runs without a lock. All
// that it tells is added.
func TestAddOthersRunsItsIteratorWithoutALock(t *testing.T) {
	now := time.Unix(6000, 0)
	l := build(t, sketchlimit.Config{Limit: 100, Window: time.Minute, Clock: at(now),
		Plan: &sketchlimit.Plan{Shards: 1, BloomBytes: 1024, BloomProbes: 3, Depth: 4, Width: 512, CellBits: 8}})
	s, err := l.Share()
	require.NoError(t, err)
	current, _ := s.Generations()
	cells := s.PartWords() * 64 / s.CellBits()
	require.Greater(t, cells, 200)
	done := make(chan bool)
	go func() {
		own := make([]uint64, s.PartWords())
		done <- s.AddOthers(0, current, func(yield func(int, uint32) bool) {
			for cell := range cells {
				l.TakeAt(now, "k", 1)
				s.Own(0, current, own)
				if !yield(cell, 90) {
					return
				}
			}
		})
	}()
	select {
	case added := <-done:
		require.True(t, added)
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a lock that it holds")
	}
	for i := range int64(50) {
		require.Equal(t, 10, l.Do(sketchlimit.Request{Time: now, Key: keyName(1000 + i), Peek: true}).Remaining)
	}
	require.False(t, s.AddOthers(0, current-2, func(func(int, uint32) bool) { t.Error("ranged over") }))

	// Its generation passes in the midst of it.
	rest := 0
	require.False(t, s.AddOthers(0, current, func(yield func(int, uint32) bool) {
		l.TakeAt(now.Add(time.Hour), "k", 1)
		for yield(rest, 1) {
			rest++
		}
	}))
	require.Less(t, rest, 65)
}

// A request that never passes is told what a look tells: it is refused whatever others
// have admitted, and that is read all the same.
func TestShareTellsRequestsForNothingWhatHolds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).Truncate(time.Minute)
	c := sketchlimit.Config{Limit: 100, Window: time.Minute, Seed: 1, Keys: 100, Clock: func() time.Time { return now }}
	a, b := newNode(t, c), newNode(t, c)
	require.True(t, a.AllowN("k", 50))
	a.tell(t, b) // in full, until it is weighed again
	now = now.Add(90 * time.Second)
	for _, n := range []int{-2, -1, 101} {
		require.Equal(t, b.Do(sketchlimit.Request{Time: now, Key: "k", N: n, Peek: true}), b.Take("k", n))
		require.Equal(t, 75, b.Take("k", n).Remaining)
	}
}

// What others tell changes how long a key has to wait that was denied here.
func TestShareTellsADeniedKeyAnew(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).Truncate(time.Minute)
	c := sketchlimit.Config{Limit: 100, Window: time.Minute, Seed: 1, Keys: 100, Clock: func() time.Time { return now }}
	a, b := newNode(t, c), newNode(t, c)
	require.True(t, a.AllowN("k", 50))
	require.True(t, b.AllowN("k", 100))
	before := b.Take("k", 1)
	require.False(t, before.Allowed)
	require.Equal(t, before, b.Take("k", 1))
	a.tell(t, b)
	require.Equal(t, b.Peek("k"), b.Take("k", 1))
	require.Greater(t, b.Take("k", 1).RetryAfter, before.RetryAfter)
}
