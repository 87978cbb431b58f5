// Command otellimit uses module otellimit as somebody who gets it by its version.
package main

import (
	"log"
	"maps"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/metrics"
	"github.com/sketchlimit/sketchlimit/otellimit"
	"go.opentelemetry.io/otel/metric/noop"
)

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	limiters := map[string]*sketchlimit.Limiter{"api": limiter}
	registration, err := otellimit.Register(noop.Meter{}, metrics.Limiters(maps.All(limiters)))
	if err != nil {
		log.Fatal(err)
	}
	if err := registration.Unregister(); err != nil {
		log.Fatal(err)
	}
}
