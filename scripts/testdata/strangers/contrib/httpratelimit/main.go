// Command httpratelimit uses module contrib/httpratelimit as somebody who gets it by
// its version.
package main

import (
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sketchlimit/sketchlimit/contrib/httpratelimit"
)

func main() {
	counter, err := httpratelimit.New(1000)
	if err != nil {
		log.Fatal(err)
	}
	limit := httprate.LimitBy(1, 24*time.Hour, httprate.Key("ann"), httprate.WithLimitCounter(counter))
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != want {
			log.Fatalf("%d, want %d", w.Code, want)
		}
	}
}
