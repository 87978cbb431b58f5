// Command fiber3limit uses module contrib/fiber3limit as somebody who gets it by its
// version.
package main

import (
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/contrib/fiber3limit"
)

func main() {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	app := fiber.New()
	app.Use(limiter.New(limiter.Config{
		Max: 1, Expiration: 24 * time.Hour, LimiterMiddleware: fiber3limit.Handler{Limiter: l},
	}))
	app.Get("/", func(c fiber.Ctx) error { return nil })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		answer, err := app.Test(httptest.NewRequest("GET", "/", nil))
		if err != nil || answer.StatusCode != want {
			log.Fatalf("%v, want %d; %v", answer, want, err)
		}
	}
}
