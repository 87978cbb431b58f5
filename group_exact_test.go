package sketchlimit_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

func made[L any](l L, err error) L {
	if err != nil {
		panic(err)
	}
	return l
}

// groupOfBoth is a group of sketches and exact limiters, with an exact limiter for each
// that decides alone, and whether it takes all requests for one.
func groupOfBoth() (g *sketchlimit.Group, oracles []exact.Limiter, global []bool) {
	sketch := func(c sketchlimit.Config) *sketchlimit.Limiter {
		c.MemoryBytes, c.Seed = 1<<20, 1
		return made(sketchlimit.New(c))
	}
	g = made(sketchlimit.NewGroup(
		made(exact.NewSlidingWindow(5, time.Second)),
		sketch(sketchlimit.Config{Limit: 7, Window: 2 * time.Second, Algorithm: sketchlimit.FixedWindow}),
		sketchlimit.Global(made(exact.NewGCRA(20, time.Second, 9))),
		made(exact.NewSlidingLog(6, 1500*time.Millisecond)),
		sketchlimit.Global(sketch(sketchlimit.Config{Limit: 30, Window: time.Second})),
	))
	return g, []exact.Limiter{
		made(exact.NewSlidingWindow(5, time.Second)), made(exact.NewFixedWindow(7, 2*time.Second)),
		made(exact.NewGCRA(20, time.Second, 9)), made(exact.NewSlidingLog(6, 1500*time.Millisecond)),
		made(exact.NewSlidingWindow(30, time.Second)),
	}, []bool{false, false, true, false, true}
}

// A group of both kinds admits exactly what all its limiters would, each asked by
// itself, and then all of them have counted it.
func TestGroupOfSketchAndExactIsAllOrNone(t *testing.T) {
	g, oracles, global := groupOfBoth()
	r, now := rand.New(rand.NewPCG(3, 4)), time.Unix(1_700_000_000, 0)
	var admitted, denied int
	for i := range 20_000 {
		now = now.Add(time.Duration(r.IntN(60)) * time.Millisecond)
		key, n := fmt.Sprint(r.IntN(5)), 1+r.IntN(3)
		want := sketchlimit.Decision{Allowed: true, Remaining: 1 << 30}
		for j, o := range oracles {
			k := key
			if global[j] {
				k = ""
			}
			d := o.PeekAt(now, k, n)
			want.Allowed = want.Allowed && d.Allowed
			want.RetryAfter = max(want.RetryAfter, d.RetryAfter)
		}
		request := sketchlimit.Request{Key: key, N: n, Time: now}
		if i%3 == 0 {
			request.Peek = true
		}
		d := g.Do(request)
		require.Equal(t, want.Allowed, d.Allowed, "request %d", i)
		require.Equal(t, want.RetryAfter, d.RetryAfter, "request %d", i)
		if !d.Allowed {
			denied++
			continue
		}
		if request.Peek {
			continue
		}
		admitted++
		for j, o := range oracles {
			k := key
			if global[j] {
				k = ""
			}
			own := o.TakeAt(now, k, n)
			want.Remaining = min(want.Remaining, own.Remaining)
		}
		require.Equal(t, want.Remaining, d.Remaining, "request %d", i)
	}
	require.Greater(t, admitted, 2000)
	require.Greater(t, denied, 2000)
}

// One key asked twice of an exact limiter gets no more than its limit: the second is
// refused.
func TestDoEachOfOneExactKeyTwice(t *testing.T) {
	a, b := made(exact.NewFixedWindow(3, time.Hour)), made(exact.NewFixedWindow(10, time.Hour))
	g := made(sketchlimit.NewGroup(a, b))
	now := time.Unix(0, 0)
	asks := []sketchlimit.Ask{
		{Limiter: 0, Request: sketchlimit.Request{Key: "k", N: 2, Time: now}},
		{Limiter: 1, Request: sketchlimit.Request{Key: "k", N: 2, Time: now}},
		{Limiter: 0, Request: sketchlimit.Request{Key: "k", N: 2, Time: now}},
	}
	require.False(t, g.DoEach(asks).Allowed)
	require.Equal(t, 1, a.PeekAt(now, "k", 1).Remaining)
	require.False(t, asks[2].Decision.Allowed)
}

// Groups that share limiters in different orders neither wait for each other for ever
// nor admit too much.
func TestGroupsOfBothAtOnce(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	a, b := made(exact.NewFixedWindow(100, time.Hour)), made(exact.NewGCRA(150, time.Hour, 150))
	c := made(sketchlimit.New(sketchlimit.Config{Limit: 120, Window: time.Hour, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 1 << 20}))
	groups := []*sketchlimit.Group{
		made(sketchlimit.NewGroup(a, b, c)), made(sketchlimit.NewGroup(c, b, a)), made(sketchlimit.NewGroup(b, a)),
		made(sketchlimit.NewGroup(c, a)), made(sketchlimit.NewGroup(sketchlimit.Global(b), a)),
	}
	var admitted [8]atomic.Int64
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := range 400 {
				key := (i + worker) % len(admitted)
				if groups[(i+worker)%len(groups)].TakeAt(now, fmt.Sprint(key), 1).Allowed {
					admitted[key].Add(1)
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for i := range admitted {
		require.LessOrEqual(t, admitted[i].Load(), int64(100))
		total += admitted[i].Load()
	}
	require.EqualValues(t, total, a.Stats().Admitted, "a is in every group: all that was admitted is counted, and nothing else")
}

type stranger struct{}

func (stranger) Do(sketchlimit.Request) sketchlimit.Decision { return sketchlimit.Decision{} }
func (stranger) Window() time.Duration                       { return 0 }

func TestNewGroupRefusesOthers(t *testing.T) {
	ok := made(exact.NewFixedWindow(1, time.Second))
	for want, members := range map[string][]sketchlimit.Member{
		"sketchlimit: limiter 0 of the Group is nil":                                                                        {(*exact.FixedWindow)(nil)},
		"sketchlimit: limiter 1 of the Group is nil":                                                                        {ok, sketchlimit.Global(nil)},
		"sketchlimit: limiter 1 of the Group is limiter 0, must be another one":                                             {ok, ok},
		"sketchlimit: limiter 0 of the Group is a sketchlimit_test.stranger, must be a Limiter, of package exact or Global": {stranger{}},
		"sketchlimit: limiter 0 of the Group is a *sketchlimit.Group, must be a Limiter, of package exact or Global":        {made(sketchlimit.NewGroup(ok))},
	} {
		_, err := sketchlimit.NewGroup(members...)
		require.EqualError(t, err, want)
	}
}
