package envoylimit

import (
	"errors"
	"fmt"
	"math"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/sketchlimit/sketchlimit/rules"
)

// The texts are those of envoyproxy/ratelimit: people search their logs for them.
var (
	errNoDomain      = errors.New("rate limit domain must not be empty")
	errNoDescriptors = errors.New("rate limit descriptor list must not be empty")
	errNotLoaded     = errors.New("no rate limit configuration loaded")
)

// MaxDescriptors is the most descriptors that a request may have. A thousand take 2 ms;
// as many as a message holds took seconds.
const MaxDescriptors = 1000

// question is what a request asks of the rules, and of how many descriptors negative
// hits are ignored.
type question struct {
	asks     []rules.Ask
	negative uint64
}

// describe returns what a request asks of the rules. Hits are those of the descriptor
// or, if it has none, of the request, where 0 is 1. Units cannot be given back to a
// sketch: negative hits only look.
func describe(request *ratelimitv3.RateLimitRequest) (q question, err error) {
	switch {
	case request.GetDomain() == "":
		return q, errNoDomain
	case len(request.Descriptors) == 0:
		return q, errNoDescriptors
	case len(request.Descriptors) > MaxDescriptors:
		return q, fmt.Errorf("rate limit request has %d descriptors, must be at most %d", len(request.Descriptors), MaxDescriptors)
	}
	q.asks = make([]rules.Ask, len(request.Descriptors))
	for i, d := range request.Descriptors {
		hits := uint64(max(1, request.HitsAddend))
		if own := d.GetHitsAddend(); own != nil {
			hits = own.Value
		}
		if d.GetIsNegativeHits() && hits > 0 {
			hits = 0
			q.negative++
		}
		ask := &q.asks[i]
		ask.Descriptor, ask.N = entries(d), int(min(hits, math.MaxInt))
		if d.GetLimit() != nil {
			if ask.Override, err = override(i, d.Limit); err != nil {
				return q, err
			}
		}
	}
	return q, nil
}

func entries(d *commonv3.RateLimitDescriptor) rules.Descriptor {
	all := make(rules.Descriptor, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		all[i] = rules.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return all
}

// windows are the units that limits of requests may have.
var windows = map[typev3.RateLimitUnit]time.Duration{
	typev3.RateLimitUnit_SECOND: time.Second, typev3.RateLimitUnit_MINUTE: time.Minute, typev3.RateLimitUnit_HOUR: time.Hour,
	typev3.RateLimitUnit_DAY: 24 * time.Hour, typev3.RateLimitUnit_MONTH: 30 * 24 * time.Hour, typev3.RateLimitUnit_YEAR: 365 * 24 * time.Hour,
}

// override returns the limit that comes with the i-th descriptor. Its unit_multiplier
// is ignored, as in envoyproxy/ratelimit.
func override(i int, l *commonv3.RateLimitDescriptor_RateLimitOverride) (*rules.Override, error) {
	window, ok := windows[l.Unit]
	if !ok {
		return nil, fmt.Errorf("rate limit override of descriptor %d has unit %v, must be SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", i, l.Unit)
	}
	return &rules.Override{Limit: int64(l.RequestsPerUnit), Window: window}, nil
}
