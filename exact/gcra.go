package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

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
	keyed[exactmath.Arrival]
}

// NewGCRA returns a limiter of limit units, 1 … 1<<31-1, per window, 1ns … 1<<61ns,
// and burst, 1 … 1<<31-1, at once, for every key. It refuses a burst that, counted
// in whole fractions of a unit, is beyond 1<<61.
func NewGCRA(limit int, window time.Duration, burst int, options ...Option) (*GCRA, error) {
	if err := checkRate(limit, window, burst); err != nil {
		return nil, err
	}
	r, err := exactmath.NewGCRA(int64(limit), int64(window), int64(burst))
	if err != nil {
		return nil, err
	}
	g := new(GCRA)
	return orNil(g, g.init(&r, purpose{limit: limit, most: burst, window: window}, r.Initial(), options))
}

// ReserveAt puts n units into the key's queue, which is GCRA read as a spacer: units go
// on one every T in the order they came, and burst is the most that the queue holds,
// including those that have gone on less than T ago. It returns how long the request
// has to wait for its turn, rounded up; 0 if nothing is before it. A request that would
// make the queue longer, or with n below 1, is refused (ok is false) and leaves no
// trace.
//
// What it admits is what TakeAt admits, and the two may be mixed.
// [LeakyQueue.EnqueueAt] tells instead when the last of the units has had its T, which
// is n×T later.
func (g *GCRA) ReserveAt(now time.Time, key string, n int) (wait time.Duration, ok bool) {
	q := g.question(now, key, n)
	s := g.shard(q.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	b, i := s.find(q.hash, key)
	before := g.unseen
	if b != nil {
		before = b.entries[i].state
	}
	d, from := g.takeLocked(s, &q)
	if !d.Allowed {
		return 0, false
	}
	_, d.ResetAfter = g.quota(before, q.at, q.limit)
	return addLag(d, from, q.at).ResetAfter, true // the time until all that came before has gone
}
