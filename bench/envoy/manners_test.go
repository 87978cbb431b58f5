package main

import (
	"cmp"
	"maps"
)

// manner is what a service does in its own way. All else the services must do alike.
type manner struct {
	count counting
	// quotasRefuse is what the reference does after its version of January 2026: a
	// request is refused if it meets quotas and all of them are over. The status of a
	// quota that is over then says so; before, it said OK, and not when the limit is
	// reset.
	quotasRefuse bool
	// highest is the highest limit that a rule can have. Ours takes higher ones as that.
	highest uint32
}

// counting counts the hits of a request, and sets the limits and counts that it is
// answered. all has every descriptor's.
type counting func(m *model, all []hit, counted []*hit)

// countAll is the reference's way: each descriptor counts, whatever becomes of the
// request.
func countAll(m *model, _ []hit, counted []*hit) {
	for _, h := range counted {
		m.counts[h.counter] += h.n
		h.tell(m.counts[h.counter])
	}
}

// countUntilOver is the reference's way with
// STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true: if there are descriptors that are to go
// over their limits, those alone count.
func countUntilOver(m *model, _ []hit, counted []*hit) {
	goesOver, any := make([]bool, len(counted)), false
	for i, h := range counted {
		goesOver[i] = h.exceeds(m.counts[h.counter] + h.n)
		any = any || goesOver[i]
	}
	for i, h := range counted {
		if goesOver[i] || !any {
			m.counts[h.counter] += h.n
		}
		h.tell(m.counts[h.counter])
	}
}

// countUpToLimits is our way with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=false: a
// counter that refuses is full from then on. A descriptor that looks (0 hits) is told
// what one hit would be told.
func countUpToLimits(m *model, _ []hit, counted []*hit) {
	for _, h := range counted {
		switch before := m.counts[h.counter]; {
		case h.n == 0 && h.exceeds(before+1):
			h.over = true
		case h.exceeds(before + h.n):
			h.over, m.counts[h.counter] = true, max(before, uint64(h.limit.RequestsPerUnit)) // not all have one limit
		default:
			m.counts[h.counter] += h.n
			h.tell(m.counts[h.counter])
		}
	}
}

// countTogether is our way: a request that is refused counts nowhere. Descriptors that
// meet one counter are told what the sum of their hits is told by the lowest of their
// limits. Rules in shadow mode, and quotas that are over while others are not, do not
// refuse, and alone do not count. A descriptor that looks (0 hits) is told what one hit
// would be told.
func countTogether(m *model, all []hit, counted []*hit) {
	sums, lowest := map[string]uint64{}, map[string]uint64{}
	for _, h := range counted {
		if limit := uint64(h.limit.RequestsPerUnit); h.n > 0 && limit > 0 {
			sums[h.counter] += h.n
			lowest[h.counter] = min(limit, cmp.Or(lowest[h.counter], limit))
		}
	}
	for _, h := range counted {
		switch count := m.counts[h.counter]; {
		case h.shadow:
		case h.n == 0 || h.limit.RequestsPerUnit == 0:
			h.over = h.exceeds(count + 1)
		default:
			h.over = count+sums[h.counter] > lowest[h.counter]
		}
	}
	before, admitted := maps.Clone(m.counts), !m.refused(all)
	for _, h := range counted {
		switch {
		case h.shadow:
			m.countShadow(h, admitted)
		case h.over:
		case h.n == 0:
			h.tell(before[h.counter])
		default:
			if admitted {
				m.counts[h.counter] = before[h.counter] + sums[h.counter]
			}
			h.remaining = uint32(lowest[h.counter] - m.counts[h.counter])
		}
	}
}

// countShadow counts a hit of a rule in shadow mode, which is asked by itself.
func (m *model) countShadow(h *hit, admitted bool) {
	count := m.counts[h.counter]
	switch {
	case h.exceeds(count + max(1, h.n)):
		h.over = true
	case admitted:
		m.counts[h.counter] += h.n
		h.tell(m.counts[h.counter])
	default:
		h.tell(count)
	}
}
