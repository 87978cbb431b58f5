package ginlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/httplimit"

	"github.com/sketchlimit/sketchlimit/contrib/ginlimit"
	"github.com/sketchlimit/sketchlimit/internal/kinds"
)

// Each kind of limiter goes into the handler.
func TestEachKind(t *testing.T) {
	for name, k := range kinds.Each() {
		t.Run(name, func(t *testing.T) {
			limit, err := ginlimit.New(httplimit.New(k.Member, &httplimit.Clients{}))
			require.NoError(t, err)
			r := gin.New()
			r.Use(limit)
			r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })
			n := 0
			for ; n < 100; n++ {
				w := httptest.NewRecorder()
				r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				if w.Code == http.StatusTooManyRequests {
					break
				}
			}
			require.Equal(t, k.Limit, n)
		})
	}
}
