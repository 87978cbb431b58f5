package migrating

import (
	"net/http"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func ululeBefore(mux http.Handler) (http.Handler, error) {
	rate, err := limiter.NewRateFromFormatted("100-M")
	if err != nil {
		return nil, err
	}
	handler := stdlib.NewMiddleware(limiter.New(memory.NewStore(), rate)).Handler(mux)
	return handler, nil
}
