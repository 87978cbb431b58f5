package budget

import "github.com/sketchlimit/sketchlimit"

// Stats is the state of a [Budget] at one time. Counts are since construction.
//
// No request or hold adds more units to Settled, Overdraft or Denied than the highest
// of its limits.
type Stats struct {
	Open int   // holds
	Held int64 // units

	Settled uint64 // units since construction, those of expired holds and charged ones included
	Expired uint64 // holds since construction that were not settled in time, and count in full
	// Overdraft is the units that were settled above what was held, or charged, and did
	// not fit: how far keys have gone beyond a limit. It includes units of other keys
	// that share cells with such a key.
	Overdraft uint64
	Denied    uint64 // units since construction
	// NoRoom is the units of Denied that fit the limits but not into Config.InFlight
	// holds. If it grows, InFlight is too small.
	NoRoom uint64

	// Limits are the Stats of each of Config.Limits, of settled units. FalseDenialRate
	// is that of requests that hold MeanCost units, with what their keys hold already.
	// Audit counts holds as requests, and settled units as units.
	Limits []sketchlimit.Stats
}

// Stats settles all expired holds and reads the whole Budget, see
// sketchlimit.Limiter.Stats. It locks one shard at a time.
func (b *Budget) Stats() (all Stats) {
	var now moment
	b.now(&now)
	for i := range b.shards {
		s, m := &b.shards[i], now
		s.mu.Lock()
		s.follow(b, &m)
		for b.expireOne(s, &m) {
		}
		all.Open += s.open
		all.Held += s.held
		all.Settled += s.settled
		all.Expired += s.expired
		all.Overdraft += s.overdraft
		all.Denied += s.denied
		all.NoRoom += s.noRoom
		s.mu.Unlock()
	}
	for i := range b.limits {
		all.Limits = append(all.Limits, b.limits[i].Limiter.Stats())
	}
	return all
}
