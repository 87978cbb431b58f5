package tests

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// A coarse limiter decides as an exact one does, and nothing that it tells is too good.
func TestCoarseTellsLessAndDecidesTheSame(t *testing.T) {
	testkit.Computes(t)
	for name, c := range crowded {
		t.Run(name, func(t *testing.T) {
			c.Limit, c.LowestLimit, c.Window, c.Seed = 40, 1, time.Minute, 1
			exact := build(t, c)
			c.Coarse = true
			coarse := build(t, c)
			compareTold(t, exact.Do, coarse.Do)
		})
	}
}

func TestCoarseGroup(t *testing.T) {
	c := crowded["sliding"]
	c.Limit, c.LowestLimit, c.Window, c.Seed = 40, 1, time.Minute, 1
	minute := c
	c.Window, c.Limit = time.Hour, 120
	exact := group(t, build(t, minute), build(t, c))
	minute.Coarse, c.Coarse = true, true
	coarse := group(t, build(t, minute), build(t, c))
	compareTold(t, exact.Do, coarse.Do)
}

// compareTold sends the same requests, at times that also step back, to limiters that
// differ in Coarse alone.
func compareTold(t *testing.T, exact, coarse func(sketchlimit.Request) sketchlimit.Decision) {
	t.Helper()
	random, now, less := rand.New(rand.NewPCG(7, 8)), time.Unix(1_700_000_000, 0), 0
	for range 30_000 {
		if random.IntN(40) == 0 {
			now = now.Add(time.Duration(random.Int64N(int64(130*time.Second))) - 50*time.Second)
		}
		now = now.Add(time.Duration(random.Int64N(int64(time.Second))))
		r := sketchlimit.Request{Key: fmt.Sprint(random.IntN(1 + random.IntN(30))), Time: now, Peek: random.IntN(4) == 0}
		if random.IntN(4) == 0 {
			r.N, r.Limit = 1+random.IntN(40), 1+random.IntN(40)
		}
		want, got := exact(r), coarse(r)
		require.Equal(t, want.Allowed, got.Allowed)
		require.Equal(t, want.RetryAfter, got.RetryAfter)
		if got.By == want.By { // of those of a Group that admit, the one that tells of least decides
			require.GreaterOrEqual(t, got.ResetAfter, want.ResetAfter)
		}
		require.LessOrEqual(t, got.Remaining, want.Remaining)
		require.Equal(t, want.Remaining == 0, got.Remaining == 0)
		if want.Remaining > 1 {
			require.Less(t, got.Remaining, want.Remaining, "the quarter in use is told as used")
			less++
		}
	}
	require.Greater(t, less, 1000)
}

// What is told changes when a quarter of the quota is used, and before that not by
// anything.
func TestCoarseSteps(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).Add(7 * time.Second)
	for name, c := range crowded {
		c.Limit, c.LowestLimit, c.Window, c.Coarse = 40, 10, time.Minute, true
		l := build(t, c)
		for used, want := range []int{30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20,
			10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0} {
			d := l.Do(sketchlimit.Request{Key: "k", Time: now, Peek: true})
			require.Equal(t, want, d.Remaining, "%s: %d used", name, used)
			require.Equal(t, l.Do(sketchlimit.Request{Key: "k", Time: now, Peek: true, N: 40}).ResetAfter, d.ResetAfter)
			taken := l.TakeAt(now, "k", 1)
			require.Equal(t, used < 40, taken.Allowed)
			require.Equal(t, d.ResetAfter, taken.ResetAfter, "%s: %d used", name, used)
		}
		l = build(t, c)
		for used, want := range []int{7, 7, 7, 4, 4, 4, 1, 1, 1, 1, 0} { // quarters of 10 are threes
			d := l.Do(sketchlimit.Request{Key: "k", Time: now, Peek: true, Limit: 10})
			require.Equal(t, want, d.Remaining, "%s: %d used of 10", name, used)
			l.Do(sketchlimit.Request{Key: "k", Time: now, Limit: 10})
		}
	}
}

// ResetAfter is that of a quota that is used up at this moment, whatever was used.
func TestCoarseResetAfter(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).Truncate(time.Minute).Add(20 * time.Second)
	for name, want := range map[string]time.Duration{
		"sliding": 100 * time.Second, "fixed": 40 * time.Second, "sub-windows": 70 * time.Second, "bucket": time.Minute,
	} {
		c := crowded[name]
		c.Limit, c.Window, c.Coarse = 40, time.Minute, true
		l := build(t, c)
		for range 42 {
			require.Equal(t, want, l.Do(sketchlimit.Request{Key: "k", Time: now, Peek: true}).ResetAfter, name)
			require.Equal(t, want, l.TakeAt(now, "k", 1).ResetAfter, name)
		}
	}
}

func TestCoarseAllocatesNothing(t *testing.T) {
	for name, c := range crowded {
		c.Limit, c.Window, c.Coarse = 40, time.Minute, true
		l := build(t, c)
		now := time.Unix(1_700_000_000, 0)
		require.Zero(t, testing.AllocsPerRun(100, func() { l.TakeAt(now, "k", 1) }), name)
	}
}
