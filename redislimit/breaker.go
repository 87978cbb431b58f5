package redislimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

// Failure is how requests are decided while Redis is away: gone, or too slow.
type Failure = synced.Failure

const (
	// FailShare goes on with this machine's share of the limit.
	FailShare = synced.FailShare
	// FailLocal goes on with what this machine knows, and with the whole limit.
	FailLocal = synced.FailLocal
	// FailOpen admits every request.
	FailOpen = synced.FailOpen
	// FailClosed denies every request.
	FailClosed = synced.FailClosed
)

// Health says whether Redis answers.
type Health = synced.Health

// ErrAway is what an [Exact] returns, wrapped, while it does not ask Redis because that is away.
var ErrAway = errors.New("redislimit: Redis is away")

const (
	breakAfter = 3                 // failures in a row
	probeEvery = synced.ProbeEvery // while Redis is away
	refusals   = time.Minute       // between log lines that Redis refuses requests
)

// breaker keeps requests from waiting for a server that is away. After breakAfter failures
// in a row it holds all calls back but one every probeEvery, and one that is answered ends
// that. An error reply is an answer. A failure says nothing of the server if another call was answered
// while it waited: then its connection is to blame. It logs each change once. It is made by newBreaker and
// safe for concurrent use.
type breaker struct {
	log     *slog.Logger
	timeout time.Duration

	mu       sync.Mutex
	health   Health
	failures int           // in a row
	first    time.Time     // of these
	answer   time.Time     // the latest
	refused  time.Time     // when the log was told so
	waited   time.Duration // by callers that have given up, since the last call that is done
	probe    time.Time     // while away: no call before this
}

// newBreaker returns a breaker that believes Redis to be there. timeout is how long Redis may take.
func newBreaker(log *slog.Logger, timeout time.Duration) *breaker {
	return &breaker{log: log, timeout: timeout}
}

// allow reports whether Redis may be asked at a time. While Redis is away, the one caller
// for which it returns true is the probe.
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

// done records how a call went that lasted from start until now. Errors that are not the
// fault of Redis, such as a cancelled request, must go to gaveUp instead.
func (b *breaker) done(start, now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waited = 0
	if err == nil || isReply(err) {
		b.answered(now, err)
	} else if !b.answer.After(start) {
		b.failed(now, err)
	}
}

// answered is called under the lock. An err is what Redis refuses.
func (b *breaker) answered(now time.Time, err error) {
	b.failures, b.answer = 0, now
	b.change(now, false)
	if err == nil {
		return
	}
	b.health.Err = err
	if now.Sub(b.refused) >= refusals {
		b.refused = now
		b.log.LogAttrs(context.Background(), slog.LevelError, "redislimit: Redis refuses", slog.Any("error", err))
	}
}

// gaveUp records that a caller gave up after it had waited, by the fault of Redis or not.
// Several callers in a hurry open the breaker as soon as one that waits for the timeout.
func (b *breaker) gaveUp(now time.Time, waited time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waited += waited; b.waited >= b.timeout {
		b.waited = 0
		b.failed(now, fmt.Errorf("redislimit: no answer within %v: %w", b.timeout, context.DeadlineExceeded))
	}
}

// failed is called under the lock. A connection that breaks may be an old one, of which a client has many:
// only if they go on breaking the server is away.
func (b *breaker) failed(now time.Time, err error) {
	b.health.Err = err
	if b.failures == 0 {
		b.first = now
	}
	b.failures++
	if b.health.Away || b.failures >= breakAfter && (isAbsence(err) || now.Sub(b.first) >= probeEvery) {
		b.probe = now.Add(probeEvery)
		b.change(now, true)
	}
}

// isReply reports whether an error is a reply, so that the server is there.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !redis.IsLoadingError(err) && !redis.IsClusterDownError(err) &&
		!redis.IsMasterDownError(err) && !redis.IsMaxClientsError(err)
}

// isAbsence reports whether an error shows that no server is there: no connection could
// be made, or no reply came.
func isAbsence(err error) bool {
	var reply redis.Error
	var net *net.OpError
	var timeout interface{ Timeout() bool }
	return errors.As(err, &reply) || errors.As(err, &net) && net.Op == "dial" || errors.As(err, &timeout) && timeout.Timeout() ||
		errors.Is(err, redis.ErrPoolTimeout)
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
		b.log.LogAttrs(context.Background(), slog.LevelError, "redislimit: Redis is away", slog.Any("error", b.health.Err))
	} else {
		b.log.LogAttrs(context.Background(), slog.LevelInfo, "redislimit: Redis is back", slog.Duration("after", lasted))
	}
}

// state returns what is known of Redis.
func (b *breaker) state() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}

// breakers are one breaker for each server of a cluster or ring, and for each of the two ways that calls go
// there: what is broken in one says nothing of the others, and a probe goes the way that its breaker holds.
type breakers struct {
	client  redis.UniversalClient
	log     *slog.Logger
	timeout time.Duration
	known   atomic.Bool // who has which keys

	mu  sync.Mutex
	all map[breakerID]*breaker
}

type breakerID struct {
	server string
	shared bool
}

// of returns the breaker of the server that has a key.
func (b *breakers) of(ctx context.Context, key string, shared bool) *breaker {
	id := breakerID{b.server(ctx, key), shared}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[id] == nil {
		log := b.log
		if id.server != "" {
			log = log.With(slog.String("server", id.server))
		}
		b.all[id] = newBreaker(log, b.timeout)
	}
	return b.all[id]
}

// server returns the address of the server that has a key, where there are several. Until one has answered
// that is not known, and asking might take long.
func (b *breakers) server(ctx context.Context, key string) string {
	var c *redis.Client
	switch client := b.client.(type) {
	case *redis.ClusterClient:
		if b.known.Load() {
			c, _ = client.MasterForKey(ctx, key)
		}
	case *redis.Ring:
		c, _ = client.GetShardClientForKey(key)
	}
	if c == nil {
		return ""
	}
	return c.Options().Addr
}

// state returns what is known of all servers.
func (b *breakers) state() (h Health) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.all {
		o := one.state()
		if h.Err == nil || o.Err != nil && o.Since.After(h.Since) {
			h.Err = o.Err
		}
		if o.Since.After(h.Since) {
			h.Since = o.Since
		}
		h.Away = h.Away || o.Away
		h.Changes += o.Changes
	}
	return h
}
