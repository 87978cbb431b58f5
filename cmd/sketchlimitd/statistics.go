package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	stats "github.com/lyft/gostats"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimitd/envoylimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// statistics are told under the names of envoyproxy/ratelimit.
type statistics struct {
	settings *statsSettings
	logger   *slog.Logger
	store    stats.Store
	registry *prometheus.Registry
	metrics  http.Handler // for Prometheus
	rules    *rules.Rules
	loader   *loader
	service  *envoylimit.Service

	own     stats.Scope // ratelimit.service
	limits  stats.Scope // ratelimit.service.rate_limit
	server  stats.Scope // ratelimit_server
	methods sync.Map    // of gRPC, to their method
	names   *namesOfRules
	domains names // that no file has
	sink    stats.Sink
	tags    string // behind each name that requests have chosen

	last map[string]uint64 // what counters were when they were told last
}

// newStatistics returns statistics of rules; the service is set before the first flush.
func newStatistics(set *statsSettings, limits *rules.Rules, load *loader, logger *slog.Logger) (*statistics, error) {
	s := &statistics{
		settings: set, logger: logger, rules: limits, loader: load, last: map[string]uint64{}, tags: tagged(set.ExtraTags),
		names: &namesOfRules{rules: map[string]*names{}}, domains: names{most: maxDomains},
	}
	registry := newRegistry(limits)
	registry.MustRegister(s.names)
	s.registry, s.metrics = registry, handler(registry)
	sink, err := newSink(set, registry, logger)
	if err != nil {
		return nil, err
	}
	s.sink, s.store = sink, stats.NewStore(sink, false)
	root := s.store.ScopeWithTags("ratelimit", set.ExtraTags)
	s.own = root.Scope("service")
	s.limits = s.own.Scope("rate_limit")
	s.server = s.store.ScopeWithTags("ratelimit_server", set.ExtraTags)
	s.store.AddStatGenerator(stats.NewRuntimeStats(root.Scope("go")))
	s.store.AddStatGenerator(s)
	return s, nil
}

// flush starts sending the statistics at every interval. The function that it returns
// sends the rest, and waits at most a second for that.
func (s *statistics) flush() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(s.settings.FlushInterval)
		defer ticker.Stop()
		s.store.StartContext(ctx, ticker)
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(time.Second):
		}
	}
}

// method is what is told of a method of gRPC.
type method struct {
	requests stats.Counter
	time     stats.Timer
}

// intercept counts and times requests.
func (s *statistics) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	found, ok := s.methods.Load(info.FullMethod)
	if !ok {
		name := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
		found, _ = s.methods.LoadOrStore(info.FullMethod, method{s.server.NewCounter(name + ".total_requests"), s.server.NewTimer(name + ".response_time")})
	}
	m := found.(method)
	start := time.Now()
	response, err := handler(ctx, request)
	m.requests.Inc()
	m.time.AddValue(float64(time.Since(start)) / float64(time.Millisecond))
	return response, err
}

// observe counts what has its name from the request. All else rules count themselves.
func (s *statistics) observe(o *envoylimit.Observation) {
	if !o.Answer.Known {
		first, filled := s.domains.add(o.Domain, [len(suffixes)]uint64{uint64(len(o.Asks))})
		if first {
			s.logger.Warn("no file has the domain of a request: it is not limited", "domain", o.Domain[:min(len(o.Domain), maxNameBytes)])
		}
		if filled {
			s.logger.Warn("too many domains that no file has: others are counted as "+otherName, "domains", maxDomains)
		}
		return
	}
	for i := range o.Answer.Statuses {
		status := &o.Answer.Statuses[i]
		if rule := status.Rule; rule != nil && rule.NamedByRequest {
			chosen := s.names.of(rule, s.rules)
			_, filled := chosen.add(rule.StatsName(o.Asks[i].Descriptor), countsOf(status.Counts))
			if filled {
				s.logger.Warn("a rule has as many names of statistics as it may: hits of others are counted as "+otherName,
					"rule", rule.String(), "names", chosen.limit())
			}
		}
	}
}

// GenerateStats implements [stats.StatGenerator]: it is called before each flush.
func (s *statistics) GenerateStats() {
	for _, rule := range s.rules.All() {
		if !rule.NamedByRequest && !rule.Unlimited {
			for i, n := range countsOf(rule.Counts()) {
				s.add(s.limits, sanitize(rule.String())+suffixes[i], n)
			}
		}
	}
	for _, rule := range s.rules.Counting() {
		if rule.Override {
			for i, n := range countsOf(rule.Counts()) {
				s.add(s.limits, rule.String()+suffixes[i], n)
			}
		}
	}
	s.tellNames(time.Now())
	s.add(s.own, "config_load_success", s.loader.successes.Load())
	s.add(s.own, "config_load_error", s.loader.failures.Load())
	service := s.service.Stats()
	s.add(s.own, "global_shadow_mode", service.Shadowed)
	s.add(s.own, "negative_hits", service.NegativeHits)
	s.add(s.own, "call.should_rate_limit.service_error", service.ServiceErrors)
}

// add adds what a counter has more than when it was told last. One that has less has
// begun anew.
func (s *statistics) add(scope stats.Scope, name string, now uint64) {
	before := s.last[name]
	if now < before {
		before = 0
	}
	s.last[name] = now
	scope.NewCounter(name).Add(now - before)
}

// tellNames passes names that requests have chosen to the sink itself: the store would
// keep each for good.
func (s *statistics) tellNames(now time.Time) {
	flush := s.sink.FlushCounter
	if passing, ok := s.sink.(interface{ FlushPassing(string, uint64) }); ok {
		flush = passing.FlushPassing
	}
	each := func(name string, count uint64) { flush("ratelimit.service.rate_limit."+name+s.tags, count) }
	for _, chosen := range s.names.all() {
		chosen.tell(now, each)
	}
	s.domains.tell(now, func(name string, count uint64) {
		each(strings.TrimSuffix(name, suffixes[0])+".domain_not_found", count)
	})
}
