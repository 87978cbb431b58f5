package engine

import "github.com/sketchlimit/sketchlimit/rotating"

// Episode is the last time that keys were spared beyond the plan.
type Episode struct {
	Active       bool
	Since, Exact int64 // when it began, and when a window has passed since it ended; unix ns
	Times        uint64
	Units        uint64 // that shards have admitted since they began, until a window after they ended: some may have been too many
}

// Episode tells of the last time that keys were spared, at a position or later.
func (e *Engine) Episode(p rotating.Position) (t Episode) {
	s := e.spare
	if s == nil {
		return t
	}
	if e.Evicts() {
		return s.evicted(e.Timeline.UnixNano(p), e.Fills())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for range mostEnds {
		ends := s.ends
		s.mu.Unlock()
		t.Active, t.Units = sparedByAll(e, p)
		s.mu.Lock()
		if s.ends == ends { // or else units were moved to s.units meanwhile, and are in both
			break
		}
	}
	s.told = max(s.told, t.Units+s.units)
	t.Times, t.Since, t.Units = s.times, s.since, s.told
	if s.times > 0 {
		t.Exact = e.Timeline.UnixNano(rotating.Position{Generation: s.last + int64(e.Ring.Buffers())})
	}
	return t
}

// evict notes that a bucket has given away an entry at a unix time, with units that had not flowed. An episode ends when
// none was given away in the time in which a bucket fills.
func (s *Spare) evict(at, fills int64, units uint64) {
	s.mu.Lock()
	if s.times == 0 || at > s.last+fills {
		s.times++
		s.since = at
	}
	s.last = max(s.last, at)
	s.units += units
	s.mu.Unlock()
	if s.Grow != nil && !s.full.Load() {
		s.Grow()
	}
}

// evicted is Episode for a bucket, at a unix time. A debt takes as long to flow as a bucket does to fill.
func (s *Spare) evicted(now, fills int64) Episode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Episode{Active: s.times > 0 && now <= s.last+fills, Times: s.times, Since: s.since, Units: s.units, Exact: s.last + 2*fills}
}

// mostEnds bounds how often the shards are counted anew because some have ended meanwhile: once a window each does. If that
// is not enough, some units count twice until as many have come.
const mostEnds = 100

// sparedByAll is sparedUnits of an engine and its predecessor.
func sparedByAll(e *Engine, p rotating.Position) (on bool, units uint64) {
	for one := e; one != nil; one = one.before() {
		active, more := sparedUnits(one, p)
		on, units = on || active, units+more
	}
	return on, units
}

// sparedUnits reports whether a shard spares that a request would not find to have ended, at a position or later, and returns the units
// of all.
func sparedUnits(e *Engine, p rotating.Position) (on bool, units uint64) {
	for i := range e.shards {
		r := e.request(i, 0)
		r.s.mu.Lock()
		s := r.state()
		on = on || s.mode == sparing && r.s.number+1 >= p.Generation
		if s.mode != exactly {
			units += r.s.admitted - s.from
		}
		r.s.mu.Unlock()
	}
	return on, units
}

// snapshotOf returns what a snapshot is to hold.
func snapshotOf(e *Engine) snapshotSpared {
	if e.spare == nil {
		return snapshotSpared{}
	}
	e.spare.mu.Lock()
	defer e.spare.mu.Unlock()
	return snapshotSpared{e.spare.since, e.spare.last, e.spare.times, e.spare.units}
}

// become makes an episode that was restored the present one, if keys may be spared.
func (s *Spare) become(held snapshotSpared) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.last, s.times, s.units, s.told = held.Since, held.Last, held.Times, held.Units, 0
}

// snapshotSpared is what a Spare knows beside the shards, and the units of shards that have ended.
type snapshotSpared struct {
	Since, Last  int64
	Times, Units uint64
}
