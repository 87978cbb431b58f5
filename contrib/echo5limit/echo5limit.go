// Package echo5limit is the store of echo's RateLimiter (version 5) for millions of
// clients in fixed memory. The one that comes with echo keeps each client in a map.
//
//	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 20, Window: time.Second, Keys: 1_000_000})
//	...
//	store, err := echo5limit.New(limiter)
//	...
//	clients := &httplimit.Clients{}
//	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
//		Store:               store,
//		IdentifierExtractor: func(c *echo.Context) (string, error) { return clients.Text(c.Request()), nil },
//	}))
//
// Without that extractor, echo counts each IPv6 address by itself, of which a client
// has 2^64.
//
// The options of package httplimit (costs, tiers, several limits, RateLimit fields, dry
// runs) are at hand without a store: e.Use(echo.WrapMiddleware(limit)), where limit is
// what [httplimit.New] returns.
package echo5limit

import (
	"fmt"
	"strconv"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Store is a [middleware.RateLimiterStore] and a [middleware.RateLimiterStoreContext],
// made by [New]. It is safe for concurrent use.
type Store struct{ limiter httplimit.Limiter }

// New returns the store that asks the limiter. A limiter nil is an error.
func New(limiter httplimit.Limiter) (*Store, error) {
	if err := httplimit.CheckLimiter(limiter); err != nil {
		return nil, fmt.Errorf("echo5limit: %w", err)
	}
	return &Store{limiter}, nil
}

// Allow implements [middleware.RateLimiterStore]: it takes one unit of the identifier.
// Requests with the empty identifier share one key. The error is always nil.
func (s *Store) Allow(identifier string) (bool, error) {
	return s.limiter.Do(sketchlimit.Request{Key: identifier}).Allowed, nil
}

// AllowContext implements [middleware.RateLimiterStoreContext], which echo prefers: it
// is Allow, and sets the fields that echo's own store sets: X-RateLimit-Remaining,
// X-RateLimit-Limit, which is the limit of a window (echo tells the burst), and
// Retry-After if it refuses.
func (s *Store) AllowContext(c *echo.Context, identifier string) (bool, error) {
	d := s.limiter.Do(sketchlimit.Request{Key: identifier})
	header := c.Response().Header()
	header.Set(middleware.HeaderXRateLimitLimit, strconv.Itoa(d.Limit))
	header.Set(middleware.HeaderXRateLimitRemaining, strconv.Itoa(d.Remaining))
	if wait := httplimit.Seconds(d.RetryAfter); wait != "" && !d.Allowed {
		header.Set(echo.HeaderRetryAfter, wait)
	}
	return d.Allowed, nil
}
