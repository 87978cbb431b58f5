package main

import (
	"math/rand/v2"
	"slices"

	"github.com/sketchlimit/sketchlimit"
)

// drawSpare chooses limiters, asked together or one that may grow, of which at least
// one spares keys beyond its plan, which is at once: they are so small.
func (s *setup) drawSpare(r *rand.Rand) {
	kind, spares := s.kind, false
	for !spares {
		s.kind = []string{"fixed", "sliding", "group", "storm", "grow"}[r.IntN(5)]
		s.configs, s.group, s.shared = nil, false, false
		s.drawConfigs(r)
		for i := range s.configs {
			if c := &s.configs[i]; canSpare(c) && !s.shared && r.IntN(4) > 0 {
				c.Overload, spares = sketchlimit.DenyProven, true
			}
		}
	}
	s.kind = kind
}

func canSpare(c *sketchlimit.Config) bool {
	return c.Algorithm != sketchlimit.TokenBucket && c.SubWindows < 2 && c.Limit > 1 && c.Limit < 1<<14 &&
		(c.Plan == nil || c.Plan.HeavyEntries > 0)
}

// spares reports whether the limiter says that it may have admitted too much at a time.
func (n *node) spares(t int64) bool {
	return n.config.Overload == sketchlimit.DenyProven && n.sparesIn(n.limiter.Stats().OverCapacity, t)
}

// sparesIn reports the same of a limiter like this one, by its Stats.
func (n *node) sparesIn(s sketchlimit.OverCapacity, t int64) bool {
	generation, elapsed := n.oracle.position(t)
	return s.Active || s.Times > 0 && generation*n.oracle.length+elapsed < s.Exact.UnixNano()
}

// wouldSpare reports whether a limiter like this one may tell a Peek what it would
// admit once it spares keys: it does, or its cells are full enough for a look to find
// that it is time.
func (n *node) wouldSpare(s sketchlimit.Stats, t int64) bool {
	const least = 1e-7 // a thousandth of the rate from which on keys are spared
	return n.config.Overload == sketchlimit.DenyProven &&
		(n.sparesIn(s.OverCapacity, t) || s.FalseDenialRate > least)
}

// anySpares reports whether a limiter may spare keys. A turn may then forget a key, so
// that it gets more than a look before told; and one of a group that would spare a key
// has not begun to, if another one denies.
func (w *world) anySpares() bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool { return n.config.Overload == sketchlimit.DenyProven })
}

// free returns the units that a key may have at a time: what the exact algorithm has
// left, or where the limiter says that it spares keys, all of the limit.
func (n *node) free(t int64, key int, limit int64) int64 {
	free, most := n.oracle.free(t, key, limit), n.oracle.most(limit)
	if free < most && n.spares(t) {
		return most
	}
	return free
}

// charge grants the units of an operation, and judges whether a limiter over capacity
// keys accounts for what they have above the limit: the most that each key ever had.
func (w *world) charge(o op, limit int64) {
	n := w.nodes[o.node]
	n.oracle.charge(o.at, o.key, int64(o.n), limit)
	over := -n.oracle.free(max(o.at, n.seen), o.key, int64(n.config.Limit)) // when units weigh least
	if over <= n.above[o.key] {
		return
	}
	n.allAbove += over - n.above[o.key]
	n.above[o.key] = over
	if spared := n.limiter.Stats().OverCapacity.Units; n.config.Overload == sketchlimit.DenyProven && uint64(n.allAbove) > spared {
		w.fail("unaccounted", o, "keys have %d units above the limit, OverCapacity.Units %d", n.allAbove, spared)
	}
}
