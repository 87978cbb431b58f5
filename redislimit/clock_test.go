package redislimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestClockStepsBack: a time in the generation before is the beginning of the latest one, and forgets
// nothing.
func TestClockStepsBack(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	start := time.UnixMicro(500_000 * time.Hour.Microseconds())
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		s := strict(t, client, Config{Limit: 5, Window: time.Hour, Algorithm: a, MemoryBytes: 1 << 20, Failure: FailClosed})
		for _, step := range []struct {
			at        time.Duration
			n         int
			allowed   bool
			remaining int
		}{
			{30 * time.Minute, 3, true, 2},
			{10 * time.Minute, 1, true, 1},
			{-time.Hour, 1, true, 0},
			{-time.Hour, 1, false, 0},
			{59 * time.Minute, 1, false, 0},
			{30 * time.Hour, 4, true, 1}, // a jump ahead
			{29 * time.Hour, 2, false, 1},
			{29 * time.Hour, 1, true, 0},
			{30 * time.Hour, 1, false, 0},
		} {
			d, err := s.TakeAt(t.Context(), start.Add(step.at), "k", step.n)
			require.NoError(t, err)
			require.Equal(t, step.allowed, d.Allowed, "%v: %+v", a, step)
			require.Equal(t, step.remaining, d.Remaining, "%v: %+v", a, step)
		}
	}
}

var clockConfigs = []Config{
	{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.SlidingWindow, Keys: 1000},
	{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, Keys: 1000},
	{Limit: 10, Window: time.Minute, Algorithm: sketchlimit.TokenBucket, Keys: 1000},
	{Limit: 100, Window: 10 * time.Minute, Algorithm: sketchlimit.TokenBucket, Burst: 10, Keys: 1000},
	{Limit: 10, Window: time.Second, Algorithm: sketchlimit.SlidingWindow, Keys: 1000},
}

// TestClockAheadPoisonsNobody: 2,000 requests are stamped an hour ahead. In the ten minutes that follow,
// 200 other keys, of which each asks every 30 s, are denied none. Stats sees that, too.
func TestClockAheadPoisonsNobody(t *testing.T) {
	testkit.OneGoroutine(t)
	client := connect(t, redistest.New(t).Addr)
	for i, c := range clockConfigs {
		for _, start := range []time.Time{time.Unix(1_700_000_000, 0), time.Now(), time.Unix(2_000_000_000, 0)} {
			c.Failure, c.Prefix = FailClosed, fmt.Sprint(i, start.Unix())
			s := strict(t, client, c)
			for i := range 2000 {
				_, err := s.TakeAt(t.Context(), start.Add(time.Hour), fmt.Sprint("ahead", i), 1+i%9)
				require.NoError(t, err)
			}
			stats, err := s.statsAt(t.Context(), start)
			require.NoError(t, err)
			require.Zero(t, stats.FalseDenialRate)
			denied := 0
			for i := range 4000 {
				d, err := s.TakeAt(t.Context(), start.Add(time.Duration(i)*150*time.Millisecond), fmt.Sprint("key", i%200), 1)
				require.NoError(t, err)
				if !d.Allowed {
					denied++
				}
			}
			require.Zero(t, denied, "%v %v from %v", c.Algorithm, c.Window, start)
		}
	}
}

// TestClocksThatStayApart: machines' clocks are hours and days off, and they ask in any order. What is admitted of a
// key stays bounded: the limit by each clock, and once more because the first step back begins anew.
func TestClocksThatStayApart(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	random := rand.New(rand.NewPCG(11, 12))
	for i, c := range clockConfigs {
		for j, clocks := range [][]time.Duration{{0, 24 * time.Hour}, {0, -24 * time.Hour}, {0, 2 * time.Hour, -3 * time.Hour}, {time.Hour, -time.Hour}} {
			for turn := range 5 {
				c.Failure, c.Prefix = FailClosed, fmt.Sprint(i, j, turn)
				s := strict(t, client, c)
				now, admitted := time.Now(), 0
				for range 200 {
					d, err := s.TakeAt(t.Context(), now.Add(clocks[random.IntN(len(clocks))]), "k", 3)
					require.NoError(t, err)
					if d.Allowed {
						admitted += 3
					}
				}
				require.LessOrEqual(t, admitted, (len(clocks)+1)*c.Limit, "%v %v %v", c.Algorithm, c.Window, clocks)
				require.GreaterOrEqual(t, admitted, 9)
			}
		}
	}
}

// TestLateRequestsForgetNothing: what is under way for less than a minute does not empty a block, however short
// windows are.
func TestLateRequestsForgetNothing(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		s := strict(t, client, Config{Limit: 5, Window: 100 * time.Millisecond, Algorithm: a, MemoryBytes: 1 << 20, Failure: FailClosed})
		now := time.Now()
		for i, late := range []time.Duration{0, 59 * time.Second} {
			d, err := s.TakeAt(t.Context(), now.Add(-late), "k", 5)
			require.NoError(t, err)
			require.Equal(t, i == 0, d.Allowed, "%v", a)
		}
	}
}

// TestServersTime takes no time from the caller: an hour's units are there once.
func TestServersTime(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		c := Config{Limit: 2, Window: 1000 * time.Hour, Algorithm: a, MemoryBytes: 1 << 20, Failure: FailClosed, Timeout: patience}
		if a == sketchlimit.TokenBucket {
			c.Burst = 2
		}
		s := strict(t, client, c)
		e, err := NewExact(client, c)
		require.NoError(t, err)
		for _, want := range []bool{true, true, false} {
			got, err := s.Allow(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, want, got, "%v", a)
			got, err = e.Allow(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, want, got, "%v", a)
		}
	}
}
