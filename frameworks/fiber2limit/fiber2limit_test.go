package fiber2limit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/limiter"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/frameworks/fiber2limit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func Example() {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		panic(err)
	}
	clients := &httplimit.Clients{}
	app := fiber.New()
	app.Use(limiter.New(limiter.Config{
		Max:               2,
		Expiration:        24 * time.Hour,
		LimiterMiddleware: fiber2limit.Handler{Limiter: l},
		KeyGenerator: func(c *fiber.Ctx) string { // without this, each IPv6 address counts by itself
			addr, _ := netip.ParseAddr(c.IP())
			return clients.Key(addr)
		},
	}))
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("hello") })
	for range 3 {
		answer, err := app.Test(httptest.NewRequest("GET", "/", nil))
		fmt.Println(err, answer.StatusCode, answer.Header["X-Ratelimit-Remaining"], len(answer.Header["Retry-After"]))
	}
	// Output:
	// <nil> 200 [1] 0
	// <nil> 200 [0] 0
	// <nil> 429 [] 1
}

// clock is that of a test.
type clock struct{ now time.Time }

func (c *clock) config(limit int) sketchlimit.Config {
	return sketchlimit.Config{
		Limit: limit, Window: 30 * time.Second, Algorithm: sketchlimit.FixedWindow, Keys: 1000,
		Clock: func() time.Time { return c.now },
	}
}

func (c *clock) limiter(t testing.TB, limit int) *sketchlimit.Limiter {
	t.Helper()
	l, err := sketchlimit.New(c.config(limit))
	require.NoError(t, err)
	return l
}

func (c *clock) budget(t testing.TB, limits ...int) *budget.Budget {
	t.Helper()
	config := budget.Config{InFlight: 10, HoldFor: time.Hour}
	for _, limit := range limits {
		config.Limits = append(config.Limits, c.config(limit))
	}
	b, err := budget.New(config)
	require.NoError(t, err)
	return b
}

// get returns the status and the fields that fiber's limiter sets: limit, remaining, reset, retry after.
func get(t testing.TB, app *fiber.App, path, from string) string {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("X-Forwarded-For", from)
	answer, err := app.Test(r)
	require.NoError(t, err)
	text := strconv.Itoa(answer.StatusCode)
	for _, field := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Retry-After"} {
		text += fmt.Sprint(answer.Header[field])
	}
	return text
}

// The example of fiber's documentation, with one line more and without a Storage.
func TestFibersExample(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	app := fiber.New()
	app.Use(limiter.New(limiter.Config{
		Next: func(c *fiber.Ctx) bool {
			return c.IP() == "127.0.0.1"
		},
		Max:        20,
		Expiration: 30 * time.Second,
		KeyGenerator: func(c *fiber.Ctx) string {
			return c.Get("x-forwarded-for")
		},
		LimitReached: func(c *fiber.Ctx) error {
			return c.SendStatus(http.StatusTeapot)
		},
		LimiterMiddleware: fiber2limit.Handler{Limiter: c.limiter(t, 20)},
	}))
	app.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
	for i := range 20 {
		require.Equal(t, fmt.Sprintf("204[20][%d][30][]", 19-i), get(t, app, "/", "a"))
	}
	c.now = c.now.Add(500 * time.Millisecond)
	require.Equal(t, "418[][][][30]", get(t, app, "/", "a"))
	require.Equal(t, "204[20][19][30][]", get(t, app, "/", "")) // one key for all that have none
	require.Equal(t, "204[20][18][30][]", get(t, app, "/", ""))
	c.now = c.now.Add(30 * time.Second)
	require.Equal(t, "204[20][19][30][]", get(t, app, "/", "a"))
}

// It answers as fiber's own does, whose clock ticks once a second: so the fields of time are left out.
func TestAsFibersOwn(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	for name, cfg := range map[string]limiter.Config{
		"failed":     {SkipFailedRequests: true},
		"successful": {SkipSuccessfulRequests: true},
		"all":        {SkipFailedRequests: true, SkipSuccessfulRequests: true},
		"none":       {},
	} {
		serve := func(h limiter.LimiterHandler) *fiber.App {
			cfg.Max, cfg.Expiration, cfg.LimiterMiddleware = 3, 30*time.Second, h
			app := fiber.New()
			app.Use(limiter.New(cfg))
			app.Get("/:status", func(c *fiber.Ctx) error {
				status, _ := c.ParamsInt("status")
				return c.SendStatus(status)
			})
			return app
		}
		own, ours := serve(limiter.FixedWindow{}), serve(fiber2limit.Handler{Budget: c.budget(t, 3)})
		for i, status := range []int{200, 404, 200, 500, 302, 200, 404, 404, 404, 404, 200} {
			path := fmt.Sprint("/", status)
			a, err := own.Test(httptest.NewRequest("GET", path, nil))
			require.NoError(t, err)
			b, err := ours.Test(httptest.NewRequest("GET", path, nil))
			require.NoError(t, err)
			require.Equal(t, a.StatusCode, b.StatusCode, "%s %d", name, i)
			for _, field := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining"} {
				require.Equal(t, a.Header[field], b.Header[field], "%s %d", name, i)
			}
		}
	}
}

