package migrating

import (
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

func httprateBefore(mux http.Handler) (http.Handler, error) {
	//lint:ignore SA1019 it is what services call
	handler := httprate.LimitByIP(100, time.Minute)(mux)
	return handler, nil
}
