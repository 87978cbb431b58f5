package migrating

import (
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

func httprateBefore(mux http.Handler) (http.Handler, error) {
	handler := httprate.LimitByIP(100, time.Minute)(mux)
	return handler, nil
}
