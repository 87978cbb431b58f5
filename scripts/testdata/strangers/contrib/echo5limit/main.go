// Command echo5limit uses module contrib/echo5limit as somebody who gets it by its
// version.
package main

import (
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/contrib/echo5limit"
)

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	store, err := echo5limit.New(limiter)
	if err != nil {
		log.Fatal(err)
	}
	e := echo.New()
	e.Use(middleware.RateLimiter(store))
	e.GET("/", func(c *echo.Context) error { return c.NoContent(http.StatusOK) })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != want {
			log.Fatalf("%d, want %d", w.Code, want)
		}
	}
}
