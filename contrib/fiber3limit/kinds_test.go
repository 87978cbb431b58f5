package fiber3limit_test

import (
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/contrib/fiber3limit"
	"github.com/sketchlimit/sketchlimit/internal/kinds"
)

// Each kind of limiter goes into the Handler. A Group has no one limit, and is refused.
// What [sketchlimit.Global] returns is held against no limit of a request's own, and so
// against fiber's Max.
func TestEachKind(t *testing.T) {
	for name, k := range kinds.Each() {
		t.Run(name, func(t *testing.T) {
			build := func() fiber.Handler {
				return limiter.New(limiter.Config{Max: k.Limit, Expiration: k.Window(), LimiterMiddleware: fiber3limit.Handler{Limiter: k.Member}})
			}
			if k.Group {
				require.Panics(t, func() { build() })
				return
			}
			app := fiber.New()
			app.Use(build())
			app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
			n := 0
			for ; n < 100 && strings.HasPrefix(get(t, app, "/", "192.0.2.1"), "200"); n++ {
			}
			require.Equal(t, k.Limit, n)
		})
	}
}
