package caddylimit

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sketchlimit/sketchlimit/promlimit"
)

// Metrics with the names of caddy-ratelimit and no label for keys, of which there may
// be millions; and those of package promlimit. They belong to the process, and every
// config registers them in its registry. So counters go on over a reload.
var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_requests_total",
		Help: "Requests that a zone matched, declined ones included.",
	}, []string{"zone"})
	declined = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_declined_requests_total",
		Help: "Requests that a zone declined with status 429.",
	}, []string{"zone"})
	seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "caddy_rate_limit_process_time_seconds",
		Help:    "Time that a decision took, those of other zones on the same request included.",
		Buckets: []float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1},
	}, []string{"zone"})
	keysTotal = prometheus.NewDesc("caddy_rate_limit_keys_total",
		"Estimate of the keys that were admitted in the current window, the longest of the zone. Buckets do not know.",
		[]string{"zone"}, nil)
	config = prometheus.NewDesc("caddy_rate_limit_config", "1 for each limit of a zone.",
		[]string{"zone", "max_events", "window"}, nil)

	collectors = []prometheus.Collector{requests, declined, seconds, zoneCollector{}, promlimit.New(limiters())}
)

// register adds the metrics to the registry of a config.
func register(registry *prometheus.Registry) error {
	for _, c := range collectors {
		var already prometheus.AlreadyRegisteredError
		err := registry.Register(c)
		if errors.As(err, &already) && already.ExistingCollector == c {
			continue // by another handler of the same config
		}
		if err != nil {
			return fmt.Errorf("metrics: %w: set disable_metrics beside another module that has them", err)
		}
	}
	return nil
}

// counters are those of a zone.
type counters struct {
	requests, declined prometheus.Counter
	seconds            prometheus.Observer
}

func newCounters(zone string) counters {
	return counters{requests.WithLabelValues(zone), declined.WithLabelValues(zone), seconds.WithLabelValues(zone)}
}

// count counts a request whose decision began then.
func (c *counters) count(start time.Time) {
	c.requests.Inc()
	c.seconds.Observe(time.Since(start).Seconds())
}

// current returns the latest state of each zone. There are two of a zone while a config
// with other settings takes over.
func current() map[string]*state {
	latest := map[string]*state{}
	states.Range(func(_, value any) bool {
		if s, ok := value.(*state); ok && (latest[s.zone] == nil || latest[s.zone].sequence < s.sequence) {
			latest[s.zone] = s
		}
		return true
	})
	return latest
}

// forget removes the counters of a zone that no config has any more.
func forget(zone string) {
	if current()[zone] == nil {
		for _, v := range []*prometheus.MetricVec{requests.MetricVec, declined.MetricVec, seconds.MetricVec} {
			v.DeleteLabelValues(zone)
		}
	}
}

// limiters returns the limiters of all zones, by the zone's name and their window.
func limiters() iter.Seq2[string, *limiter] {
	return func(yield func(string, *limiter) bool) {
		for _, s := range current() {
			for _, l := range s.limiters {
				if !yield(l.name, l) {
					return
				}
			}
		}
	}
}

// zoneCollector collects the metrics of caddy-ratelimit that are no counters.
type zoneCollector struct{}

// Describe implements [prometheus.Collector].
func (zoneCollector) Describe(ch chan<- *prometheus.Desc) { ch <- keysTotal; ch <- config }

// Collect implements [prometheus.Collector].
func (zoneCollector) Collect(ch chan<- prometheus.Metric) {
	for zone, s := range current() {
		for _, l := range s.limiters {
			ch <- prometheus.MustNewConstMetric(config, prometheus.CounterValue, 1,
				zone, strconv.Itoa(l.config.Limit), l.config.Window.String())
		}
		longest := slices.MaxFunc(s.limiters, func(a, b *limiter) int {
			return cmp.Compare(a.config.Window, b.config.Window)
		})
		if keys := longest.Stats().DistinctKeys; keys > 0 {
			ch <- prometheus.MustNewConstMetric(keysTotal, prometheus.GaugeValue, keys, zone)
		}
	}
}
