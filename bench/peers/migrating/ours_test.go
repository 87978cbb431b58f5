package migrating

import (
	"net/http"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// window is what replaces limits of so many requests in a window.
func window(mux http.Handler) (http.Handler, error) {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Minute,
		Keys:           1_000_000, // distinct clients in a minute
		MaxMemoryBytes: 64 << 20, Overload: sketchlimit.DenyProven,
	})
	if err != nil {
		return nil, err
	}
	limit, err := httplimit.New(limiter, &httplimit.Clients{})
	if err != nil {
		return nil, err
	}
	handler := limit(mux)
	return handler, nil
}

// bucket is what replaces token buckets and GCRA.
func bucket(mux http.Handler) (http.Handler, error) {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Algorithm: sketchlimit.TokenBucket, Limit: 100, Window: time.Minute, Burst: 20,
		Keys: 1_000_000, Overload: sketchlimit.DenyProven,
	})
	if err != nil {
		return nil, err
	}
	limit, err := httplimit.New(limiter, &httplimit.Clients{})
	if err != nil {
		return nil, err
	}
	handler := limit(mux)
	return handler, nil
}
