package main

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	stats "github.com/lyft/gostats"
	"google.golang.org/grpc"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimitd/envoylimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// statistics are told under the names of envoyproxy/ratelimit.
type statistics struct {
	settings *statsSettings
	logger   *slog.Logger
	store    stats.Store
	metrics  http.Handler // for Prometheus
	rules    *rules.Rules
	loader   *loader
	service  *envoylimit.Service

	own     stats.Scope // ratelimit.service
	limits  stats.Scope // ratelimit.service.rate_limit
	server  stats.Scope // ratelimit_server
	methods sync.Map    // of gRPC, to their method
	names   names       // of rules, where requests choose them

	last map[string]uint64 // what counters were when they were told last
}

// newStatistics returns statistics of rules; the service is set before the first flush.
func newStatistics(set *statsSettings, limits *rules.Rules, load *loader, logger *slog.Logger) (*statistics, error) {
	s := &statistics{settings: set, logger: logger, rules: limits, loader: load, last: map[string]uint64{}}
	registry := newRegistry(limits)
	s.metrics = handler(registry)
	sink, err := newSink(set, registry, logger)
	if err != nil {
		return nil, err
	}
	s.store = stats.NewStore(sink, false)
	root := s.store.ScopeWithTags("ratelimit", set.ExtraTags)
	s.own = root.Scope("service")
	s.limits = s.own.Scope("rate_limit")
	s.server = s.store.ScopeWithTags("ratelimit_server", set.ExtraTags)
	s.store.AddStatGenerator(stats.NewRuntimeStats(root.Scope("go")))
	s.store.AddStatGenerator(s)
	return s, nil
}

// flush tells what there is at every interval. The function that it returns tells what is left, and waits a second for that.
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
		name, first := s.names.of(o.Domain)
		if first {
			s.logger.Warn("no file has the domain of a request: it is not limited", "domain", o.Domain[:min(len(o.Domain), maxNameBytes)])
		}
		s.limits.NewCounter(name + ".domain_not_found").Add(uint64(len(o.Asks)))
		return
	}
	for i := range o.Answer.Statuses {
		status := &o.Answer.Statuses[i]
		if rule := status.Rule; rule != nil && rule.NamedByRequest {
			name, _ := s.names.of(rule.StatsName(o.Asks[i].Descriptor))
			for suffix, n := range each(status.Counts) {
				if n > 0 {
					s.limits.NewCounter(name + suffix).Add(n)
				}
			}
		}
	}
}

// each yields counts by the end of their name.
func each(c rules.Counts) func(yield func(string, uint64) bool) {
	return func(yield func(string, uint64) bool) {
		_ = yield(".total_hits", c.Total) && yield(".within_limit", c.Within) && yield(".near_limit", c.Near) &&
			yield(".over_limit", c.Over) && yield(".shadow_mode", c.Shadow)
	}
}

// GenerateStats implements [stats.StatGenerator]: it is called before each flush.
func (s *statistics) GenerateStats() {
	for _, rule := range s.rules.All() {
		if !rule.NamedByRequest && !rule.Unlimited {
			for suffix, n := range each(rule.Counts()) {
				s.add(s.limits, sanitize(rule.String())+suffix, n)
			}
		}
	}
	for _, rule := range s.rules.Counting() {
		if rule.Override {
			for suffix, n := range each(rule.Counts()) {
				s.add(s.limits, rule.String()+suffix, n)
			}
		}
	}
	s.add(s.own, "config_load_success", s.loader.successes.Load())
	s.add(s.own, "config_load_error", s.loader.failures.Load())
	service := s.service.Stats()
	s.add(s.own, "global_shadow_mode", service.Shadowed)
	s.add(s.own, "negative_hits", service.NegativeHits)
	s.add(s.own, "call.should_rate_limit.service_error", service.ServiceErrors)
}

// add adds what a counter has more than when it was told last. One that has less has begun anew.
func (s *statistics) add(scope stats.Scope, name string, now uint64) {
	before := s.last[name]
	if now < before {
		before = 0
	}
	s.last[name] = now
	scope.NewCounter(name).Add(now - before)
}

var ipv4 = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// sanitize replaces what has a meaning in statsd, and the dots of addresses.
func sanitize(name string) string {
	name = strings.NewReplacer(":", "_", "|", "_", "\n", "_", "\r", "_").Replace(name)
	return ipv4.ReplaceAllStringFunc(name, func(address string) string { return strings.ReplaceAll(address, ".", "_") })
}

// These bound the names that requests can choose: each takes memory here and a time series elsewhere.
const (
	maxNames     = 10_000
	maxNameBytes = 250
)

// tooMany is told in place of names beyond that.
const tooMany = "other"

// names are those that requests have chosen, with what statsd can be told in their place.
type names struct {
	mu   sync.Mutex
	seen map[string]string
}

// of returns a name for statsd, and whether it is there for the first time; tooMany if there are too many, or it is too long.
func (n *names) of(name string) (sanitized string, first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sanitized, ok := n.seen[name]; ok {
		return sanitized, false
	}
	if len(n.seen) >= maxNames || len(name) > maxNameBytes {
		name = tooMany
	}
	if n.seen == nil {
		n.seen = map[string]string{}
	}
	_, known := n.seen[name]
	sanitized = sanitize(name)
	n.seen[name] = sanitized
	return sanitized, !known
}
