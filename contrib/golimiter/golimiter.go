// Package golimiter is a store of sethvargo/go-limiter for millions of keys in fixed
// memory. The ones that come with it keep each key, in a map or in Redis.
//
//	limits, err := sketchlimit.New(sketchlimit.Config{Limit: 15, Window: time.Minute, Keys: 1_000_000})
//	...
//	store, err := golimiter.New(limits)
//	...
//	clients := &sketchhttp.Clients{} // package httplimit of sketchlimit: IPv6 by network, proxies by name
//	byClient := func(r *http.Request) (string, error) { return clients.Text(r), nil }
//	middleware, err := httplimit.NewMiddleware(store, byClient)
//	...
//	mux.Handle("/", middleware.Handle(doWork))
package golimiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/sethvargo/go-limiter"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Store is a [limiter.Store], made by [New]. It is safe for concurrent use.
type Store struct {
	limiter httplimit.Limiter
	stopped atomic.Bool
}

var _ limiter.Store = (*Store)(nil)

// New returns the store that asks the limiter. A limiter nil is an error.
func New(l httplimit.Limiter) (*Store, error) {
	if err := httplimit.CheckLimiter(l); err != nil {
		return nil, fmt.Errorf("golimiter: %w", err)
	}
	return &Store{limiter: l}, nil
}

// Take implements [limiter.Store]: it takes one unit. If that is refused, reset is when
// the same request passes if nothing else comes; otherwise, when the key has its whole
// quota back. It is a Unix time in nanoseconds.
func (s *Store) Take(_ context.Context, key string) (tokens, remaining, reset uint64, ok bool, err error) {
	if s.stopped.Load() {
		return 0, 0, 0, false, limiter.ErrStopped
	}
	d := s.limiter.Do(sketchlimit.Request{Key: key})
	wait := d.RetryAfter
	if d.Allowed {
		wait = d.ResetAfter
	}
	now := time.Now().UnixNano()
	at := now + min(int64(wait), math.MaxInt64-now) // in 2262 if never
	return uint64(d.Limit), uint64(d.Remaining), uint64(at), d.Allowed, nil
}

// Get implements [limiter.Store]: it looks, and takes nothing. Of a key that never came
// it returns the whole limit, where other stores tell 0 of 0: a sketch does not know its
// keys.
func (s *Store) Get(_ context.Context, key string) (tokens, remaining uint64, err error) {
	if s.stopped.Load() {
		return 0, 0, limiter.ErrStopped
	}
	d := s.limiter.Do(sketchlimit.Request{Key: key, Peek: true})
	return uint64(d.Limit), uint64(d.Remaining), nil
}

// Set returns an error that wraps [errors.ErrUnsupported]: a sketch has no place for a
// limit of each key. Use sketchlimit.Request.Limit, or package rules, where limits
// follow from requests.
func (s *Store) Set(context.Context, string, uint64, time.Duration) error {
	return fmt.Errorf("golimiter: Set: a sketch keeps no limit of each key: %w", errors.ErrUnsupported)
}

// Burst returns an error that wraps [errors.ErrUnsupported]: a sketch cannot take units
// back.
func (s *Store) Burst(context.Context, string, uint64) error {
	return fmt.Errorf("golimiter: Burst: a sketch cannot give a key more: %w", errors.ErrUnsupported)
}

// Close implements [limiter.Store]: from then on Take and Get return
// [limiter.ErrStopped]. The limiter is the caller's, and goes on.
func (s *Store) Close(context.Context) error {
	s.stopped.Store(true)
	return nil
}
