package main

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// healthName is what health checks of gRPC ask for.
const healthName = "ratelimit"

// healthiness is what load balancers are told.
type healthiness struct {
	grpc    *health.Server
	serving atomic.Bool

	mu    sync.Mutex
	ended bool
}

func newHealthiness(serving bool) *healthiness {
	h := &healthiness{grpc: health.NewServer()}
	h.set(serving)
	return h
}

// set sets whether requests may come. After end it has no effect.
func (h *healthiness) set(serving bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthv1.HealthCheckResponse_SERVING
	}
	h.serving.Store(serving)
	h.grpc.SetServingStatus("", status)
	h.grpc.SetServingStatus(healthName, status)
}

// end reports not serving, for good.
func (h *healthiness) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.serving.Store(false)
	h.grpc.Shutdown()
}

// alive answers as long as the process does: to restart it would not mend its rules.
func alive(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "OK") }

// ServeHTTP answers 200 and OK, or 500.
func (h *healthiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !h.serving.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	io.WriteString(w, "OK")
}
