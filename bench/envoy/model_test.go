package main

import (
	"math"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// model is an exact service. It knows the rules of a file and the counters that
// requests have met.
type model struct {
	manner
	file          *file
	counts        map[string]uint64
	shadow, quota bool // all rules, by settings
}

// hit is what a descriptor of a request takes from a counter, and what it is told.
type hit struct {
	limit         *rls.RateLimitResponse_RateLimit // nil: nothing is counted
	counter       string
	n             uint64 // 0 only looks
	shadow, quota bool

	over      bool
	remaining uint32 // if it is not over
}

func (h *hit) exceeds(count uint64) bool { return count > uint64(h.limit.RequestsPerUnit) }

// tell decides by the count after the hit.
func (h *hit) tell(count uint64) {
	if h.over = h.exceeds(count); !h.over {
		h.remaining = uint32(uint64(h.limit.RequestsPerUnit) - count)
	}
}

// expect returns the answer to a request, without headers, and the status that these
// tell of, or nil. Which rules its descriptors meet it takes from the statuses of
// another answer.
func (m *model) expect(request *rls.RateLimitRequest, met []*rls.RateLimitResponse_DescriptorStatus) (*rls.RateLimitResponse, *rls.RateLimitResponse_DescriptorStatus) {
	all := make([]hit, len(request.Descriptors))
	var counted []*hit
	for i, d := range request.Descriptors {
		if met[i].CurrentLimit != nil {
			all[i] = m.hit(request, d, met[i].CurrentLimit)
			counted = append(counted, &all[i])
		} else {
			all[i].quota = m.quota
		}
	}
	m.count(m, all, counted)
	answer := &rls.RateLimitResponse{OverallCode: ok}
	if m.refused(all) && !m.shadow {
		answer.OverallCode = over
	}
	var told *rls.RateLimitResponse_DescriptorStatus
	refused := false // by what is told
	for i := range all {
		h, s := &all[i], m.status(&all[i], met[i].LimitRemaining == math.MaxUint32)
		answer.Statuses = append(answer.Statuses, s)
		switch refuses := h.over && !h.shadow && !h.quota; {
		case h.limit == nil:
		case refuses, told == nil, !refused && s.LimitRemaining < told.LimitRemaining:
			told, refused = s, refused || refuses
		}
	}
	return answer, told
}

// hit says what a descriptor takes from the counter of the limit that it meets, or
// brings.
func (m *model) hit(request *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor, met *rls.RateLimitResponse_RateLimit) hit {
	h := hit{limit: proto.CloneOf(met), n: uint64(max(1, request.HitsAddend)), quota: m.quota}
	if d.HitsAddend != nil {
		h.n = d.HitsAddend.Value
	}
	rule := m.file.rules[met.Name]
	if rule != nil {
		h.shadow, h.quota = rule.shadow, h.quota || rule.quota
		h.limit.RequestsPerUnit = min(h.limit.RequestsPerUnit, m.highest)
	}
	path := make([]string, len(d.Entries))
	for i := len(path) - 1; i >= 0; i-- {
		path[i] = d.Entries[i].Key + "=" + d.Entries[i].Value
		if rule != nil {
			if rule.shared {
				path[i] = d.Entries[i].Key + "=" + rule.value
			}
			rule = rule.parent
		}
	}
	h.counter = strings.Join(path, ",") + " " + met.Unit.String()
	return h
}

// refused reports whether a request is refused for what its descriptors are told.
func (m *model) refused(all []hit) bool {
	quotas, quotasOver := 0, 0
	for _, h := range all {
		refuses := h.over && !h.shadow
		switch {
		case h.quota:
			quotas++
			if refuses {
				quotasOver++
			}
		case refuses:
			return true
		}
	}
	return m.quotasRefuse && quotas > 0 && quotas == quotasOver
}

func (m *model) status(h *hit, unlimited bool) *rls.RateLimitResponse_DescriptorStatus {
	s := &rls.RateLimitResponse_DescriptorStatus{Code: ok, CurrentLimit: h.limit, LimitRemaining: h.remaining}
	refuses := h.over && !h.shadow
	if unlimited {
		s.LimitRemaining = math.MaxUint32
	}
	if refuses && (!h.quota || m.quotasRefuse) {
		s.Code = over
	}
	if h.limit != nil && (!refuses || s.Code == over) {
		s.DurationUntilReset = &durationpb.Duration{}
	}
	return s
}
