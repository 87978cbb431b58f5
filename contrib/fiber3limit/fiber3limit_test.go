package fiber3limit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/contrib/fiber3limit"
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
		LimiterMiddleware: fiber3limit.Handler{Limiter: l},
		KeyGenerator: func(c fiber.Ctx) string { // without this, each IPv6 address counts by itself
			addr, _ := netip.ParseAddr(c.IP())
			return clients.Key(addr)
		},
	}))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
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

// get returns the status and the fields that fiber's limiter sets: limit, remaining,
// reset, retry after.
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
		Next: func(c fiber.Ctx) bool {
			return c.IP() == "127.0.0.1"
		},
		Max: 20,
		MaxFunc: func(c fiber.Ctx) int {
			return 20
		},
		Expiration: 30 * time.Second,
		KeyGenerator: func(c fiber.Ctx) string {
			return c.Get("x-forwarded-for")
		},
		LimitReached: func(c fiber.Ctx) error {
			return c.SendStatus(http.StatusTeapot)
		},
		LimiterMiddleware: fiber3limit.Handler{Limiter: c.limiter(t, 20)},
	}))
	app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
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

// It answers as fiber's own does, whose clock ticks once a second: so the fields of
// time are left out.
func TestAsFibersOwn(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	for name, cfg := range map[string]limiter.Config{
		"failed":     {SkipFailedRequests: true},
		"successful": {SkipSuccessfulRequests: true},
		"all":        {SkipFailedRequests: true, SkipSuccessfulRequests: true},
		"none":       {},
	} {
		serve := func(h limiter.Handler) *fiber.App {
			cfg.Max, cfg.Expiration, cfg.LimiterMiddleware = 3, 30*time.Second, h
			app := fiber.New()
			app.Use(limiter.New(cfg))
			app.Get("/:status", func(c fiber.Ctx) error {
				status, _ := strconv.Atoi(c.Params("status"))
				return c.SendStatus(status)
			})
			return app
		}
		own, ours := serve(limiter.FixedWindow{}), serve(fiber3limit.Handler{Budget: c.budget(t, 3)})
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
		LimiterMiddleware: fiber3limit.Handler{Budget: c.budget(t, 1)},
		KeyGenerator:      func(c fiber.Ctx) string { return c.Get("x-forwarded-for") },
	}))
	app.Get("/own", func(fiber.Ctx) error { return fiber.ErrForbidden })
	app.Get("/any", func(fiber.Ctx) error { return errors.New("oh") })
	app.Get("/panic", func(fiber.Ctx) error { panic("oh") })
	app.Get("/fine", func(fiber.Ctx) error { return nil })
	require.Equal(t, "403[1][1][0][]", get(t, app, "/own", "a"))
	require.Equal(t, "500[1][1][0][]", get(t, app, "/any", "a"))
	require.Equal(t, "500[][][][]", get(t, app, "/panic", "a"))
	require.Equal(t, "429[][][][30]", get(t, app, "/own", "a"))
	require.Equal(t, "200[1][0][30][]", get(t, app, "/fine", "b")) // what is told is what it has settled
}

// What MaxFunc returns is a tier of the limiter; 0 passes uncounted, as with fiber.
func TestMaxFunc(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	config := c.config(10)
	config.LowestLimit = 2
	l, err := sketchlimit.New(config)
	require.NoError(t, err)
	app := fiber.New()
	app.Get("/:limit", limiter.New(limiter.Config{
		MaxFunc: func(c fiber.Ctx) int {
			n, _ := strconv.Atoi(c.Params("limit"))
			return n
		},
		Expiration: 30 * time.Second, LimiterMiddleware: fiber3limit.Handler{Limiter: l},
	}), func(c fiber.Ctx) error { return nil })
	require.Equal(t, "200[2][1][30][]", get(t, app, "/2", ""))
	require.Equal(t, "200[][][][]", get(t, app, "/0", ""))
	require.Equal(t, "200[2][0][30][]", get(t, app, "/2", ""))
	require.Equal(t, "429[][][][30]", get(t, app, "/2", ""))
	require.Equal(t, "200[10][7][30][]", get(t, app, "/10", ""))
	for _, wrong := range []string{"1", "11", "-1"} {
		require.Equal(t, "500[][][][]", get(t, app, "/"+wrong, "b"))
	}
}

func TestHeadersDisabled(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	app := fiber.New()
	app.Use(limiter.New(limiter.Config{
		Max: 1, Expiration: 30 * time.Second, DisableHeaders: true,
		LimiterMiddleware: fiber3limit.Handler{Limiter: c.limiter(t, 1)},
	}))
	app.Get("/", func(c fiber.Ctx) error { return nil })
	require.Equal(t, "200[][][][]", get(t, app, "/", ""))
	require.Equal(t, "429[][][][]", get(t, app, "/", ""))
}

