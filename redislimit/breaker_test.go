package redislimit

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// errGone is what a client tells of a server that is not there.
var errGone = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// goAway makes a limiter believe that its server is away, for an hour.
func goAway(t *testing.T, s *scripts) {
	for _, shared := range []bool{false, true} {
		b := s.breakers.of(t.Context(), "", shared)
		for range breakAfter {
			b.done(time.Now().Add(time.Hour), time.Now().Add(time.Hour), errGone)
		}
	}
}

func TestBreaker(t *testing.T) {
	var log bytes.Buffer
	b := newBreaker(slog.New(slog.NewTextHandler(&log, nil)), time.Second)
	gone := errGone
	start := time.Unix(1_700_000_000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

	for i, step := range []struct {
		ms      int
		err     error // of a call that is done, nil where done is false
		done    bool
		allowed bool // asked afterwards, at the same time
		away    bool
		changes uint64
	}{
		{ms: 0, allowed: true},
		{ms: 1, done: true, err: gone, allowed: true},
		{ms: 2, done: true, err: gone, allowed: true},
		{ms: 3, done: true, allowed: true}, // begins anew
		{ms: 4, done: true, err: gone, allowed: true},
		{ms: 5, done: true, err: gone, allowed: true},
		{ms: 6, done: true, err: gone, away: true, changes: 1},
		{ms: 255, away: true, changes: 1},
		{ms: 256, allowed: true, away: true, changes: 1}, // the probe
		{ms: 257, away: true, changes: 1},                // and no other
		{ms: 300, done: true, err: gone, away: true, changes: 1},
		{ms: 549, away: true, changes: 1},
		{ms: 550, allowed: true, away: true, changes: 1},
		{ms: 551, done: true, allowed: true, changes: 2},
		{ms: 552, done: true, allowed: true, changes: 2},
	} {
		if step.done {
			b.done(at(step.ms), at(step.ms), step.err)
		}
		require.Equal(t, step.allowed, b.allow(at(step.ms)), "step %d", i)
		require.Equal(t, step.away, b.state().Away, "step %d", i)
		require.Equal(t, step.changes, b.state().Changes, "step %d", i)
	}
	require.Equal(t, gone, b.state().Err)
	require.Equal(t, at(551), b.state().Since)
	require.Equal(t, 1, strings.Count(log.String(), "Redis is away"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "Redis is back"), log.String())
	require.Equal(t, 2, strings.Count(log.String(), "\n"))
}

// TestBreakerCountsThoseWhoGiveUp: callers whose own deadlines are shorter than the timeout
// notice a Redis that hangs, too, and one that is only slow now and then is not held away.
func TestBreakerCountsThoseWhoGiveUp(t *testing.T) {
	b := newBreaker(quiet(), time.Second)
	now := time.Unix(1_700_000_000, 0)
	for range 29 {
		b.gaveUp(now, 100*time.Millisecond)
	}
	require.False(t, b.state().Away)
	b.gaveUp(now, 100*time.Millisecond)
	require.True(t, b.state().Away)
	require.ErrorContains(t, b.state().Err, "no answer within 1s")

	b.done(now, now, nil)
	for range 1000 {
		b.gaveUp(now, 900*time.Millisecond)
		b.done(now, now, nil)
	}
	require.False(t, b.state().Away)
}

func TestFailureNames(t *testing.T) {
	require.Equal(t, "share local open closed Failure(4)",
		FailShare.String()+" "+FailLocal.String()+" "+FailOpen.String()+" "+FailClosed.String()+" "+Failure(4).String())
}
