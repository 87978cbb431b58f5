package migrating

import (
	"net/http"
	"time"

	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
)

func golimiterBefore(mux http.Handler) (http.Handler, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 100, Interval: time.Minute})
	if err != nil {
		return nil, err
	}
	limit, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	handler := limit.Handle(mux)
	return handler, nil
}
