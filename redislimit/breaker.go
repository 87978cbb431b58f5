package redislimit

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Failure is how requests are decided while Redis is away: gone, or too slow.
type Failure int

const (
	// FailLocal goes on with what this machine knows.
	FailLocal Failure = iota
	// FailOpen admits every request.
	FailOpen
	// FailClosed denies every request.
	FailClosed
)

// String returns the policy's name.
func (f Failure) String() string {
	switch f {
	case FailLocal:
		return "local"
	case FailOpen:
		return "open"
	case FailClosed:
		return "closed"
	}
	return fmt.Sprintf("Failure(%d)", int(f))
}

// unseen decides on n units, of which most can pass at once, without looking at the key, as
// FailOpen or FailClosed says.
func (f Failure) unseen(n, most, limit int) sketchlimit.Decision {
	d := sketchlimit.Decision{Limit: limit}
	switch {
	case n < 1 || n > most:
		d.RetryAfter = sketchlimit.Never
	case f == FailOpen:
		d.Allowed, d.Remaining = true, most
	default:
		d.RetryAfter = probeEvery
	}
	return d
}

// Health tells whether Redis answers.
type Health struct {
	Away    bool      // it does not: requests are decided as Failure says
	Since   time.Time // of the latest change; zero if there was none
	Changes uint64    // how often Away has changed
	Err     error     // the latest failure, nil if there was none
}

const (
	breakAfter = 3                      // failures in a row
	probeEvery = 250 * time.Millisecond // while Redis is away
)

// breaker keeps requests from waiting for a Redis that is away. After breakAfter failures
// in a row it holds all calls back but one every probeEvery, and one that succeeds ends
// that. It logs each change once. It is made by newBreaker and safe for concurrent use.
type breaker struct {
	log     *slog.Logger
	name    string
	timeout time.Duration

	mu       sync.Mutex
	health   Health
	failures int           // in a row
	waited   time.Duration // by callers that have given up, since the last call that is done
	probe    time.Time     // while away: no call before this
}

// newBreaker returns a breaker that believes Redis to be there. name is told in the log;
// timeout is how long Redis may take.
func newBreaker(log *slog.Logger, name string, timeout time.Duration) *breaker {
	return &breaker{log: log, name: name, timeout: timeout}
}

// allow tells whether Redis may be asked at a time. While it is away, whoever is told so
// is the probe.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.health.Away {
		return true
	}
	if now.Before(b.probe) {
		return false
	}
	b.probe = now.Add(probeEvery)
	return true
}

// done tells how a call went that ended at a time. An err that Redis is not to blame for, such
// as a request that its client has given up, must not come here, but to gaveUp.
func (b *breaker) done(now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waited = 0
	if err != nil {
		b.failed(now, err)
		return
	}
	b.failures = 0
	b.change(now, false)
}

// gaveUp tells that somebody who had waited for so long gave up, which may be Redis' fault or
// not. Together callers that are in a hurry notice as soon as one that waits for the timeout.
func (b *breaker) gaveUp(now time.Time, waited time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waited += waited; b.waited >= b.timeout {
		b.waited = 0
		b.failed(now, fmt.Errorf("redislimit: no answer within %v", b.timeout))
	}
}

// failed is called under the lock.
func (b *breaker) failed(now time.Time, err error) {
	b.health.Err = err
	if b.failures++; b.failures >= breakAfter {
		b.probe = now.Add(probeEvery)
		b.change(now, true)
	}
}

// change is called under the lock.
func (b *breaker) change(now time.Time, away bool) {
	if b.health.Away == away {
		return
	}
	lasted := now.Sub(b.health.Since)
	b.health.Away, b.health.Since = away, now
	b.health.Changes++
	if away {
		b.log.LogAttrs(context.Background(), slog.LevelError, "redislimit: Redis is away",
			slog.String("name", b.name), slog.Any("error", b.health.Err))
	} else {
		b.log.LogAttrs(context.Background(), slog.LevelInfo, "redislimit: Redis is back",
			slog.String("name", b.name), slog.Duration("after", lasted))
	}
}

// state returns what is known of Redis.
func (b *breaker) state() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}
