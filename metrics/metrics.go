// Package metrics is what limiters, budgets and top keys tell of themselves, as numbers with names. It exports nothing
// by itself: modules promlimit (Prometheus) and otellimit (OpenTelemetry) export any [Source].
//
//	limiters := map[string]*sketchlimit.Limiter{"api": limiter}
//	prometheus.MustRegister(promlimit.Collector(metrics.Limiters(maps.All(limiters))))
//
// Module redislimit has Sources of limiters that are shared through Redis.
package metrics

import (
	"context"
	"math"
	"sync"
	"time"
)

// Kind is how a number moves.
type Kind int

const (
	Gauge   Kind = iota // as it is now, and a sum over limiters means nothing: rates, shares
	Sum                 // as it is now, and it adds up: bytes, holds
	Counter             // it only grows
)

// Metric is one number that is told, of each combination of labels.
type Metric struct {
	Name   string   // lower case, "_" between words and "." between levels: "budget.open_holds"
	Help   string   // one sentence
	Unit   string   // in UCUM: "By", "s", "1" of shares, "{key}" of what is counted, "{denial}/{request}"; "" of 0 or 1
	Kind   Kind     //
	Labels []string // their names
}

// Sample is the value of a metric for one combination of labels.
type Sample struct {
	Metric *Metric
	Labels []string // values, in the order of Metric.Labels
	Value  float64
}

// Of is a metric that is read from a picture S, such as a [sketchlimit.Stats].
type Of[S any] struct {
	Metric
	Value func(S) float64 // NaN if it is not known
}

// All returns the metrics of a table.
func All[S any](table []Of[S]) (list []*Metric) {
	for i := range table {
		list = append(list, &table[i].Metric)
	}
	return list
}

// Append appends a picture's samples, but for those that are not known.
func Append[S any](list []Sample, table []Of[S], picture S, labels ...string) []Sample {
	for i := range table {
		if v := table[i].Value(picture); !math.IsNaN(v) {
			list = append(list, Sample{&table[i].Metric, labels, v})
		}
	}
	return list
}

// One returns 1 for true, and 0 for false.
func One(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Source is metrics that are read all at once, made by [NewSource]. It is safe for concurrent use.
type Source struct {
	metrics []*Metric
	read    func(context.Context) ([]Sample, error)

	mu    sync.Mutex
	last  []Sample
	err   error
	until time.Time // when it is to be read again
}

// NewSource returns the Source of these metrics, of different names, that read returns samples of. If it returns an
// error as well, the samples are those that could be read. It is called by one goroutine at a time.
func NewSource(metrics []*Metric, read func(context.Context) ([]Sample, error)) *Source {
	return &Source{metrics: metrics, read: read}
}

// Metrics returns what the Source tells of. Do not change it.
func (s *Source) Metrics() []*Metric { return s.metrics }

// Read returns all samples; do not change them. What took time t to read is told again for 9 × t: so readings, however
// often, take at most a tenth of one core. Stats reads the whole of a limiter, which takes milliseconds for each MiB.
func (s *Source) Read(ctx context.Context) ([]Sample, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if start := time.Now(); !start.Before(s.until) {
		s.last, s.err = s.read(ctx)
		end := time.Now()
		s.until = end.Add(9 * end.Sub(start))
	}
	return s.last, s.err
}
