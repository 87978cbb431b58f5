package tune

import (
	"math"
	"time"
)

// role is what a key sends.
type role struct {
	rate float64 // requests in a generation, their mean unless they are sampled
	late bool    // it is silent until the window that is judged
}

// cast gives the keys their roles.
func (s *simulation) cast(t *Traffic, limit int, share float64) {
	sending := float64(s.parts) // generations of a window in which something comes
	if s.bursts {
		sending = 1
	}
	s.oneHit = t.OneHit * t.requests(limit) * share / sending
	rates, abusers := t.rates(limit, len(s.keys), s.random)
	for i, rate := range rates {
		late := t.Late && i < abusers && !s.IsBucket()
		s.roles = append(s.roles, role{rate / sending, late})
		s.keys[i].role, s.keys[i].closest.slack = s.roles[i], math.MaxInt64
		if s.sampled {
			s.keys[i].phase = s.random.Float64()
		}
	}
}

// recast gives the keys of a window other roles than those of the window before, if
// heavy keys change.
func (s *simulation) recast(window int) {
	if s.steady {
		return
	}
	n := len(s.keys)
	for i := range s.keys {
		s.keys[i].role = s.roles[(i+window*(5*n/13))%n]
	}
}

// moment returns when a key has sent so much of its requests: in a fixed window, which
// begins with an empty table, late keys send them in the second half.
func (s *simulation) moment(k *simulatedKey, progress float64) float64 {
	if k.late && s.generations == 1 {
		return (1 + progress) / 2
	}
	return progress
}

// progress is the inverse of moment.
func (s *simulation) progress(k *simulatedKey, moment float64) float64 {
	if k.late && s.generations == 1 {
		return 2*moment - 1
	}
	return moment
}

// gathered returns how many requests the key of an event sends.
func (s *simulation) gathered(e event) int {
	k := &s.keys[e.key()]
	switch {
	case s.bursts:
		return k.requests
	case k.requests <= s.eventsOfKey:
		return 1
	}
	n := int(s.progress(k, e.moment())*float64(k.requests)) - k.sent
	k.sent += n
	return n
}

// burstPart is the part of a window in which bursts come: its beginning, when the
// window before counts in full.
const burstPart = 0.1

// elapsed returns the time of a moment: of a generation or, if there are bursts, of the
// part of it in which they come.
func (s *simulation) elapsed(moment float64) time.Duration {
	if s.bursts {
		moment *= min(1, burstPart*float64(s.parts))
	}
	return time.Duration(moment * float64(s.length))
}
