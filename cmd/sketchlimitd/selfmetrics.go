package main

import (
	"github.com/prometheus/client_golang/prometheus"
)

// registerSelf registers what the service tells of itself. These are there from the
// start, unlike counters of statsd, which come with their first count: an alert on the
// increase of one would miss that.
func (s *server) registerSelf(registry prometheus.Registerer) {
	of := func(value func() float64, name, help string) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sketchlimitd_" + name, Help: help}, value))
	}
	of(func() float64 { return one(s.health.serving.Load()) }, "ready", "1 while it is ready, otherwise 0.")
	of(func() float64 { return one(s.loader.current.Load()) }, "rules_current",
		"1 if the rules in force are the latest that came, 0 if those are wrong.")
	of(func() float64 { keys, _ := s.rules.Grants(); return float64(keys) }, "forgiven_keys", "Keys that are forgiven now.")
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "sketchlimitd_forgiven_units_total", Help: "Units that such keys have taken beyond what their counters admit.",
	}, func() float64 { _, units := s.rules.Grants(); return float64(units) }))
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sketchlimitd_build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": version()},
	})
	info.Set(1)
	registry.MustRegister(info,
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sketchlimitd_rules_loads_total", Help: "Times that rules were loaded."},
			func() float64 { return float64(s.loader.successes.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sketchlimitd_rules_failed_loads_total", Help: "Times that rules were wrong."},
			func() float64 { return float64(s.loader.failures.Load()) }))
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
