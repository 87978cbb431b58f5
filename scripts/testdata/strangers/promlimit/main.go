// Command promlimit uses module promlimit as somebody who gets it by its version.
package main

import (
	"log"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/promlimit"
)

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: time.Minute, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(promlimit.New(maps.All(map[string]*sketchlimit.Limiter{"api": limiter})))
	metrics, err := registry.Gather()
	if err != nil || len(metrics) == 0 {
		log.Fatalf("%d metrics, %v", len(metrics), err)
	}
}
