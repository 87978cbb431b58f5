// Package echo4limit is the store of echo's RateLimiter (version 4) for millions of clients in fixed memory. The one
// that comes with echo keeps each client in a map.
//
//	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 20, Window: time.Second, Keys: 1_000_000})
//	...
//	store, err := echo4limit.New(limiter)
//	...
//	clients := &httplimit.Clients{}
//	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
//		Store:               store,
//		DenyHandler:         store.Deny, // sets Retry-After
//		IdentifierExtractor: func(c echo.Context) (string, error) { return clients.Text(c.Request()), nil },
//	}))
//
// Without that extractor, echo counts each IPv6 address by itself, of which a client has 2^64, and believes whatever
// address a client writes into X-Forwarded-For unless [echo.Echo.IPExtractor] is set.
//
// The options of package httplimit (costs, tiers, several limits, RateLimit fields, dry runs) are at hand without a
// store: e.Use(echo.WrapMiddleware(limit)), where limit is what [httplimit.New] returns.
package echo4limit

import (
	"fmt"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Store is a [middleware.RateLimiterStore], made by [New]. It is safe for concurrent use.
type Store struct{ limiter httplimit.Limiter }

// New returns the store that asks the limiter. A limiter nil is an error.
func New(limiter httplimit.Limiter) (*Store, error) {
	if err := httplimit.CheckLimiter(limiter); err != nil {
		return nil, fmt.Errorf("echo4limit: %w", err)
	}
	return &Store{limiter}, nil
}

// Allow implements [middleware.RateLimiterStore]: it takes one unit of the identifier. Requests with the empty
// identifier share one key. The error is always nil.
func (s *Store) Allow(identifier string) (bool, error) {
	return s.limiter.Do(sketchlimit.Request{Key: identifier}).Allowed, nil
}

// Deny is a [middleware.RateLimiterConfig.DenyHandler]. It sets Retry-After, and answers as echo does: with 429 by the
// error handler.
func (s *Store) Deny(c echo.Context, identifier string, err error) error {
	d := s.limiter.Do(sketchlimit.Request{Key: identifier, Peek: true})
	if wait := httplimit.Seconds(d.RetryAfter); wait != "" {
		c.Response().Header().Set(echo.HeaderRetryAfter, wait)
	}
	return middleware.DefaultRateLimiterConfig.DenyHandler(c, identifier, err)
}
