package rules

import (
	"math"
	"sync/atomic"
)

// Counts are units that requests have asked of a rule, by what it said, as
// envoyproxy/ratelimit counts them. A unit that is refused in part of a cost is counted
// by its place: those up to the limit as near, the rest as over. As there, a request
// counts all that it costs, above the limit as well; [sketchlimit.Stats] counts at most
// the limit.
type Counts struct {
	Total  uint64 // all
	Within uint64 // of requests that the rule admitted, also if another rule refused them
	Near   uint64 // above Options.NearLimitRatio of the limit, and not above the limit
	Over   uint64 // above the limit
	Shadow uint64 // the same, where the rule is in shadow mode
}

// tally is Counts of a rule, also after it has been read again.
type tally struct {
	total, within, near, over, shadow atomic.Uint64
	dropped                           atomic.Uint64 // see Rule.Dropped
}

// add adds the counts of a request. Most have no unit near the limit, or above.
func (t *tally) add(c *Counts) {
	t.total.Add(c.Total)
	if c.Within > 0 {
		t.within.Add(c.Within)
	}
	if c.Near > 0 {
		t.near.Add(c.Near)
	}
	if c.Over > 0 {
		t.over.Add(c.Over)
	}
	if c.Shadow > 0 {
		t.shadow.Add(c.Shadow)
	}
}

// Counts returns what requests have asked of the rule since it was first read from a
// file.
func (r *Rule) Counts() Counts {
	t := r.tally
	if t == nil { // of Check
		return Counts{}
	}
	return Counts{t.total.Load(), t.within.Load(), t.near.Load(), t.over.Load(), t.shadow.Load()}
}

// Dropped returns how often counts of the rule were let go while they mattered, since
// it was first read from a file: its window or algorithm has changed, or its limit or
// size, and there was no memory to keep the former counts. Each time, keys may have got
// a fresh quota.
func (r *Rule) Dropped() uint64 {
	if r.tally == nil { // of Check
		return 0
	}
	return r.tally.dropped.Load()
}

// count counts the units of the i-th question, before which so many were free at its
// counter.
func (c *counters) count(i, free int) {
	s, n := &c.statuses[i], c.questions[i].n
	if s.Rule == nil || s.Rule.Unlimited || n < 1 {
		return
	}
	limit := s.Limit
	if s.Rule.Burst > 0 {
		limit = s.Rule.Burst
	}
	s.Counts = split(uint64(n), uint64(max(limit-free, 0)), uint64(limit), near(limit, c.options.NearLimitRatio), s.Allowed)
	if s.Rule.Shadow {
		s.Counts.Shadow = s.Counts.Over
	}
	s.Rule.tally.add(&s.Counts)
}

// near returns the units from which on a counter is near its limit, with the rounding
// of envoyproxy/ratelimit.
func near(limit int, ratio float32) uint64 {
	return uint64(math.Floor(float64(float32(uint32(limit)) * ratio)))
}

// split counts n units, of which the first comes when so many are in use.
func split(n, used, limit, near uint64, allowed bool) Counts {
	c := Counts{Total: n}
	switch after := used + n; {
	case allowed:
		c.Within = n
		if after > near {
			c.Near = min(n, after-near)
		}
	case used >= limit:
		c.Over = n
	case after > limit:
		c.Over, c.Near = after-limit, limit-max(near, used)
	}
	return c
}
