package main

import (
	_ "embed"
	"encoding/json"
	"expvar"
	"net/http"
	"net/http/pprof"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sketchlimit/sketchlimit/promlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

//go:embed page.html
var page []byte

// published is what /debug/vars has of this package, by file of rules.
var published = expvar.NewMap("limits")

// operatorsHandler has the page, what it shows as JSON, /metrics, /debug/vars, and
// /debug/pprof/heap.
func (s *service) operatorsHandler(refusals prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(refusals, promlimit.New(s.rules.Counting()),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)})))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	})
	latest := s.atMostEvery(time.Second)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(latest())
	})
	published.Set(s.file, expvar.Func(func() any { return json.RawMessage(latest()) }))
	mux.Handle("GET /debug/vars", expvar.Handler())
	mux.Handle("GET /debug/pprof/heap", pprof.Handler("heap"))
	return mux
}

// status is what the page shows.
type status struct {
	Time        time.Time `json:"time"`
	Requests    uint64    `json:"requests"`
	Refused     uint64    `json:"refused"`
	MemoryBytes int       `json:"memory_bytes"`
	Rules       []rule    `json:"rules"`
	Top         top       `json:"top"`
}

type rule struct {
	Name               string   `json:"name"`
	Limit              int      `json:"limit"`
	Window             string   `json:"window"`
	Shadow             bool     `json:"shadow"`
	Admitted           uint64   `json:"admitted"`
	Denied             uint64   `json:"denied"`
	Keys               float64  `json:"keys"`
	FalseDenialRate    float64  `json:"false_denial_rate"`
	InnocentDenialRate float64  `json:"innocent_denial_rate"`
	MemoryBytes        int      `json:"memory_bytes"`
	Spared             overload `json:"spared"`
}

// top is who is refused the most in the current minute.
type top struct {
	Since time.Time `json:"since"`
	Keys  []key     `json:"keys"`
}

type key struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Count  uint64 `json:"count"`
	Error  uint64 `json:"error"` // count may be too high by so many
}

const topKeys = 10

func (s *service) status() status {
	passed := s.passed.Load() // first, or more might have passed than came
	requests := s.requests.Load()
	st := status{
		Time: time.Now(), Requests: requests, Refused: requests - passed,
		MemoryBytes: s.rules.MemoryBytes(), Rules: []rule{}, Top: top{Keys: []key{}},
	}
	for name, r := range s.rules.Counting() {
		stats := r.Stats()
		st.Rules = append(st.Rules, rule{
			name, r.Limit, r.Window.String(), r.Shadow, stats.Admitted, stats.Denied, stats.DistinctKeys,
			stats.FalseDenialRate, stats.InnocentDenialRate, r.MemoryBytes(), overload(stats.Spared),
		})
	}
	report := s.top.Report()
	st.Top.Since = report.Since
	for _, c := range report.Counts[:min(topKeys, len(report.Counts))] {
		st.Top.Keys = append(st.Top.Keys, key{c.Policy, rules.KeyText(c.Key), c.Count, c.Error})
	}
	return st
}

// atMostEvery returns the status as JSON, which is read at most so often: Stats reads the
// whole of a limiter.
func (s *service) atMostEvery(d time.Duration) func() []byte {
	var mu sync.Mutex
	var last []byte
	var until time.Time
	return func() []byte {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); !now.Before(until) {
			until = now.Add(d)
			last, _ = json.Marshal(s.status()) // numbers and strings cannot fail
		}
		return last
	}
}
