// Package overcapacity keeps when a limiter was over its capacity, and how many units
// it admitted meanwhile. It knows no shards and no keys: package engine tells it what
// they do.
package overcapacity

import (
	"sync/atomic"

	"github.com/sketchlimit/sketchlimit/internal/invariants"
)

// Episodes is what the engines of a limiter share that denies, over capacity, only keys
// that are proven over their limit. It is safe for concurrent use.
type Episodes struct {
	Rate   float64 // of false denials from which on a shard is over capacity
	Lowest int64   // limit that the rate of unseen keys is for
	Grow   func()  // makes the limiter larger, soon; nil if it does not grow. It must not wait

	full atomic.Bool // nothing larger can be had now

	mu       invariants.Mutex
	since    int64 // when the last episode began, unix ns
	last     int64 // latest generation of an episode, if there was any; of a bucket unix ns
	times    uint64
	units    uint64 // see Episode.Units: of shards whose episodes have ended
	ends     uint64 // how often units were added
	reported uint64 // units, the most: they never become fewer
}

// Episode is the last time that a limiter was over capacity.
type Episode struct {
	Active       bool
	Since, Exact int64 // when it began, and when a window has passed since it ended; unix ns
	Times        uint64
	Units        uint64 // that shards have admitted since they began, until a window after they ended: some may have been too many
}

// Saved is what a snapshot holds of Episodes.
type Saved struct {
	Since, Last  int64
	Times, Units uint64
}

// Rank gives the lock its place in the order of locks, for the limiter with a number.
func (s *Episodes) Rank(limiter uint64) {
	invariants.SetRank(&s.mu, invariants.Rank{Level: invariants.Overload, Limiter: limiter})
}

// SetFull says whether nothing larger can be had now.
func (s *Episodes) SetFull(full bool) { s.full.Store(full) }

// CanGrow reports whether the limiter may become larger.
func (s *Episodes) CanGrow() bool { return s.Grow != nil && !s.full.Load() }

// Begin notes that a shard is over capacity from a generation and a time on, whose
// counts are kept for so many generations.
func (s *Episodes) Begin(generation, unix, kept int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times == 0 || generation > s.last+kept {
		s.times++
		s.since = unix
	}
	s.last = max(s.last, generation)
}

// GoOn notes that a shard is still over capacity in a generation.
func (s *Episodes) GoOn(generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, generation)
}

// End adds the units of a shard in which no generation counts any more of those that
// were over capacity.
func (s *Episodes) End(units uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(units)
}

// EndAll adds the units of all shards of an engine, and lets go of it: whoever asks for
// the [Episode] finds the units in one place.
func (s *Episodes) EndAll(units uint64, letGo func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(units)
	letGo()
}

func (s *Episodes) add(units uint64) { s.units, s.ends = s.units+units, s.ends+1 }

// mostEnds bounds how often the shards are counted anew because some have ended
// meanwhile: once a window each does. If that is not enough, some units count twice
// until as many have come.
const mostEnds = 100

// Last returns the last episode. active tells what shards do now: whether one is over
// capacity, and the units of all that have not ended. It is called without the lock.
// exact returns when decisions are exact again after a generation, unix ns.
func (s *Episodes) Last(active func() (on bool, units uint64), exact func(generation int64) int64) (t Episode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range mostEnds {
		ends := s.ends
		s.mu.Unlock()
		t.Active, t.Units = active()
		s.mu.Lock()
		if s.ends == ends { // or else units were moved to s.units meanwhile, and are in both
			break
		}
	}
	s.reported = max(s.reported, t.Units+s.units)
	t.Times, t.Since, t.Units = s.times, s.since, s.reported
	if s.times > 0 {
		t.Exact = exact(s.last)
	}
	return t
}

// Evict notes that a bucket has given away an entry at a unix time, with units that had
// not flowed. An episode ends when none was given away in the time in which a bucket
// fills, all in ns.
func (s *Episodes) Evict(at, fills int64, units uint64) {
	s.mu.Lock()
	if s.times == 0 || at > s.last+fills {
		s.times++
		s.since = at
	}
	s.last = max(s.last, at)
	s.units += units
	s.mu.Unlock()
	if s.CanGrow() {
		s.Grow()
	}
}

// LastEvicted is Last for buckets, at a unix time. A debt takes as long to flow as a
// bucket does to fill.
func (s *Episodes) LastEvicted(now, fills int64) Episode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Episode{Active: s.times > 0 && now <= s.last+fills, Times: s.times, Since: s.since, Units: s.units, Exact: s.last + 2*fills}
}

// Save returns what a snapshot is to hold; nothing of a nil *Episodes.
func (s *Episodes) Save() Saved {
	if s == nil {
		return Saved{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Saved{s.since, s.last, s.times, s.units}
}

// Restore makes an episode that was saved the last one.
func (s *Episodes) Restore(held Saved) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.last, s.times, s.units, s.reported = held.Since, held.Last, held.Times, held.Units, 0
}
