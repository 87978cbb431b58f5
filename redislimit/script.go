package redislimit

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// scripts runs one script. Few callers at a time write and read themselves, each on a
// connection of the client's pool: nobody has to wake anybody. Those who come when there are
// more share pipelines, one connection for each server, of which one goroutine writes while
// another reads. notes/redis.md has what each does, and what the alternatives did.
type scripts struct {
	pool     *redis.Client // for few callers; nil: all share
	pipeline *redis.AutoPipeliner
	timeout  time.Duration
	text     string
	sha      string
	breakers *breakers
	eviction *evictionWatch

	callers atomic.Int64 // at present
	end     atomic.Pointer[ending]
}

// fewCallers is how many go to Redis apart: up to here nobody gains by sharing, from five
// callers on all do.
const fewCallers = 4

func newScripts(client redis.UniversalClient, c *Config, text string) (*scripts, error) {
	p, err := client.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
	if err != nil {
		return nil, fmt.Errorf("redislimit: client: %w", err)
	}
	sum := sha1.Sum([]byte(text))
	log := c.log().With(slog.String("name", c.prefix()))
	return &scripts{pool: punctual(client), pipeline: p, timeout: c.timeout(), text: text, sha: hex.EncodeToString(sum[:]),
		breakers: &breakers{client: client, log: log, timeout: c.timeout(), all: map[breakerID]*breaker{}},
		eviction: watchEviction(client, log, c.timeout())}, nil
}

// punctual returns a client with the same pool whose commands end with their contexts'
// deadlines, whatever the given one's timeouts are; nil if there is none. The options that
// it sets are its own copy. A client that sets no deadlines (ReadTimeout −2) must not find any
// left on its pool's connections.
func punctual(client redis.UniversalClient) *redis.Client {
	c, ok := client.(*redis.Client)
	if !ok || c.Options().ReadTimeout < 0 || c.Options().WriteTimeout < 0 {
		return nil
	}
	c = c.WithTimeout(0)
	c.Options().ContextTimeoutEnabled = true
	return c
}

// run returns the script's numbers, want of them. It comes back when the timeout is over or
// the context's deadline, if Redis has not answered: what it sent may then still be done.
// Where callers share it comes back as well when the context is cancelled. While the key's server is away it
// returns ErrAway at once.
func (s *scripts) run(ctx context.Context, want int, key string, args ...any) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer s.callers.Add(-1)
	shared := s.callers.Add(1) > fewCallers || s.pool == nil
	b := s.breakers.of(ctx, key, shared)
	start := time.Now()
	if !b.allow(start) {
		return nil, fmt.Errorf("%w: %w", ErrAway, b.state().Err)
	}
	end := start.Add(s.timeout)
	reply, err := s.send(ctx, end, shared, "evalsha", s.sha, key, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // a new server, or flushed: EVAL loads it too
		reply, err = s.send(ctx, end, shared, "eval", s.text, key, args)
	}
	now := time.Now()
	if err != nil && ctx.Err() != nil {
		b.gaveUp(now, now.Sub(start))
		return nil, ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("redislimit: %w", err)
	}
	b.done(start, now, err)
	switch {
	case err != nil:
		return nil, err
	case len(reply) != want:
		return nil, fmt.Errorf("redislimit: %d numbers from Redis, must be %d", len(reply), want)
	}
	s.breakers.known.Store(true)
	return reply, nil
}

// Health reports whether Redis answers.
func (s *scripts) Health() Health { return s.breakers.state() }

func (s *scripts) send(ctx context.Context, end time.Time, shared bool, command, script, key string, args []any) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd := redis.NewIntSliceCmd(ctx, append([]any{command, script, 1, key}, args...)...)
	if err := s.process(ctx, end, shared, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// process sends a command, apart from others while callers are few.
func (s *scripts) process(ctx context.Context, end time.Time, shared bool, cmd redis.Cmder) error {
	if shared {
		ctx, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		return s.pipeline.Submit(ctx, cmd).WaitContext(ctx)
	}
	ctx = s.endingBy(ctx, end)
	err := s.pool.Process(ctx, cmd)
	if errors.Is(err, os.ErrDeadlineExceeded) { // which the connection may notice first
		<-ctx.Done()
		err = ctx.Err()
	}
	return err
}

// ending is the end of all calls that begin within a sixteenth of the timeout. With a timer
// for each of them a call takes 2.4 µs more, a twentieth.
type ending struct {
	context.Context
	at time.Time
}

// within is a caller's context, of which the ending counts.
type within struct {
	*ending
	caller context.Context
}

func (w within) Value(key any) any { return w.caller.Value(key) }

// endingBy returns a context that ends at a time, or up to a sixteenth of the timeout
// before, or when the given one's deadline is over.
func (s *scripts) endingBy(ctx context.Context, end time.Time) context.Context {
	if own, ok := ctx.Deadline(); ok && own.Before(end) {
		return ctx
	}
	e := s.end.Load()
	if e != nil {
		if early := end.Sub(e.at); early >= 0 && early <= s.timeout/16 {
			return within{e, ctx}
		}
	}
	shared, cancel := context.WithDeadline(context.Background(), end)
	context.AfterFunc(shared, cancel)
	e = &ending{shared, end}
	s.end.Store(e)
	return within{e, ctx}
}
