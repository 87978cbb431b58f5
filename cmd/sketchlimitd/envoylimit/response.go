package envoylimit

import (
	"math"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

type (
	response = ratelimitv3.RateLimitResponse
	status   = ratelimitv3.RateLimitResponse_DescriptorStatus
	limit    = ratelimitv3.RateLimitResponse_RateLimit
)

const (
	ok        = ratelimitv3.RateLimitResponse_OK
	overLimit = ratelimitv3.RateLimitResponse_OVER_LIMIT
)

// respond turns what the rules say into a response.
func (s *Service) respond(request *ratelimitv3.RateLimitRequest, answer *rules.Answer) *response {
	now := s.clock()
	r := &response{OverallCode: ok, Statuses: make([]*status, len(answer.Statuses))}
	switch {
	case answer.Admitted:
	case s.shadow:
		s.stats.shadowed.Add(1)
	default:
		r.OverallCode = overLimit
	}
	for i := range answer.Statuses {
		own := request.Descriptors[i].GetLimit()
		if !answer.Known {
			own = nil // it works in known domains only
		}
		r.Statuses[i] = describeStatus(&answer.Statuses[i], own, now)
	}
	s.addHeaders(r, answer)
	if s.dynamicMetadata {
		r.DynamicMetadata = dynamicMetadata(request, r, answer)
	}
	return r
}

// describeStatus returns the status of one descriptor, which may have a limit of its own.
func describeStatus(from *rules.Status, own *commonv3.RateLimitDescriptor_RateLimitOverride, now time.Time) *status {
	switch rule := from.Rule; {
	case own != nil:
		to := counted(&from.Decision, false)
		to.CurrentLimit = &limit{RequestsPerUnit: own.RequestsPerUnit, Unit: ratelimitv3.RateLimitResponse_RateLimit_Unit(own.Unit)}
		to.DurationUntilReset = seconds(untilWindowEnds(windows[own.Unit], now))
		if from.Rule != nil && from.Rule.Months {
			to.DurationUntilReset = seconds(from.Rule.UntilReset(now))
		}
		return to
	case rule == nil:
		return &status{Code: ok}
	case rule.Unlimited:
		return &status{Code: ok, LimitRemaining: math.MaxUint32}
	default:
		to := counted(&from.Decision, rule.Shadow || from.Charged)
		to.CurrentLimit = currentLimit(rule)
		to.DurationUntilReset = seconds(untilReset(rule, &from.Decision, now))
		return to
	}
}

// counted returns the status of what a counter says, which may pass whatever that is.
func counted(d *sketchlimit.Decision, passes bool) *status {
	switch {
	case d.Allowed:
		return &status{Code: ok, LimitRemaining: clamp(d.Remaining)}
	case passes:
		return &status{Code: ok}
	default:
		return &status{Code: overLimit}
	}
}

func clamp(n int) uint32 { return uint32(min(uint64(n), math.MaxUint32)) }

// units are those that the protocol has a name for, the longest first.
var units = []struct {
	length time.Duration
	name   ratelimitv3.RateLimitResponse_RateLimit_Unit
}{
	{365 * 24 * time.Hour, ratelimitv3.RateLimitResponse_RateLimit_YEAR},
	{30 * 24 * time.Hour, ratelimitv3.RateLimitResponse_RateLimit_MONTH},
	{7 * 24 * time.Hour, ratelimitv3.RateLimitResponse_RateLimit_WEEK},
	{24 * time.Hour, ratelimitv3.RateLimitResponse_RateLimit_DAY},
	{time.Hour, ratelimitv3.RateLimitResponse_RateLimit_HOUR},
	{time.Minute, ratelimitv3.RateLimitResponse_RateLimit_MINUTE},
	{time.Second, ratelimitv3.RateLimitResponse_RateLimit_SECOND},
}

// Unit returns the longest unit that a window is a whole number of, and that number. It
// is UNKNOWN and 0 for a window that is no whole number of seconds.
func Unit(window time.Duration) (unit ratelimitv3.RateLimitResponse_RateLimit_Unit, times int64) {
	for _, u := range units {
		if window > 0 && window%u.length == 0 {
			return u.name, int64(window / u.length)
		}
	}
	return ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN, 0
}

func currentLimit(rule *rules.Rule) *limit {
	l := &limit{Name: rule.Name, RequestsPerUnit: clamp(rule.Limit)}
	var times int64
	switch l.Unit, times = Unit(rule.Window); {
	case rule.Months:
		l.Unit = ratelimitv3.RateLimitResponse_RateLimit_MONTH
	case times > 1:
		l.UnitMultiplier = wrapperspb.UInt32(uint32(min(times, math.MaxUint32)))
	}
	return l
}

// untilReset is the time until the window ends, or until the key has its whole quota
// again where windows have no end.
func untilReset(rule *rules.Rule, d *sketchlimit.Decision, now time.Time) time.Duration {
	if rule.Algorithm == sketchlimit.FixedWindow {
		return rule.UntilReset(now)
	}
	return d.ResetAfter
}

func untilWindowEnds(window time.Duration, now time.Time) time.Duration {
	return window - time.Duration(now.UnixNano()%int64(window))
}

// seconds is in whole seconds, rounded up: whoever waits so long does not come too early.
func seconds(d time.Duration) *durationpb.Duration {
	return &durationpb.Duration{Seconds: int64((d + time.Second - 1) / time.Second)}
}
