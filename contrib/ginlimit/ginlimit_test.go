package ginlimit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/contrib/ginlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	os.Exit(m.Run())
}

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		panic(err)
	}
	limit, err := ginlimit.New(httplimit.New(limiter, &httplimit.Clients{}))
	if err != nil {
		panic(err)
	}
	r := gin.New()
	r.Use(limit)
	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })
	for range 3 {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("Retry-After") != "")
	}
	// Output:
	// 200 false
	// 200 false
	// 429 true
}

// config is that of limiters whose clock stands still.
func config(limit int) sketchlimit.Config {
	return sketchlimit.Config{
		Limit: limit, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, Keys: 1000,
		Clock: func() time.Time { return time.Unix(0, 0) },
	}
}

func build(t testing.TB, limit int, key httplimit.Key, options ...httplimit.Option) gin.HandlerFunc {
	t.Helper()
	limiter, err := sketchlimit.New(config(limit))
	require.NoError(t, err)
	h, err := ginlimit.New(httplimit.New(limiter, key, options...))
	require.NoError(t, err)
	return h
}

func serve(h http.Handler, method, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The example of github.com/gin-gonic/examples/ratelimiter, with this limit in place of
// its own.
func TestGinsExample(t *testing.T) {
	app := gin.New()
	app.Use(build(t, 2, &httplimit.Clients{}))
	app.GET("/rate", func(ctx *gin.Context) {
		ctx.JSON(200, "rate limiting test")
	})
	server := httptest.NewServer(app)
	defer server.Close()
	for i, want := range []int{200, 200, 429} {
		answer, err := http.Get(server.URL + "/rate")
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, errors.Join(err, answer.Body.Close()))
		require.Equal(t, want, answer.StatusCode)
		require.Equal(t, []string{`"default";q=2;w=60`}, answer.Header.Values("RateLimit-Policy"))
		if i < 2 {
			require.Equal(t, `"rate limiting test"`, string(body))
		} else {
			require.Equal(t, "60", answer.Header.Get("Retry-After"))
			require.Contains(t, string(body), "quota-exceeded")
		}
	}
}

// Keys and options find what gin knows: the route, and what handlers before have set. A
// refused request goes no further.
func TestGinsContext(t *testing.T) {
	ran := 0
	byUser := ginlimit.Key(func(c *gin.Context) string { return c.GetString("user") })
	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", c.GetHeader("X-User")) })
	r.Use(build(t, 2, httplimit.Join{byUser, httplimit.Pattern{}}, httplimit.Cost(func(r *http.Request) int {
		return map[bool]int{false: 1, true: 2}[ginlimit.Context(r).Query("all") != ""]
	})))
	h := func(c *gin.Context) {
		ran++
		require.Same(t, c, ginlimit.Context(c.Request))
		c.Status(http.StatusNoContent)
	}
	r.GET("/items/:id", h)
	r.POST("/items/:id", h)
	for _, step := range []struct {
		method, path, user string
		want               int
	}{
		{"GET", "/items/1", "ann", 204}, {"GET", "/items/2", "ann", 204}, {"GET", "/items/3", "ann", 429},
		{"POST", "/items/1?all=1", "ann", 204}, {"POST", "/items/1", "ann", 429},
		{"GET", "/items/1?all=1", "bob", 204}, {"GET", "/items/1", "bob", 429},
		{"GET", "/items/1", "", 204}, {"GET", "/items/1?all=1", "", 429}, {"GET", "/items/1", "", 204},
	} {
		require.Equal(t, step.want, serve(r, step.method, step.path, "X-User", step.user).Code, step)
	}
	require.Equal(t, 6, ran)
	require.Nil(t, ginlimit.Context(httptest.NewRequest("GET", "/", nil)))
	require.Equal(t, 404, serve(r, "GET", "/nowhere").Code) // no route, a key of its own
}

func TestPanicsPass(t *testing.T) {
	r := gin.New()
	var after any
	r.Use(func(c *gin.Context) {
		defer func() { after = recover() }()
		c.Next()
	})
	r.Use(build(t, 1, &httplimit.Clients{}))
	r.GET("/", func(*gin.Context) { panic("oh") })
	serve(r, "GET", "/")
	require.Equal(t, "oh", after)
}

