package corednslimit

import (
	"maps"
	"sync"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sketchlimit/sketchlimit/metrics/refresh"
)

var (
	responsesExceeded = exceeded("responses_exceeded_total", "Responses that an allowance refused; with report-only they were sent.")
	requestsExceeded  = exceeded("requests_exceeded_total", "Requests that requests-per-second refused; with report-only they were served.")

	falseDenialRate = desc("false_denial_rate", "Chance, 0 to 1, that the first response to a client is refused because of others.")
	outsidePlan     = desc("outside_plan", "1 while false_denial_rate is above 0.001: the memory is too small for the flood; otherwise 0.")
	memoryBytes     = desc("memory_bytes", "Memory of the accounts. It does not change.")
)

// plannedRate is the false-denial rate above which the memory is too small.
const plannedRate = 1e-3

// exceeded returns a counter by server. Clients are no label: an attacker would make a
// series of each address.
func exceeded(metric, help string) *prometheus.CounterVec {
	return promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: metric, Help: help,
	}, []string{"server"})
}

func desc(metric, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, name, metric), help, []string{"server_block", "view"}, nil)
}

// live are the handlers of the servers that run.
var live = handlers{of: make(map[block]*served)}

func init() { prometheus.MustRegister(&live) }

type handlers struct {
	mu       sync.Mutex
	of       map[block]*served
	watching bool
	queue    refresh.Queue
}

// block is a server block: its keys, and its view if it has one.
type block struct{ keys, view string }

// served is the handler of a block.
type served struct {
	handler *Handler
	of      any                    // all blocks that started with it
	rate    refresh.Value[float64] // the false-denial rate, which takes milliseconds for each MiB
	outside bool                   // it was logged that the memory is too small
}

// add makes a handler that of its server block. In a reload the new server starts
// before the old one ends.
func (s *handlers) add(of block, h *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[of] = h
	if !s.watching {
		s.watching = true
		go s.watch()
	}
}

// restore makes a handler that of its server block again, in place of all that started
// after it and failed.
func (s *handlers) restore(of block, h *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(_ block, other *served) bool { return other.of != h.of })
	s.of[of] = h
}

func (s *handlers) remove(of block, h *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[of] == h {
		delete(s.of, of)
	}
}

// Describe implements [prometheus.Collector].
func (s *handlers) Describe(ch chan<- *prometheus.Desc) {
	ch <- falseDenialRate
	ch <- outsidePlan
	ch <- memoryBytes
}

// Collect implements [prometheus.Collector].
func (s *handlers) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	now := maps.Clone(s.of)
	s.mu.Unlock()
	reading := s.queue.Start()
	for of, h := range now {
		bytes := h.handler.MemoryBytes()
		ch <- prometheus.MustNewConstMetric(memoryBytes, prometheus.GaugeValue, float64(bytes), of.keys, of.view)
		rate, known := refresh.Get(&reading, &h.rate, bytes, h.handler.FalseDenialRate)
		if !known { // a later scrape tells it
			continue
		}
		outside := 0.0
		if rate > plannedRate {
			outside = 1
		}
		ch <- prometheus.MustNewConstMetric(falseDenialRate, prometheus.GaugeValue, rate, of.keys, of.view)
		ch <- prometheus.MustNewConstMetric(outsidePlan, prometheus.GaugeValue, outside, of.keys, of.view)
	}
}
