package adapters_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// twoPerMinute returns a limiter for the examples, whose clock stands still.
func twoPerMinute() *sketchlimit.Limiter {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 2, Window: time.Minute, Keys: 1000,
		Clock: func() time.Time { return time.Unix(0, 0) },
	})
	if err != nil {
		panic(err)
	}
	return limiter
}

// middleware admits two requests a minute of each client and route.
func middleware(route httplimit.Key) func(http.Handler) http.Handler {
	limit, err := httplimit.New(twoPerMinute(), httplimit.Join{&httplimit.Clients{}, route})
	if err != nil {
		panic(err)
	}
	return limit
}

// drive sends five requests for two routes and prints the answers.
func drive(router http.Handler) {
	for _, path := range []string{"/items/1", "/items/2", "/items/3", "/users/1", "/items/4"} {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code)
	}
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }

func Example_netHTTP() {
	limit := middleware(httplimit.Pattern{})
	router := http.NewServeMux()
	router.Handle("GET /items/{id}", limit(http.HandlerFunc(hello))) // inside the mux, which knows the route
	router.Handle("GET /users/{id}", limit(http.HandlerFunc(hello)))
	drive(router)
	// Output:
	// /items/1 200
	// /items/2 200
	// /items/3 429
	// /users/1 200
	// /items/4 429
}

func Example_chi() {
	limit := middleware(httplimit.Pattern{})
	router := chi.NewRouter()
	router.Group(func(router chi.Router) { // in a group the route is known, in Use of the whole router it is not
		router.Use(limit)
		router.Get("/items/{id}", hello)
		router.Get("/users/{id}", hello)
	})
	drive(router)
	// Output:
	// /items/1 200
	// /items/2 200
	// /items/3 429
	// /users/1 200
	// /items/4 429
}

func Example_gorilla() {
	route := httplimit.KeyFunc(func(dst []byte, r *http.Request) []byte {
		template, _ := mux.CurrentRoute(r).GetPathTemplate()
		return append(dst, template...)
	})
	limit := middleware(route)
	router := mux.NewRouter()
	router.Use(limit)
	router.HandleFunc("/items/{id}", hello)
	router.HandleFunc("/users/{id}", hello)
	drive(router)
	// Output:
	// /items/1 200
	// /items/2 200
	// /items/3 429
	// /users/1 200
	// /items/4 429
}

func Example_echo() {
	limit := middleware(httplimit.Pattern{})
	router := echo.New()
	router.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		limited := echo.WrapMiddleware(limit)(next)
		return func(c echo.Context) error {
			c.Request().Pattern = c.Path()
			return limited(c)
		}
	})
	router.GET("/items/:id", echo.WrapHandler(http.HandlerFunc(hello)))
	router.GET("/users/:id", echo.WrapHandler(http.HandlerFunc(hello)))
	drive(router)
	// Output:
	// /items/1 200
	// /items/2 200
	// /items/3 429
	// /users/1 200
	// /items/4 429
}

func Example_echo4() {
	limit, err := httplimit.New(twoPerMinute(), &httplimit.Clients{})
	if err != nil {
		panic(err)
	}
	e := echo.New()
	e.Use(echo.WrapMiddleware(limit))
	e.GET("/items/:id", echo.WrapHandler(http.HandlerFunc(hello)))
	e.GET("/users/:id", echo.WrapHandler(http.HandlerFunc(hello)))
	drive(e)
	// Output:
	// /items/1 200
	// /items/2 200
	// /items/3 429
	// /users/1 429
	// /items/4 429
}

func Example_fiber2() {
	limiter := twoPerMinute()
	clients := &httplimit.Clients{}
	app := fiber.New()
	app.Use(func(c *fiber.Ctx) error {
		addr, _ := netip.ParseAddr(c.IP())
		d := limiter.Take(clients.Key(addr), 1)
		if d.Allowed {
			return c.Next()
		}
		c.Set(fiber.HeaderRetryAfter, httplimit.Seconds(d.RetryAfter))
		return fiber.ErrTooManyRequests
	})
	app.Get("/items/:id", adaptor.HTTPHandlerFunc(hello))
	app.Get("/users/:id", adaptor.HTTPHandlerFunc(hello))
	drive(adaptor.FiberApp(app))
	// Output:
	// /items/1 200
	// /items/2 200
	// /items/3 429
	// /users/1 429
	// /items/4 429
}
