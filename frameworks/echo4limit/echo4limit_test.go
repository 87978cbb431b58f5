package echo4limit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/frameworks/echo4limit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: time.Hour, Keys: 1000})
	if err != nil {
		panic(err)
	}
	store, err := echo4limit.New(limiter)
	if err != nil {
		panic(err)
	}
	clients := &httplimit.Clients{}
	e := echo.New()
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Store:               store,
		DenyHandler:         store.Deny, // sets Retry-After
		IdentifierExtractor: func(c echo.Context) (string, error) { return clients.Text(c.Request()), nil },
	}))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello") })
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

func build(t testing.TB, c sketchlimit.Config) *echo4limit.Store {
	t.Helper()
	limiter, err := sketchlimit.New(c)
	require.NoError(t, err)
	store, err := echo4limit.New(limiter)
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
				IdentifierExtractor: func(ctx echo.Context) (string, error) {
					id := ctx.RealIP()
					return id, nil
				},
				ErrorHandler: func(context echo.Context, err error) error {
					return context.JSON(http.StatusForbidden, nil)
				},
				DenyHandler: func(context echo.Context, identifier string, err error) error {
					return context.JSON(http.StatusTooManyRequests, nil)
				},
			}))
			e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello") })
			return e
		}
		own := serve(middleware.NewRateLimiterMemoryStoreWithConfig(
			middleware.RateLimiterMemoryStoreConfig{Rate: rate.Limit(10), Burst: 30, ExpiresIn: 3 * time.Minute},
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

func TestDeny(t *testing.T) {
	now := time.Unix(0, 0)
	store := build(t, sketchlimit.Config{
		Limit: 1, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, Keys: 1000,
		Clock: func() time.Time { return now },
	})
	e := echo.New()
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Store: store, DenyHandler: store.Deny,
		IdentifierExtractor: func(c echo.Context) (string, error) { return c.Request().Header.Get("X-User"), nil },
	}))
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	get := func(user string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		return fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After"))
	}
	w := httptest.NewRecorder() // if a unit has become free since it was refused, that is not taken
	require.Error(t, store.Deny(e.NewContext(httptest.NewRequest("GET", "/", nil), w), "ann", nil))
	require.Equal(t, "0", w.Header().Get("Retry-After"))
	require.Equal(t, "204 ", get("ann"))
	now = now.Add(1500 * time.Millisecond)
	require.Equal(t, "429 59", get("ann"))
	require.Equal(t, "204 ", get("")) // whoever has no name shares one key
	require.Equal(t, "429 59", get(""))
	now = now.Add(59 * time.Second)
	require.Equal(t, "204 ", get("ann"))
}

func TestLimiterNil(t *testing.T) {
	for _, limiter := range []httplimit.Limiter{nil, (*sketchlimit.Limiter)(nil)} {
		_, err := echo4limit.New(limiter)
		require.EqualError(t, err, "echo4limit: limiter nil, must be one")
	}
}