// Without a Config, fiber's own has 5 a minute.
func TestConfigNil(t *testing.T) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 5, Window: time.Minute, Keys: 1000})
	require.NoError(t, err)
	app := fiber.New()
	app.Get("/", fiber3limit.Handler{Limiter: l}.New(nil), func(c fiber.Ctx) error { return nil })
	for range 5 {
		require.Contains(t, get(t, app, "/", ""), "200[5]")
	}
	require.Contains(t, get(t, app, "/", ""), "429[]")
}

// A Config that does not fit panics, or says so at each request where fiber lets it
// depend on the request.
func TestWhatDoesNotFit(t *testing.T) {
	c := &clock{time.Unix(0, 0)}
	l := c.limiter(t, 20)
	group, err := sketchlimit.NewGroup(l)
	require.NoError(t, err)
	for want, cfg := range map[string]limiter.Config{
		"limiter nil, must be one": {
			LimiterMiddleware: fiber3limit.Handler{Limiter: (*sketchlimit.Limiter)(nil)},
		},
		"limiter is a Group, must have one limit: use a Handler for each": {
			LimiterMiddleware: fiber3limit.Handler{Limiter: group},
		},
		"budget of 1 limits, must have 1, and Limiter must be nil": {
			LimiterMiddleware: fiber3limit.Handler{Limiter: l, Budget: c.budget(t, 20)},
		},
		"budget of 2 limits, must have 1, and Limiter must be nil": {
			LimiterMiddleware: fiber3limit.Handler{Budget: c.budget(t, 20, 30)},
		},
		"Config.SkipFailedRequests and SkipSuccessfulRequests go with a Budget only": {
			LimiterMiddleware: fiber3limit.Handler{Limiter: l}, SkipSuccessfulRequests: true,
		},
		"Config.Storage must be nil: the Handler keeps what it counts": {
			LimiterMiddleware: fiber3limit.Handler{Limiter: l}, Storage: struct{ fiber.Storage }{},
		},
		"Config.Max 5, must be the Handler's limit: for a MaxFunc that returns lower ones, set LowestLimit of that": {
			LimiterMiddleware: fiber3limit.Handler{Limiter: l}, MaxFunc: func(fiber.Ctx) int { return 10 },
		},
		"Config.Max 6, must be the Handler's limit: for a MaxFunc that returns lower ones, set LowestLimit of that": {
			LimiterMiddleware: fiber3limit.Handler{Budget: c.budget(t, 20)}, Max: 6,
		},
	} {
		require.PanicsWithValue(t, "fiber3limit: "+want, func() { limiter.New(cfg) })
	}
	for want, cfg := range map[string]limiter.Config{
		"Config.Expiration 1m0s, must be the Handler's window, 30s": {Max: 20},
		"Config.Expiration 1h0m0s, must be the Handler's window, 30s": {
			Max: 20, Expiration: 30 * time.Second, ExpirationFunc: func(fiber.Ctx) time.Duration { return time.Hour },
		},
	} {
		cfg.LimiterMiddleware = fiber3limit.Handler{Limiter: l}
		app := fiber.New(fiber.Config{ErrorHandler: func(_ fiber.Ctx, err error) error {
			require.EqualError(t, err, "fiber3limit: "+want)
			return err
		}})
		app.Get("/", limiter.New(cfg), func(c fiber.Ctx) error { return nil })
		require.Equal(t, "500[][][][]", get(t, app, "/", ""))
	}
}

// Fiber has a minute in place of an Expiration below a second. ExpirationFunc goes
// around that.
func TestShortWindows(t *testing.T) {
	const window = 500 * time.Millisecond
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 20, Window: window, Keys: 1000})
	require.NoError(t, err)
	cfg := limiter.Config{Max: 20, Expiration: window, LimiterMiddleware: fiber3limit.Handler{Limiter: l}}
	app := fiber.New(fiber.Config{ErrorHandler: func(_ fiber.Ctx, err error) error {
		require.EqualError(t, err, "fiber3limit: Config.Expiration 1m0s, must be the Handler's window, 500ms: "+
			"fiber takes a minute for an Expiration below 1s, so set ExpirationFunc")
		return err
	}})
	app.Get("/", limiter.New(cfg), func(c fiber.Ctx) error { return nil })
	require.Contains(t, get(t, app, "/", ""), "500")

	cfg.ExpirationFunc = func(fiber.Ctx) time.Duration { return window }
	app = fiber.New()
	app.Get("/", limiter.New(cfg), func(c fiber.Ctx) error { return nil })
	require.Contains(t, get(t, app, "/", ""), "200")
}
