// Package promlimit exports limiters to Prometheus: how much they admit and deny, how
// full they are and how often they err. The labels are names of limiters and policies,
// never keys, so the number of series does not grow with traffic. For keys see package
// topkeys.
//
//	limiters := map[string]*sketchlimit.Limiter{"api": limiter}
//	prometheus.MustRegister(promlimit.New(maps.All(limiters)))
//
// For the rules of package rules, give [New] the result of rules.Rules.Counting.
// [Refusals] counts the requests that a policy of package httplimit refuses, or would
// refuse if it were not in shadow mode. [Collector] exports any other Source of package
// metrics, such as those of limiters that are shared through Redis:
// redislimit.StrictMetrics and SyncedMetrics.
package promlimit

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/metrics"
)

// Limiter is what is told of. A [sketchlimit.Limiter] is one, and so is a Rule of
// package rules. It must be safe for concurrent use.
type Limiter = metrics.Limiter

// New returns a collector of the limiters, which it ranges over anew whenever it reads
// them; no two may have one name. What took long to read is told again for a while, see
// [metrics.Source.Read].
func New[L Limiter](limiters iter.Seq2[string, L]) prometheus.Collector {
	return Collector(metrics.Limiters(limiters))
}

// Budgets returns a collector of budgets, as [New] does of limiters. The label limit is
// the index of one of a budget's limits.
func Budgets(budgets iter.Seq2[string, *budget.Budget]) prometheus.Collector {
	return Collector(metrics.Budgets(budgets))
}

// Collector returns a collector of a Source. Names begin with sketchlimit_, and end
// with the unit, if that is bytes or seconds, and with _total of counters. What cannot
// be read is left out.
func Collector(source *metrics.Source) prometheus.Collector {
	c := &collector{source: source, descs: map[*metrics.Metric]*prometheus.Desc{}}
	for _, m := range source.Metrics() {
		c.descs[m] = prometheus.NewDesc(name(m), m.Help, m.Labels, nil)
	}
	return c
}

func name(m *metrics.Metric) string {
	s := "sketchlimit_" + strings.ReplaceAll(m.Name, ".", "_")
	s += map[string]string{"By": "_bytes", "s": "_seconds"}[m.Unit]
	if m.Kind == metrics.Counter {
		s += "_total"
	}
	return s
}

type collector struct {
	source *metrics.Source
	descs  map[*metrics.Metric]*prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	samples, _ := c.source.Read(context.Background())
	for _, s := range samples {
		kind := prometheus.GaugeValue
		if s.Metric.Kind == metrics.Counter {
			kind = prometheus.CounterValue
		}
		labels := make([]string, len(s.Labels))
		for i, l := range s.Labels {
			labels[i] = label(l)
		}
		ch <- prometheus.MustNewConstMetric(c.descs[s.Metric], kind, s.Value, labels...)
	}
}

// Refusals returns a counter of the requests that policies do not admit, by policy and
// whether it is in shadow mode, and the option that makes a middleware count them. The
// label is limiter: give a limiter the name of its policy, as rules.Rules.Counting
// does, and the metrics of both join.
func Refusals() (prometheus.Collector, httplimit.Option) {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sketchlimit_refused_requests_total",
		Help: "Requests that a policy does not admit; with shadow=true it did not refuse them.",
	}, []string{"limiter", "shadow"})
	return counter, httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
		counter.WithLabelValues(label(p.Name), strconv.FormatBool(p.Shadow)).Inc()
	})
}

// label returns a name as Prometheus takes it, which panics if it is not UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
