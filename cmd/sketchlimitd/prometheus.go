package main

import (
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	stats "github.com/lyft/gostats"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/statsd_exporter/pkg/mapper"
	mapped "github.com/prometheus/statsd_exporter/pkg/registry"

	"github.com/sketchlimit/sketchlimit/promlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// newRegistry returns a registry with what rules say of themselves.
func newRegistry(limits *rules.Rules) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(promlimit.New(limits.Counting()),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

func handler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// mapping gives the names of statsd those that envoyproxy/ratelimit has for Prometheus.
//
//go:embed mapping.yaml
var mapping string

// prometheusSink makes metrics of what would be sent to statsd, by a mapping as
// statsd_exporter has it. So those who have a mapping of their own can go on using it.
type prometheusSink struct {
	mapper *mapper.MetricMapper
	count  *prometheus.GaugeVec
	drops  *prometheus.CounterVec

	mu        sync.Mutex // guards registry
	registry  *mapped.Registry
	observers sync.Map // by name of statsd, since the last flush
}

func newPrometheus(set *statsSettings, registry prometheus.Registerer) (stats.Sink, error) {
	s := &prometheusSink{
		mapper: &mapper.MetricMapper{Registerer: registry, Logger: slog.New(slog.DiscardHandler)},
		count:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "statsd_exporter_metrics_total", Help: "Metrics by type."}, []string{"type"}),
		drops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "statsd_exporter_events_conflict_total", Help: "Events that did not fit a metric of their name.",
		}, []string{"type"}),
	}
	registry.MustRegister(s.count, s.drops)
	var err error
	switch {
	case set.PrometheusMapper != "":
		if err = s.mapper.InitFromFile(set.PrometheusMapper); err != nil {
			err = fmt.Errorf("PROMETHEUS_MAPPER_YAML %q: %w", set.PrometheusMapper, err)
		}
	default:
		text := mapping
		if set.Milliseconds { // as envoyproxy/ratelimit had it until 2026
			text = strings.Replace(text, "scale: 0.001", "scale: 1", 1)
		}
		err = s.mapper.InitFromYAMLString(text)
	}
	s.registry = mapped.NewRegistry(registry, s.mapper)
	return s, err
}

// FlushCounter implements [stats.Sink].
func (s *prometheusSink) FlushCounter(name string, value uint64) { s.flushCounter(name, value, 0) }

// FlushPassing is FlushCounter for a name that requests have chosen: its metric is
// removed when it has not come for nameAge.
func (s *prometheusSink) FlushPassing(name string, value uint64) {
	s.flushCounter(name, value, nameAge)
}

func (s *prometheusSink) flushCounter(name string, value uint64, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.metric(name, mapper.MetricTypeCounter); ok {
		if age > 0 && m.mapping.Ttl == 0 {
			passing := *m.mapping
			passing.Ttl = age
			m.mapping = &passing
		}
		if counter, err := s.registry.GetCounter(m.name, m.labels, m.help, m.mapping, s.count); err == nil {
			counter.Add(float64(value) * m.scale)
		} else {
			s.drops.WithLabelValues("counter").Inc()
		}
	}
}

// FlushGauge implements [stats.Sink].
func (s *prometheusSink) FlushGauge(name string, value uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.metric(name, mapper.MetricTypeGauge); ok {
		if gauge, err := s.registry.GetGauge(m.name, m.labels, m.help, m.mapping, s.count); err == nil {
			gauge.Set(float64(value) * m.scale)
		} else {
			s.drops.WithLabelValues("gauge").Inc()
		}
	}
}

// FlushTimer implements [stats.Sink]. It comes with every request, so that it does not
// look for its metric each time.
func (s *prometheusSink) FlushTimer(name string, value float64) {
	found, ok := s.observers.Load(name)
	if !ok {
		found = s.observer(name)
		s.observers.Store(name, found)
	}
	found.(func(float64))(value)
}

func (s *prometheusSink) observer(name string) func(float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.metric(name, mapper.MetricTypeObserver)
	if !ok {
		return func(float64) {}
	}
	get := s.registry.GetSummary
	if m.mapping.ObserverType == mapper.ObserverTypeHistogram {
		get = s.registry.GetHistogram
	}
	observer, err := get(m.name, m.labels, m.help, m.mapping, s.count)
	if err != nil {
		return func(float64) { s.drops.WithLabelValues("observer").Inc() }
	}
	return func(value float64) { observer.Observe(value * m.scale) }
}

// Flush implements [stats.FlushableSink]: metrics that the mapping lets grow old are
// removed.
func (s *prometheusSink) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers.Clear()
	s.registry.RemoveStaleMetrics()
}

// metric is what a name of statsd becomes.
type metric struct {
	mapping    *mapper.MetricMapping
	name, help string
	labels     prometheus.Labels
	scale      float64
}

// metric maps a name; not ok if it is dropped.
func (s *prometheusSink) metric(name string, kind mapper.MetricType) (m metric, ok bool) {
	mapping, labels, present := s.mapper.GetMapping(name, kind)
	if mapping == nil {
		mapping = &mapper.MetricMapping{Ttl: s.mapper.Defaults.Ttl}
	}
	m = metric{mapping, mapper.EscapeMetricName(name), "As statsd would get it.", prometheus.Labels{}, 1}
	if present {
		m.name, m.labels = mapper.EscapeMetricName(mapping.Name), labels
	}
	if mapping.HelpText != "" {
		m.help = mapping.HelpText
	}
	if mapping.Scale.Set {
		m.scale = mapping.Scale.Val
	}
	return m, mapping.Action != mapper.ActionTypeDrop && m.name != ""
}
