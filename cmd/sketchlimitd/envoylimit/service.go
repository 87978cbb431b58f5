package envoylimit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sketchlimit/sketchlimit/rules"
)

// Service answers ShouldRateLimit by rules. It is safe for concurrent use.
type Service struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	rules *rules.Rules
	clock func() time.Time
	options
	stats struct{ serviceErrors, shadowed, negativeHits atomic.Uint64 }
}

// New returns a service over rules, which may change at any time.
func New(limits *rules.Rules, opts ...Option) (*Service, error) {
	if limits == nil {
		return nil, errors.New("envoylimit: rules nil, must be some")
	}
	s := &Service{rules: limits, clock: time.Now}
	for i, option := range opts {
		if option == nil {
			return nil, fmt.Errorf("envoylimit: option %d nil, must be one", i)
		}
		if err := option(&s.options); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Stats is what a service has done beside limiting; rules have statistics of their own.
type Stats struct {
	ServiceErrors uint64 // requests that made no sense, and were answered by an error
	Shadowed      uint64 // requests that only Shadow let pass
	NegativeHits  uint64 // descriptors with negative hits, which are ignored
}

// Stats returns the counts since the service was made.
func (s *Service) Stats() Stats {
	return Stats{s.stats.serviceErrors.Load(), s.stats.shadowed.Load(), s.stats.negativeHits.Load()}
}

// Observation is a request that was answered.
type Observation struct {
	Domain string
	Asks   []rules.Ask // what it asked of the rules, one for each descriptor
	Answer rules.Answer
}

// ShouldRateLimit implements [ratelimitv3.RateLimitServiceServer]. Its errors are about
// requests that make no sense. They have the code Unknown, as those of
// envoyproxy/ratelimit.
func (s *Service) ShouldRateLimit(_ context.Context, request *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	q, err := describe(request)
	if err == nil && s.loaded != nil && !s.loaded() {
		err = errNotLoaded
	}
	if err != nil {
		s.stats.serviceErrors.Add(1)
		return nil, err
	}
	if q.negative > 0 {
		s.stats.negativeHits.Add(q.negative)
	}
	o := Observation{request.Domain, q.asks, s.rules.Do(request.Domain, q.asks...)}
	for _, observe := range s.observers {
		observe(&o)
	}
	return s.respond(request, &o.Answer), nil
}
