package main

import (
	"expvar"
	"net/http"
	"net/http/pprof"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sketchlimit/sketchlimit/promlimit"
	"github.com/sketchlimit/sketchlimit/rules/operators"
)

// lookEvery is how often the log hears of rules over capacity: Stats reads the whole of
// each.
const lookEvery = 10 * time.Second

// published is what /debug/vars has of this package, by file of rules.
var published = expvar.NewMap("limits")

// operatorsHandler has the page, what it shows as JSON, /metrics, /debug/vars, and
// /debug/pprof/heap.
func (s *service) operatorsHandler(refusals prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(refusals, promlimit.New(s.rules.Counting()),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "limits_failed_loads_total", Help: "Readings of the file of limits that left them as they were.",
		}, func() float64 { return float64(s.rules.Stats().FailedLoads) }),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)})))
	mux := http.NewServeMux()
	mux.Handle("/", s.page.Handler())
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	published.Set(s.file, expvar.Func(func() any { return s.page.JSON() }))
	mux.Handle("GET /debug/vars", expvar.Handler())
	mux.Handle("GET /debug/pprof/heap", pprof.Handler("heap"))
	return mux
}

func (s *service) newPage() *operators.Page {
	return &operators.Page{Rules: s.rules, Top: s.top, Requests: func() (requests, refused uint64) {
		passed := s.passed.Load() // first, or more might have passed than came
		requests = s.requests.Load()
		return requests, requests - passed
	}}
}
