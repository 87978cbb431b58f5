// Package promlimit exports limiters to Prometheus: how much they admit and deny, how full
// they are and how often they err. The labels are names of limiters and policies, never
// keys, so the number of series does not grow with traffic. For keys see package topkeys.
//
//	limiters := map[string]*sketchlimit.Limiter{"api": limiter}
//	prometheus.MustRegister(promlimit.New(maps.All(limiters)))
//
// For the rules of package rules, give [New] the result of rules.Rules.Counting. [Refusals]
// counts the requests that a policy of package httplimit refuses, or would refuse if it were
// not in shadow mode.
package promlimit

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// Limiter is what is told of. A [sketchlimit.Limiter] is one, and so is a Rule of package rules. It must be
// safe for concurrent use.
type Limiter interface {
	Stats() sketchlimit.Stats
	MemoryBytes() int
}

// metric is one of a limiter.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(sketchlimit.Stats) float64
}

const (
	total = prometheus.CounterValue
	now   = prometheus.GaugeValue
)

var metrics = []metric{
	{desc("admitted_units_total", "Units admitted."), total,
		func(s sketchlimit.Stats) float64 { return float64(s.Admitted) }},
	{desc("denied_units_total", "Units denied, also where nobody heeds it: in shadow mode."), total,
		func(s sketchlimit.Stats) float64 { return float64(s.Denied) }},
	{desc("overdraft_units_total", "Units charged although they were not free; they are among those admitted."), total,
		func(s sketchlimit.Stats) float64 { return float64(s.Overdraft) }},
	{desc("too_low_requests_total", "Requests with a limit below the lowest that the limiter is made for: all denied."), total,
		func(s sketchlimit.Stats) float64 { return float64(s.TooLow) }},
	{desc("rotations_total", "Times that a new generation has begun."), total,
		func(s sketchlimit.Stats) float64 { return float64(s.Rotations) }},
	{desc("false_denial_rate", "Chance, 0 to 1, that a key which the limiter has never seen is denied a request of mean cost now."), now,
		func(s sketchlimit.Stats) float64 { return s.FalseDenialRate }},
	{desc("innocent_denial_rate", "Estimate of the share, 0 to 1, of the requests of innocent keys that are denied lately."), now,
		func(s sketchlimit.Stats) float64 { return s.InnocentDenialRate }},
	{desc("mean_cost_units", "Mean units of the requests admitted lately."), now,
		func(s sketchlimit.Stats) float64 { return s.MeanCost }},
	{desc("distinct_keys", "Estimate of the keys admitted in the current generation."), now,
		func(s sketchlimit.Stats) float64 { return s.DistinctKeys }},
	{desc("bloom_fill_ratio", "Share, 0 to 1, of bits set in the current doorkeepers."), now,
		func(s sketchlimit.Stats) float64 { return s.BloomFill }},
	{desc("sketch_fill_ratio", "Share, 0 to 1, of cells above 0 in the current sketches."), now,
		func(s sketchlimit.Stats) float64 { return s.SketchFill }},
	{desc("outside_plan", "1 while the limiter is not used as it was made for, see Stats.OutsidePlan; otherwise 0."), now,
		func(s sketchlimit.Stats) float64 { return one(s.OutsidePlan) }},
	{desc("sparing", "1 while a limiter with Overload Spare meets more than it was made for and denies certified keys only; otherwise 0."), now,
		func(s sketchlimit.Stats) float64 { return one(s.Spared.Active) }},
	{desc("sparing_times_total", "Times that this has begun."), total,
		func(s sketchlimit.Stats) float64 { return float64(s.Spared.Times) }},
	{desc("spared_units_total", "Units admitted by shards that spared, until they were exact again: no more than that was over-admitted."), total,
		func(s sketchlimit.Stats) float64 { return float64(s.Spared.Units) }},
}

// one returns 1 for true, and 0 for false.
func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var memory = desc("memory_bytes", "Memory that the limiter takes.")

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("sketchlimit_"+name, help, []string{"limiter"}, nil)
}

// New returns a collector of the limiters, which it ranges over anew whenever it reads them;
// no two may have one name.
//
// Stats reads the whole of a limiter, which takes milliseconds for each MiB. So that
// scrapes, however many, take at most a tenth of one core, what took so long to read is
// told again for nine times as long.
func New[L Limiter](limiters iter.Seq2[string, L]) prometheus.Collector {
	descs := []*prometheus.Desc{memory}
	for _, m := range metrics {
		descs = append(descs, m.desc)
	}
	return &collector{descs: descs, read: func() (list []prometheus.Metric) {
		for name, l := range limiters {
			name = label(name)
			stats := l.Stats()
			for _, m := range metrics {
				list = append(list, prometheus.MustNewConstMetric(m.desc, m.kind, m.value(stats), name))
			}
			list = append(list, prometheus.MustNewConstMetric(memory, prometheus.GaugeValue, float64(l.MemoryBytes()), name))
		}
		return list
	}}
}

type collector struct {
	descs []*prometheus.Desc
	read  func() []prometheus.Metric

	mu    sync.Mutex
	last  []prometheus.Metric
	until time.Time // when it is to be read again
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.latest() {
		ch <- m
	}
}

func (c *collector) latest() []prometheus.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	if start := time.Now(); !start.Before(c.until) {
		c.last = c.read()
		end := time.Now()
		c.until = end.Add(9 * end.Sub(start))
	}
	return c.last
}

// Refusals returns a counter of the requests that policies do not admit, by policy and
// whether it is in shadow mode, and the option that makes a middleware count them. The label is limiter: give a limiter
// the name of its policy, as rules.Rules.Counting does, and the metrics of both join.
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
