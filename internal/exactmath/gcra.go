package exactmath

import "time"

// GCRA is the generic cell rate algorithm. With T = window/limit and τ = burst×T, it
// admits n units at t if max(TAT, t) + n×T ≤ t + τ, and the left side is the new TAT.
type GCRA struct {
	rate
	tau Instant
}

// Instant is a time, or a span of time, of NS + Frac/flow nanoseconds, 0 ≤ Frac < flow.
// The flow is the rule's: the grains that flow in a nanosecond.
type Instant struct{ NS, Frac int64 }

// Arrival is when a key's next unit would be due, and when its last one came.
type Arrival struct {
	TAT  Instant
	Last int64
}

// NewGCRA returns the rule of limit units per window and burst at once. It refuses a
// burst of more than 1<<61 grains.
func NewGCRA(limit, window, burst int64) (GCRA, error) {
	r, err := newRate(limit, window, burst)
	if err != nil {
		return GCRA{}, err
	}
	g := GCRA{rate: r}
	g.tau = g.span(r.burst)
	return g, nil
}

// Initial returns the state of a key never seen.
func (g *GCRA) Initial() Arrival { return Arrival{TAT: Instant{NS: -MaxTime}, Last: -MaxTime} }

// at returns max(TAT, t), and the time that t is taken as.
func (g *GCRA) at(s Arrival, t int64) (Instant, int64) {
	if s.TAT.NS < t {
		return Instant{NS: t}, t
	}
	return s.TAT, max(t, s.Last)
}

// Wait implements [Rule].
func (g *GCRA) Wait(s Arrival, t, n int64) time.Duration {
	tat, t := g.at(s, t)
	conforms := g.add(g.sub(tat, g.tau), g.span(g.cost(n)))
	return max(0, until(conforms, t))
}

// Left implements [Rule].
func (g *GCRA) Left(s Arrival, t int64) (int64, time.Duration) {
	tat, t := g.at(s, t)
	reset := until(tat, t)
	room := g.sub(g.add(Instant{NS: t}, g.tau), tat)
	if room.NS < 0 {
		return 0, reset
	}
	return g.grains(room) / g.unit, reset
}

// Spend implements [Rule].
func (g *GCRA) Spend(s Arrival, t, n int64) Arrival { return g.Pour(s, t, g.cost(n)) }

// Since implements [Rule].
func (g *GCRA) Since(s Arrival) int64 { return s.Last }

// Unit returns the grains of a unit.
func (g *GCRA) Unit() int64 { return g.unit }

// Burst returns the grains of a full bucket.
func (g *GCRA) Burst() int64 { return g.burst }

// Ahead returns the grains that flow from t to the TAT, 0 if it has passed: those in
// use. A key above its limit has more than Burst.
func (g *GCRA) Ahead(s Arrival, t int64) int64 {
	tat, t := g.at(s, t)
	return g.grains(g.sub(tat, Instant{NS: t}))
}

// Flowed returns the grains that flow between two times, from ≤ to, at most 1<<61.
func (g *GCRA) Flowed(from, to int64) int64 { return g.flowed(from, to) }

// Pour returns the state after so many grains more at t, 0 or more, admitted or not. No
// more than 1<<61 are ever in use.
func (g *GCRA) Pour(s Arrival, t, grains int64) Arrival {
	tat, t := g.at(s, t)
	room := maxGrains - g.grains(g.sub(tat, Instant{NS: t}))
	return Arrival{g.add(tat, g.span(min(grains, room))), t}
}

// span is the time in which so many grains flow.
func (g *GCRA) span(grains int64) Instant { return Instant{grains / g.flow, grains % g.flow} }

func (g *GCRA) grains(a Instant) int64 { return a.NS*g.flow + a.Frac }

func (g *GCRA) add(a, b Instant) Instant {
	frac := a.Frac + b.Frac
	return Instant{a.NS + b.NS + frac/g.flow, frac % g.flow}
}

func (g *GCRA) sub(a, b Instant) Instant {
	frac := a.Frac - b.Frac
	return Instant{a.NS - b.NS - btoi(frac < 0), mod(frac, g.flow)}
}

// until returns the time from t to an instant, rounded up.
func until(a Instant, t int64) time.Duration {
	return time.Duration(a.NS - t + btoi(a.Frac > 0))
}
