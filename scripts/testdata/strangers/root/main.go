// Command root uses the root module as somebody who gets it by its version.
package main

import (
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(limiter, &httplimit.Clients{})
	if err != nil {
		log.Fatal(err)
	}
	server := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		if server.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != want {
			log.Fatalf("status %d, want %d", w.Code, want)
		}
	}
}
