package redislimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestClockStepsBack: a time in an earlier generation is the beginning of the latest one,
// and forgets nothing; and a clock that has jumped ahead and comes back lets nothing through.
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
			{-5 * time.Hour, 1, true, 0},
			{-5 * time.Hour, 1, false, 0},
			{59 * time.Minute, 1, false, 0},
			{30 * time.Hour, 4, true, 1}, // a jump ahead
			{time.Hour, 2, false, 1},
			{time.Hour, 1, true, 0},
			{30 * time.Hour, 1, false, 0},
		} {
			d, err := s.TakeAt(t.Context(), start.Add(step.at), "k", step.n)
			require.NoError(t, err)
			require.Equal(t, step.allowed, d.Allowed, "%v: %+v", a, step)
			require.Equal(t, step.remaining, d.Remaining, "%v: %+v", a, step)
		}
	}
}

// TestServersTime takes no time from the caller: an hour's units are there once.
func TestServersTime(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		c := Config{Limit: 2, Window: 1000 * time.Hour, Algorithm: a, MemoryBytes: 1 << 20, Failure: FailClosed, Timeout: patience}
		if a == sketchlimit.TokenBucket {
			c.Window = time.Hour // in a thousand, a tick is a millisecond, to which the first unit is rounded up
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
