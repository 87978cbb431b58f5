// Command echo4limit uses module frameworks/echo4limit as somebody who gets it by its version.
package main

import (
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/frameworks/echo4limit"
)

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	store, err := echo4limit.New(limiter)
	if err != nil {
		log.Fatal(err)
	}
	e := echo.New()
	e.Use(middleware.RateLimiter(store))
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != want {
			log.Fatalf("%d, want %d", w.Code, want)
		}
	}
}