// Errors that handlers return fail a request, and one that panics counts.
func TestFailures(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	app := fiber.New()
	app.Use(recover.New())
	app.Use(limiter.New(limiter.Config{
		Max: 1, Expiration: 30 * time.Second, SkipFailedRequests: true,
		LimiterMiddleware: fiber2limit.Handler{Budget: c.budget(t, 1)},
		KeyGenerator:      func(c *fiber.Ctx) string { return c.Get("x-forwarded-for") },
	}))
	app.Get("/own", func(*fiber.Ctx) error { return fiber.ErrForbidden })
	app.Get("/any", func(*fiber.Ctx) error { return errors.New("oh") })
	app.Get("/panic", func(*fiber.Ctx) error { panic("oh") })
	app.Get("/fine", func(*fiber.Ctx) error { return nil })
	require.Equal(t, "403[1][1][0][]", get(t, app, "/own", "a"))
	require.Equal(t, "500[1][1][0][]", get(t, app, "/any", "a"))
	require.Equal(t, "500[][][][]", get(t, app, "/panic", "a"))
	require.Equal(t, "429[][][][30]", get(t, app, "/own", "a"))
	require.Equal(t, "200[1][0][30][]", get(t, app, "/fine", "b")) // what is told is what it has settled
}

// A lower Max than the limiter's is a tier of it.
func TestTier(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	config := c.config(10)
	config.LowestLimit = 2
	l, err := sketchlimit.New(config)
	require.NoError(t, err)
	app := fiber.New()
	for path, most := range map[string]int{"/low": 2, "/high": 10} {
		app.Get(path, limiter.New(limiter.Config{
			Max: most, Expiration: 30 * time.Second, LimiterMiddleware: fiber2limit.Handler{Limiter: l},
		}), func(c *fiber.Ctx) error { return nil })
	}
	require.Equal(t, "200[2][1][30][]", get(t, app, "/low", ""))
	require.Equal(t, "200[2][0][30][]", get(t, app, "/low", ""))
	require.Equal(t, "429[][][][30]", get(t, app, "/low", ""))
	require.Equal(t, "200[10][7][30][]", get(t, app, "/high", ""))
}

func TestWhatDoesNotFit(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	l, cfg := c.limiter(t, 20), limiter.Config{Max: 20, Expiration: 30 * time.Second}
	short, err := sketchlimit.New(sketchlimit.Config{Limit: 20, Window: time.Second / 2, Keys: 1000})
	require.NoError(t, err)
	group, err := sketchlimit.NewGroup(l)
	require.NoError(t, err)
	with := func(change func(*limiter.Config)) limiter.Config {
		cfg := cfg
		change(&cfg)
		return cfg
	}
	for _, wrong := range []struct {
		h    fiber2limit.Handler
		cfg  limiter.Config
		want string
	}{
		{fiber2limit.Handler{}, cfg, "limiter nil, must be one"},
		{fiber2limit.Handler{Limiter: (*sketchlimit.Limiter)(nil)}, cfg, "limiter nil, must be one"},
		{fiber2limit.Handler{Limiter: group}, cfg, "limiter is a Group, must have one limit: use a Handler for each"},
		{fiber2limit.Handler{Limiter: l, Budget: c.budget(t, 20)}, cfg,
			"budget of 1 limits, must have 1, and Limiter must be nil"},
		{fiber2limit.Handler{Budget: c.budget(t, 20, 30)}, cfg,
			"budget of 2 limits, must have 1, and Limiter must be nil"},
		{fiber2limit.Handler{Limiter: short}, with(func(c *limiter.Config) { c.Expiration = time.Second / 2 }),
			"window 500ms, must be 1s or more: fiber takes a minute for a shorter Expiration"},
		{fiber2limit.Handler{Limiter: l}, limiter.Config{},
			"Config.Expiration 1m0s, must be the Handler's window, 30s"},
		{fiber2limit.Handler{Limiter: l}, with(func(c *limiter.Config) { c.Max = 0 }),
			"Config.Max 5, must be LowestLimit to Limit of the Handler's"},
		{fiber2limit.Handler{Budget: c.budget(t, 20)}, with(func(c *limiter.Config) { c.Max = 21 }),
			"Config.Max 21, must be LowestLimit to Limit of the Handler's"},
		{fiber2limit.Handler{Limiter: l}, with(func(c *limiter.Config) { c.SkipFailedRequests = true }),
			"Config.SkipFailedRequests and SkipSuccessfulRequests go with a Budget only"},
		{fiber2limit.Handler{Limiter: l}, with(func(c *limiter.Config) { c.Storage = struct{ fiber.Storage }{} }),
			"Config.Storage must be nil: the Handler keeps what it counts"},
	} {
		wrong.cfg.LimiterMiddleware = wrong.h
		require.PanicsWithValue(t, "fiber2limit: "+wrong.want, func() { limiter.New(wrong.cfg) })
	}
}