// A budget sees what handlers send in gin's ways, and the header that it hides is not
// sent.
func TestBudget(t *testing.T) {
	var response httplimit.Response
	spend := func(field string) gin.HandlerFunc {
		b, err := budget.New(budget.Config{Limits: []sketchlimit.Config{config(100)}, InFlight: 10, HoldFor: time.Hour})
		require.NoError(t, err)
		s := httplimit.Spending{Budget: b, Key: &httplimit.Clients{}, AtMost: func(*http.Request) int { return 60 }}
		if s.Field, s.HideField = field, true; field == "" {
			s.HideField = false
			s.Used = func(r *httplimit.Response) (int, bool) {
				response = *r
				return httplimit.BytesWritten(r)
			}
		}
		limit, err := ginlimit.New(httplimit.NewBudget(s))
		require.NoError(t, err)
		return limit
	}
	r := gin.New()
	var written int
	r.Use(func(c *gin.Context) {
		before := c.Writer
		c.Next()
		require.Same(t, before, c.Writer)
		written = c.Writer.Size()
	})
	used := r.Group("/used", spend(""))
	used.GET("/json", func(c *gin.Context) { c.JSON(http.StatusTeapot, "0123456789") }) // 12 bytes
	used.GET("/text", func(c *gin.Context) {
		c.Status(http.StatusAccepted)
		c.Status(http.StatusCreated) // it may change until the first byte
		c.Writer.WriteString("0123456789")
		c.Writer.Flush()
	})
	used.GET("/none", func(c *gin.Context) { c.Status(http.StatusNotFound) })
	r.GET("/field", spend("X-Units"), func(c *gin.Context) {
		c.Header("X-Units", "40")
		c.JSON(200, "ok")
	})

	for _, step := range []struct {
		path         string
		status, size int
		left         string // of the next request, which holds 60
	}{
		{"/used/json", http.StatusTeapot, 12, `"default";r=40`},
		{"/used/text", http.StatusCreated, 10, `"default";r=28`},
		{"/used/none", http.StatusNotFound, 0, `"default";r=18`},
		{"/used/json", http.StatusTeapot, 12, `"default";r=18`},
	} {
		w := serve(r, "GET", step.path)
		require.Equal(t, step.status, w.Code)
		require.Equal(t, step.status, response.Status)
		require.EqualValues(t, step.size, response.Bytes)
		left, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";t=")
		require.Equal(t, step.left, left)
		require.Equal(t, step.size, max(0, written))
	}
	for _, want := range []int{200, 200, 429} { // 60 held, 40 used of 100
		w := serve(r, "GET", "/field")
		require.Equal(t, want, w.Code)
		require.Empty(t, w.Header().Values("X-Units"))
	}

	hijacked, ended := gin.New(), make(chan bool)
	hijacked.Use(func(c *gin.Context) {
		defer close(ended)
		c.Next()
	}, spend(""))
	hijacked.GET("/", func(c *gin.Context) {
		conn, _, err := c.Writer.Hijack()
		if err == nil {
			conn.Close()
		}
	})
	server := httptest.NewServer(hijacked)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	answer, err := io.ReadAll(conn)
	require.NoError(t, errors.Join(err, conn.Close()))
	<-ended
	require.Empty(t, answer)
	require.Zero(t, response.Status)
}

// What the limit takes of a request, beside what gin takes.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools lose what they are given")
	}
	measure := func(limits ...gin.HandlerFunc) float64 {
		r := gin.New()
		r.Use(limits...)
		r.GET("/", func(c *gin.Context) {})
		request, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		return testing.AllocsPerRun(1000, func() { r.ServeHTTP(w, request) })
	}
	limit := build(t, 1<<30, &httplimit.Clients{}, httplimit.Headers(0))
	require.LessOrEqual(t, measure(limit)-measure(), 3.0) // the request with its context, and the route
}

func TestWrongArguments(t *testing.T) {
	_, err := ginlimit.New(httplimit.New(nil, &httplimit.Clients{}))
	require.EqualError(t, err, "ginlimit: httplimit: limiter nil, must be one")
	limiter, err := sketchlimit.New(config(1))
	require.NoError(t, err)
	_, err = ginlimit.New(httplimit.New(limiter, ginlimit.Key(nil)))
	require.EqualError(t, err, "ginlimit: httplimit: key nil, must be one")
	_, err = ginlimit.New(nil, nil)
	require.EqualError(t, err, "ginlimit: limit nil, must be a middleware")
}
