// Package fiber3limit makes fiber's limiter middleware (version 3) count millions of
// clients in fixed memory. The ones that come with fiber keep each client, in a map or
// in a Storage.
//
//	l, err := sketchlimit.New(sketchlimit.Config{Limit: 20, Window: 30 * time.Second, Keys: 1_000_000})
//	...
//	clients := &httplimit.Clients{}
//	app.Use(limiter.New(limiter.Config{
//		Max:               20,
//		Expiration:        30 * time.Second,
//		LimiterMiddleware: fiber3limit.Handler{Limiter: l},
//		KeyGenerator: func(c fiber.Ctx) string { // without this, each IPv6 address counts by itself
//			addr, _ := netip.ParseAddr(c.IP())
//			return clients.Key(addr)
//		},
//	}))
package fiber3limit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Handler is a [limiter.Handler]: what counts for fiber's limiter. One of its fields
// must be set.
//
// Of fiber's Config, Next, KeyGenerator, LimitReached and DisableHeaders mean what they
// mean to fiber, and so do the header fields. Max, or what MaxFunc returns, is the
// limit that a request is held against: that of the Limiter or the Budget, or a lower
// one that its LowestLimit admits; or 0, and the request passes uncounted. Expiration,
// and what ExpirationFunc returns, must be its window. A request for which one of them
// is anything else gets an error that says so. Max itself must be the limit where the
// Limiter or the Budget has no LowestLimit: to give each request a limit of its own by
// MaxFunc, set LowestLimit. Fiber takes 5 for a Max that is not set, and a minute for
// an Expiration below a second: a shorter window needs ExpirationFunc. Storage must be
// nil: to share a limit among machines, use a Synced of package redislimit as the
// Limiter.
type Handler struct {
	// Limiter counts requests when they come, such as a [sketchlimit.Limiter]. A
	// [sketchlimit.Group] has no one Max, and is refused.
	Limiter httplimit.Limiter
	// Budget, with one limit, counts requests when they have ended, as
	// SkipFailedRequests and SkipSuccessfulRequests ask for: a sketch cannot take back
	// what it has counted. A request holds a unit until its handler returns.
	Budget *budget.Budget
}

// New implements [limiter.Handler]: limiter.New calls it. It panics if the Config and
// the Handler do not fit.
func (h Handler) New(cfg *limiter.Config) fiber.Handler {
	if cfg == nil {
		return limiter.New(limiter.Config{LimiterMiddleware: h})
	}
	window, err := h.window()
	if err == nil {
		err = h.check(cfg)
	}
	if err != nil {
		panic("fiber3limit: " + err.Error())
	}
	return func(c fiber.Ctx) error {
		limit := cfg.MaxFunc(c)
		if limit == 0 || cfg.Next != nil && cfg.Next(c) {
			return c.Next()
		}
		if e := cfg.ExpirationFunc(c); e != window {
			return fmt.Errorf("fiber3limit: Config.Expiration %v, must be the Handler's window, %v%s", e, window, short(window))
		}
		r := sketchlimit.Request{Key: cfg.KeyGenerator(c), Limit: limit}
		hold, d := h.take(r)
		defer hold.Settle(1) // if the handler panics, too; the first Settle counts
		if d.Limit != limit {
			return fmt.Errorf("fiber3limit: Config.Max %d, must be 0 or LowestLimit to Limit of the Handler's", limit)
		}
		if !d.Allowed {
			if wait := httplimit.Seconds(d.RetryAfter); wait != "" && !cfg.DisableHeaders {
				c.Set(fiber.HeaderRetryAfter, wait)
			}
			return cfg.LimitReached(c)
		}
		err := c.Next()
		failed := status(c, err) >= fiber.StatusBadRequest
		if failed && cfg.SkipFailedRequests || !failed && cfg.SkipSuccessfulRequests {
			hold.Settle(0)
		}
		if hold.Settle(1); h.Budget != nil { // what it has left
			r.Peek = true
			_, d = h.take(r)
		}
		if !cfg.DisableHeaders {
			c.Set("X-RateLimit-Limit", strconv.Itoa(d.Limit))
			c.Set("X-RateLimit-Remaining", strconv.Itoa(d.Remaining))
			c.Set("X-RateLimit-Reset", httplimit.Seconds(d.ResetAfter))
		}
		return err
	}
}

// short says what to do about a window that fiber's Config cannot hold.
func short(window time.Duration) string {
	if window >= time.Second {
		return ""
	}
	return ": fiber takes a minute for an Expiration below 1s, so set ExpirationFunc"
}

func (h Handler) take(r sketchlimit.Request) (budget.Hold, sketchlimit.Decision) {
	if h.Budget != nil {
		return h.Budget.Do(r)
	}
	return budget.Hold{}, h.Limiter.Do(r)
}

// status is that of the answer, if fiber's own error handler makes one of the error.
func status(c fiber.Ctx, err error) int {
	if e := (*fiber.Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return fiber.StatusInternalServerError
	}
	return c.Response().StatusCode()
}

// check says what does not fit.
func (h Handler) check(cfg *limiter.Config) error {
	switch {
	case cfg.Storage != nil:
		return errors.New("Config.Storage must be nil: the Handler keeps what it counts")
	case (cfg.SkipFailedRequests || cfg.SkipSuccessfulRequests) && h.Budget == nil:
		return errors.New("Config.SkipFailedRequests and SkipSuccessfulRequests go with a Budget only")
	}
	if h.hasLowest() {
		return nil
	}
	if _, d := h.take(sketchlimit.Request{Limit: cfg.Max, Peek: true}); d.Limit != cfg.Max {
		return fmt.Errorf("Config.Max %d, must be the Handler's limit: for a MaxFunc that returns lower ones, set LowestLimit of that", cfg.Max)
	}
	return nil
}

// hasLowest reports whether limits below the highest may pass.
func (h Handler) hasLowest() bool {
	if h.Budget != nil {
		return h.Budget.LowestLimit() > 0
	}
	l, ok := h.Limiter.(interface{ LowestLimit() int })
	return !ok || l.LowestLimit() > 0
}

// window returns the span of the one limit that the Handler has.
func (h Handler) window() (time.Duration, error) {
	if h.Budget != nil {
		windows := h.Budget.Windows()
		if h.Limiter != nil || len(windows) != 1 {
			return 0, fmt.Errorf("budget of %d limits, must have 1, and Limiter must be nil", len(windows))
		}
		return windows[0], nil
	}
	if _, several := h.Limiter.(*sketchlimit.Group); several {
		return 0, errors.New("limiter is a Group, must have one limit: use a Handler for each")
	}
	if err := httplimit.CheckLimiter(h.Limiter); err != nil {
		return 0, err
	}
	return h.Limiter.Window(), nil
}
