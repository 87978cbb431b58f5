// Package frameworks holds the packages in contrib/ to what they all promise: nothing
// above the limit, whatever comes at once, in the memory that was stated. And it holds
// both exporters of metrics to each other.
package frameworks

import (
	"math"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/httprate"
	fiber3 "github.com/gofiber/fiber/v3"
	limiter3 "github.com/gofiber/fiber/v3/middleware/limiter"
	echo5 "github.com/labstack/echo/v5"
	middleware5 "github.com/labstack/echo/v5/middleware"
	golimiterhttp "github.com/sethvargo/go-limiter/httplimit"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/contrib/echo5limit"
	"github.com/sketchlimit/sketchlimit/contrib/fiber3limit"
	"github.com/sketchlimit/sketchlimit/contrib/ginlimit"
	"github.com/sketchlimit/sketchlimit/contrib/golimiter"
	"github.com/sketchlimit/sketchlimit/contrib/httpratelimit"
	"github.com/sketchlimit/sketchlimit/contrib/krakendlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

const (
	limit  = 100
	window = 24 * time.Hour
	user   = "X-User" // the field that says the key
)

// allow reports whether a request of a key passes.
type allow func(key string) bool

// framework makes a server of it with so many keys, and tells what memory its limit has
// stated.
type framework func(t testing.TB, keys int) (allow, int)

func config(keys int) sketchlimit.Config {
	return sketchlimit.Config{Limit: limit, Window: window, Keys: keys, Algorithm: sketchlimit.FixedWindow}
}

func build(t testing.TB, keys int) *sketchlimit.Limiter {
	t.Helper()
	l, err := sketchlimit.New(config(keys))
	require.NoError(t, err)
	return l
}

// over asks a handler of net/http.
func over(h http.Handler) allow {
	return func(key string) bool {
		w := response{header: http.Header{}, status: http.StatusOK}
		h.ServeHTTP(&w, &http.Request{
			Method: "GET", URL: &url.URL{Path: "/"}, Header: http.Header{user: {key}}, RemoteAddr: "192.0.2.1:1",
		})
		return w.status == http.StatusOK
	}
}

// response is a ResponseWriter that keeps no body.
type response struct {
	header http.Header
	status int
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return len(p), nil }

var contexts = sync.Pool{New: func() any { return new(fasthttp.RequestCtx) }}

// overFast asks a handler of fasthttp.
func overFast(h fasthttp.RequestHandler) allow {
	return func(key string) bool {
		c := contexts.Get().(*fasthttp.RequestCtx)
		defer contexts.Put(c)
		c.Request.Reset()
		c.Response.Reset()
		c.Request.Header.Set(user, key)
		h(c)
		return c.Response.StatusCode() == http.StatusOK
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func byUser(r *http.Request) (string, error) { return r.Header.Get(user), nil }

func hello(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func withFiber3(h limiter3.Handler) allow {
	app := fiber3.New()
	app.Use(limiter3.New(limiter3.Config{
		Max: limit, Expiration: window, LimiterMiddleware: h,
		KeyGenerator: func(c fiber3.Ctx) string { return c.Get(user) },
	}))
	app.Get("/", func(c fiber3.Ctx) error { return nil })
	return overFast(app.Handler())
}

func ofBudget(t testing.TB, keys int) *budget.Budget {
	return must[*budget.Budget](t)(budget.New(budget.Config{
		Limits: []sketchlimit.Config{config(keys)}, InFlight: 1000, HoldFor: time.Hour,
	}))
}

var frameworks = map[string]framework{
	"echo5": func(t testing.TB, keys int) (allow, int) {
		l := build(t, keys)
		e := echo5.New()
		e.Use(middleware5.RateLimiterWithConfig(middleware5.RateLimiterConfig{
			Store:               must[*echo5limit.Store](t)(echo5limit.New(l)),
			IdentifierExtractor: func(c *echo5.Context) (string, error) { return byUser(c.Request()) },
		}))
		e.GET("/", echo5.WrapHandler(http.HandlerFunc(hello)))
		return over(e), l.MemoryBytes()
	},
	"fiber3": func(t testing.TB, keys int) (allow, int) {
		l := build(t, keys)
		return withFiber3(fiber3limit.Handler{Limiter: l}), l.MemoryBytes()
	},
	"fiber3 budget": func(t testing.TB, keys int) (allow, int) {
		b := ofBudget(t, keys)
		return withFiber3(fiber3limit.Handler{Budget: b}), b.MemoryBytes()
	},
	"gin": func(t testing.TB, keys int) (allow, int) {
		gin.SetMode(gin.ReleaseMode)
		l := build(t, keys)
		r := gin.New()
		r.Use(must[gin.HandlerFunc](t)(ginlimit.New(httplimit.New(l, httplimit.Header(user)))))
		r.GET("/", gin.WrapF(hello))
		return over(r), l.MemoryBytes()
	},
	"go-limiter": func(t testing.TB, keys int) (allow, int) {
		l := build(t, keys)
		m, err := golimiterhttp.NewMiddleware(must[*golimiter.Store](t)(golimiter.New(l)), byUser)
		require.NoError(t, err)
		return over(m.Handle(http.HandlerFunc(hello))), l.MemoryBytes()
	},
	"httprate": func(t testing.TB, keys int) (allow, int) {
		c := must[*httpratelimit.Counter](t)(httpratelimit.New(keys))
		limited := httprate.LimitBy(limit, window, byUser, httprate.WithLimitCounter(c))
		return over(limited(http.HandlerFunc(hello))), c.MemoryBytes()
	},
	"krakend": func(t testing.TB, keys int) (allow, int) {
		l := build(t, keys)
		s := must[*krakendlimit.Store](t)(krakendlimit.New(l))
		return func(key string) bool { return s.Key(key).Allow() }, l.MemoryBytes()
	},
}

// Of 64 goroutines that ask at once, for two keys, exactly the limit of each passes.
func TestExactlyTheLimitPasses(t *testing.T) {
	for name, f := range frameworks {
		t.Run(name, func(t *testing.T) {
			ask, _ := f(t, 1000)
			var admitted [2]atomic.Int32
			var all sync.WaitGroup
			for g := range 64 {
				all.Go(func() {
					for range 10 {
						if i := g % 2; ask(strconv.Itoa(i)) {
							admitted[i].Add(1)
						}
					}
				})
			}
			all.Wait()
			require.Equal(t, [2]int32{limit, limit}, [2]int32{admitted[0].Load(), admitted[1].Load()})
		})
	}
}

// heap returns the bytes of the heap that are in use. It collects until they fall no
// more: what the test before leaves is not all free at once, and would be taken off the
// limiter's.
func heap() int {
	var m runtime.MemStats
	for least := math.MaxInt; ; least = int(m.HeapAlloc) {
		runtime.GC()
		runtime.GC()
		if runtime.ReadMemStats(&m); int(m.HeapAlloc) >= least {
			return least
		}
	}
}

// Keys by the million take the memory that was stated before the first one came, and
// what the framework itself has.
func TestMillionKeys(t *testing.T) {
	const framework = 512 << 10
	for name, f := range frameworks {
		t.Run(name, func(t *testing.T) {
			before := heap()
			ask, stated := f(t, keys)
			built := heap()
			for i := range keys {
				if !ask(strconv.Itoa(i)) {
					t.Fatalf("key %d is denied its first request", i)
				}
			}
			after := heap()
			t.Logf("stated %d KiB; built %d KiB, with keys %d KiB", stated>>10, (built-before)>>10, (after-before)>>10)
			require.Less(t, after-before, stated+stated/50+framework)
			require.Greater(t, after-before, stated-stated/10)
			runtime.KeepAlive(ask)
		})
	}
}
