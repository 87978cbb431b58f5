package echo5limit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/contrib/echo5limit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: time.Hour, Keys: 1000})
	if err != nil {
		panic(err)
	}
	store, err := echo5limit.New(limiter)
	if err != nil {
		panic(err)
	}
	clients := &httplimit.Clients{}
	e := echo.New()
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Store:               store,
		IdentifierExtractor: func(c *echo.Context) (string, error) { return clients.Text(c.Request()), nil },
	}))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello") })
	for range 3 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("Retry-After") != "", w.Body)
	}
	// Output:
	// 200 false hello
	// 200 false hello
	// 429 true {"message":"rate limit exceeded"}
}

func build(t testing.TB, c sketchlimit.Config) *echo5limit.Store {
	t.Helper()
	limiter, err := sketchlimit.New(c)
	require.NoError(t, err)
	store, err := echo5limit.New(limiter)
	require.NoError(t, err)
	return store
}

// The example of echo's documentation answers alike with its own store and with this one.
func TestEchosExample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve := func(store middleware.RateLimiterStore) *echo.Echo {
			e := echo.New()
			e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
				Skipper: middleware.DefaultSkipper,
				Store:   store,
				IdentifierExtractor: func(ctx *echo.Context) (string, error) {
					id := ctx.RealIP()
					return id, nil
				},
				ErrorHandler: func(context *echo.Context, err error) error {
					return context.JSON(http.StatusForbidden, nil)
				},
				DenyHandler: func(context *echo.Context, identifier string, err error) error {
					return context.JSON(http.StatusTooManyRequests, nil)
				},
			}))
			e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello") })
			return e
		}
		own := serve(middleware.NewRateLimiterMemoryStoreWithConfig(
			middleware.RateLimiterMemoryStoreConfig{Rate: 10, Burst: 30, ExpiresIn: 3 * time.Minute},
		))
		ours := serve(build(t, sketchlimit.Config{
			Limit: 10, Window: time.Second, Burst: 30, Algorithm: sketchlimit.TokenBucket, Keys: 1000, Clock: time.Now,
		}))
		codes := map[int]int{}
		for i := range 200 {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", i%2)
			a, b := httptest.NewRecorder(), httptest.NewRecorder()
			own.ServeHTTP(a, r)
			ours.ServeHTTP(b, r)
			require.Equal(t, a.Code, b.Code, i)
			require.Equal(t, a.Body, b.Body)
			codes[b.Code]++
			time.Sleep(time.Second / 50)
		}
		require.Equal(t, map[int]int{200: 138, 429: 62}, codes) // of each 30 at once, and 39 in the 3.98 s
	})
}

func TestFields(t *testing.T) {
	now := time.Unix(0, 0)
	store := build(t, sketchlimit.Config{
		Limit: 1, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, Keys: 1000,
		Clock: func() time.Time { return now },
	})
	e := echo.New()
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Store:               store,
		IdentifierExtractor: func(c *echo.Context) (string, error) { return c.Request().Header.Get("X-User"), nil },
	}))
	e.GET("/", func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) })
	get := func(user string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		h := w.Header()
		limit, remaining := h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining")
		return fmt.Sprint(w.Code, " ", limit, " ", remaining, " ", h.Get("Retry-After"))
	}
	require.Equal(t, "204 1 0 ", get("ann"))
	now = now.Add(1500 * time.Millisecond)
	require.Equal(t, "429 1 0 59", get("ann"))
	require.Equal(t, "204 1 0 ", get("")) // whoever has no name shares one key
	require.Equal(t, "429 1 0 59", get(""))
	now = now.Add(59 * time.Second)
	require.Equal(t, "204 1 0 ", get("ann"))
}

func TestLimiterNil(t *testing.T) {
	for _, limiter := range []httplimit.Limiter{nil, (*sketchlimit.Limiter)(nil)} {
		_, err := echo5limit.New(limiter)
		require.EqualError(t, err, "echo5limit: limiter nil, must be one")
	}
}
