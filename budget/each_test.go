package budget_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// A budget of 10 a minute and 15 a day tells what each limit says.
func TestDoEach(t *testing.T) {
	now := time.Unix(1_700_006_400, 0) // where windows begin
	clock := func() time.Time { return now }
	c := budget.Config{InFlight: 2, HoldFor: time.Hour}
	for _, l := range []sketchlimit.Config{{Limit: 10, Window: time.Minute}, {Limit: 15, Window: 24 * time.Hour}} {
		l.Algorithm, l.Clock, l.Seed, l.MemoryBytes = sketchlimit.FixedWindow, clock, 1, 1<<20
		c.Limits = append(c.Limits, l)
	}
	b, err := budget.New(c)
	require.NoError(t, err)
	defer b.Close()
	require.Equal(t, []time.Duration{time.Minute, 24 * time.Hour}, b.Windows())

	each := make([]sketchlimit.Decision, 2)
	ask := func(n int, peek bool) (budget.Hold, sketchlimit.Decision) {
		return b.DoEach(sketchlimit.Request{Key: "ann", N: n, Peek: peek}, each)
	}
	said := func() (allowed [2]bool, remaining [2]int) {
		for i, d := range each {
			require.Equal(t, i, d.By)
			require.Equal(t, c.Limits[i].Limit, d.Limit)
			require.Equal(t, d.Allowed, d.RetryAfter == 0)
			allowed[i], remaining[i] = d.Allowed, d.Remaining
		}
		return allowed, remaining
	}
	expect := func(d sketchlimit.Decision, by int, allowed [2]bool, remaining [2]int) {
		t.Helper()
		gotAllowed, gotRemaining := said()
		require.Equal(t, allowed, gotAllowed)
		require.Equal(t, remaining, gotRemaining)
		require.Equal(t, each[by], d)
	}
	_, d := ask(7, true)
	expect(d, 0, [2]bool{true, true}, [2]int{10, 15})
	first, d := ask(7, false)
	expect(d, 0, [2]bool{true, true}, [2]int{3, 8})
	_, d = ask(4, false)
	expect(d, 0, [2]bool{false, true}, [2]int{3, 8})
	require.Equal(t, 7, first.Units())
	require.True(t, first.Extend(2).Allowed)
	require.Equal(t, 9, first.Units())
	require.True(t, first.Settle(8))
	require.Zero(t, first.Units())
	now = now.Add(time.Minute)
	_, d = ask(8, false)
	expect(d, 1, [2]bool{true, false}, [2]int{10, 7})
	ask(1, false)
	ask(1, false)
	_, d = ask(1, false) // there is no room
	expect(d, 1, [2]bool{true, false}, [2]int{8, 5})
	require.Equal(t, time.Second, d.RetryAfter)
	require.Zero(t, budget.Hold{}.Units())
	require.Zero(t, testing.AllocsPerRun(100, func() { ask(8, false) }))
}
