// Package metrics has the metrics of limiters, budgets and top keys. It exports nothing
// itself: modules promlimit (Prometheus) and otellimit (OpenTelemetry) export any
// [Source].
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

// Kind is counter or gauge.
type Kind int

const (
	Gauge   Kind = iota // as it is now, and a sum over limiters means nothing: rates, shares
	Sum                 // as it is now, and it adds up: bytes, holds
	Counter             // it only grows
)

// Metric describes one number for each combination of labels.
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

// Of is a metric and how its value follows from an S, such as a [sketchlimit.Stats].
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

// Append appends the samples of a picture. Values that are NaN are unknown and left out.
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

// Source is a set of metrics that are read at once. Make it with [NewSource]. It is
// safe for concurrent use.
type Source struct {
	metrics []*Metric
	read    func(context.Context) ([]Sample, error)

	mu    sync.Mutex
	last  []Sample
	err   error
	until time.Time // when it is to be read again
}

// NewSource returns a Source of metrics of different names, whose samples read returns.
// If read also returns an error, the samples are those that could be read. read is
// called by one goroutine at a time.
func NewSource(metrics []*Metric, read func(context.Context) ([]Sample, error)) *Source {
	return &Source{metrics: metrics, read: read}
}

// Metrics returns the metrics of the Source. Do not change the slice.
func (s *Source) Metrics() []*Metric { return s.metrics }

// Read returns all samples; do not change the slice. A result that took time t to read
// is returned again for 9 × t, so reads take at most a tenth of one core, however often
// they come: Stats takes milliseconds for each MiB of a limiter.
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
