package exact

import "time"

// GCRA is the generic cell rate algorithm in its virtual scheduling form. A key's
// theoretical arrival time (TAT) is when its next unit would be due if units came
// evenly, one every T = window/limit. With τ = burst×T, n units are admitted at t if
//
//	max(TAT, t) + n×T ≤ t + τ
//
// and the left side is then the new TAT. Its burst is the I.371 tolerance plus one
// unit: a burst of 1 admits only what comes evenly.
//
// It answers as [TokenBucket] and [LeakyMeter] do in every field; bounds and time are
// the same. The TAT alone would do; the last time is kept beside it only so that a
// clock that steps back is treated as the buckets treat it. Memory: 24 bytes a key
// and the map around them.
//
// Source: ITU-T Recommendation I.371, Annex A.
type GCRA struct {
	keyed[arrival]
	rate
	tau instant
}

// instant is a time, or a span of time, of ns + frac/flow nanoseconds, 0 ≤ frac < flow.
type instant struct{ ns, frac int64 }

type arrival struct {
	tat  instant
	last int64
}

// NewGCRA returns a limiter of limit units, 1 … 1<<31-1, per window, 1ns … 1<<61ns,
// and burst, 1 … 1<<31-1, at once, for every key. It refuses a burst that, counted
// in whole fractions of a unit, is beyond 1<<61.
func NewGCRA(limit int, window time.Duration, burst int) (*GCRA, error) {
	r, err := newRate(limit, window, burst)
	if err != nil {
		return nil, err
	}
	g := &GCRA{rate: r}
	g.tau = g.span(r.burst)
	g.init(g, burst, 0, arrival{tat: instant{ns: -maxTime}, last: -maxTime})
	return g, nil
}

// ReserveAt puts n units into the key's queue, which is GCRA read as a spacer: units go on
// one every T in the order they came, and burst is the most that the queue holds,
// including those that have gone on less than T ago. It returns how long the request has
// to wait for its turn, rounded up; 0 if nothing is before it. A request that would
// make the queue longer, or with n below 1, is refused (ok is false) and leaves no
// trace.
//
// What it admits is what TakeAt admits, and the two may be mixed. [LeakyQueue.EnqueueAt]
// tells instead when the last of the units has had its T, which is n×T later.
func (g *GCRA) ReserveAt(now time.Time, key string, n int) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.advance(now)
	d, lag := g.decide(t, key, n)
	if !d.Allowed {
		return 0, false
	}
	g.put(t, key, n)
	return told(d, t+lag, unixNano(now)).ResetAfter, true // the time until all that came before has gone
}

// at returns max(TAT, t), and the time that t is taken as.
func (g *GCRA) at(s arrival, t int64) (instant, int64) {
	if s.tat.ns < t {
		return instant{ns: t}, t
	}
	return s.tat, max(t, s.last)
}

func (g *GCRA) wait(s arrival, t, n int64) time.Duration {
	tat, t := g.at(s, t)
	conforms := g.add(g.sub(tat, g.tau), g.span(g.cost(n)))
	return max(0, until(conforms, t))
}

func (g *GCRA) left(s arrival, t int64) (int64, time.Duration) {
	tat, t := g.at(s, t)
	reset := until(tat, t)
	room := g.sub(g.add(instant{ns: t}, g.tau), tat)
	if room.ns < 0 {
		return 0, reset
	}
	return g.grains(room) / g.unit, reset
}

func (g *GCRA) spend(s arrival, t, n int64) arrival {
	tat, t := g.at(s, t)
	room := maxGrains - g.grains(g.sub(tat, instant{ns: t}))
	return arrival{g.add(tat, g.span(min(g.cost(n), room))), t}
}

func (g *GCRA) since(s arrival) int64 { return s.last }

// span is the time in which so many grains flow.
func (g *GCRA) span(grains int64) instant { return instant{grains / g.flow, grains % g.flow} }

func (g *GCRA) grains(a instant) int64 { return a.ns*g.flow + a.frac }

func (g *GCRA) add(a, b instant) instant {
	frac := a.frac + b.frac
	return instant{a.ns + b.ns + frac/g.flow, frac % g.flow}
}

func (g *GCRA) sub(a, b instant) instant {
	frac := a.frac - b.frac
	return instant{a.ns - b.ns - btoi(frac < 0), mod(frac, g.flow)}
}

// until returns the time from t to an instant, rounded up.
func until(a instant, t int64) time.Duration {
	return time.Duration(a.ns - t + btoi(a.frac > 0))
}
