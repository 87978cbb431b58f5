package migrating

import (
	"net/http"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
)

func tollboothBefore(mux http.Handler) (http.Handler, error) {
	lmt := tollbooth.NewLimiter(100./60, nil).SetBurst(20).SetIgnoreURL(true)
	lmt.SetIPLookup(limiter.IPLookup{Name: "RemoteAddr"})
	handler := tollbooth.LimitHandler(lmt, mux)
	return handler, nil
}
