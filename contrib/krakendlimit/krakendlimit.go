// Package krakendlimit is a limiter store of KrakenD (krakend-ratelimit) for millions
// of clients in fixed memory. The one that comes with KrakenD keeps a token bucket for
// each client.
//
//	limiter, err := sketchlimit.New(sketchlimit.Config{
//		Limit: 10, Window: time.Second, Burst: 10, Algorithm: sketchlimit.TokenBucket, Keys: 1_000_000,
//	})
//	...
//	store, err := krakendlimit.New(limiter)
//	...
//	perClient := func(key string) krakendrate.Limiter { return store.Key(key) } // a krakendrate.LimiterStore
//
// KrakenD's types are these, and a function of the second type is the second type:
//
//	type Limiter interface{ Allow() bool }
//	type LimiterStore func(string) Limiter
//
// This package does not import KrakenD, so it fits every version that has them.
package krakendlimit

import (
	"fmt"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Store has a limit for each key, made by [New]. It is safe for concurrent use.
type Store struct{ limiter httplimit.Limiter }

// New returns the store that asks the limiter. A limiter nil is an error.
func New(limiter httplimit.Limiter) (*Store, error) {
	if err := httplimit.CheckLimiter(limiter); err != nil {
		return nil, fmt.Errorf("krakendlimit: %w", err)
	}
	return &Store{limiter}, nil
}

// Key returns the limit of a key. It has no state of its own: keep it or ask for it
// again.
func (s *Store) Key(key string) Limiter { return Limiter{s.limiter, key} }

// Limiter is the limit of one key.
type Limiter struct {
	limiter httplimit.Limiter
	key     string
}

// Allow takes one unit of the key, and tells whether it was admitted.
func (l Limiter) Allow() bool { return l.limiter.Do(sketchlimit.Request{Key: l.key}).Allowed }
