// Command ginlimit uses module contrib/ginlimit as somebody who gets it by its version.
package main

import (
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/contrib/ginlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := ginlimit.New(httplimit.New(limiter, &httplimit.Clients{}))
	if err != nil {
		log.Fatal(err)
	}
	r := gin.New()
	r.Use(limit)
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != want {
			log.Fatalf("%d, want %d", w.Code, want)
		}
	}
}
