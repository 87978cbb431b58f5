package engine

// Episode is the last time that keys were spared beyond the plan.
type Episode struct {
	Active       bool
	Since, Exact int64 // when it began, and when a window has passed since it ended; unix ns
	Times        uint64
	Units        uint64 // that shards have admitted since they began, until a window after they ended: some may have been too many
}

// Episode tells of the last time that keys were spared, at a position or later.
func (e *Engine) Episode(p Position) (t Episode) {
	s := e.spare
	if s == nil {
		return t
	}
	for one := e; one != nil; one = one.before.Load() {
		on, units := one.spared(p)
		t.Active, t.Units = t.Active || on, t.Units+units
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Times, t.Since, t.Units = s.times, s.since, t.Units+s.units
	if s.times > 0 {
		t.Exact = e.nanos(Position{Generation: s.last + int64(e.generations)})
	}
	return t
}

// spared tells whether a shard spares that a request would not find to have ended, at a position or later, and the units
// of all.
func (e *Engine) spared(p Position) (on bool, units uint64) {
	for i := range e.shards {
		r := e.request(i, 0)
		r.s.mu.Lock()
		s := r.state()
		on = on || s.on > 0 && r.number()+1 >= p.Generation
		if s.on != 0 {
			units += r.s.admitted - s.from
		}
		r.s.mu.Unlock()
	}
	return on, units
}

// snapshotSpared returns what a snapshot is to hold.
func (e *Engine) snapshotSpared() snapshotSpared {
	if !e.Spares() {
		return snapshotSpared{}
	}
	e.spare.mu.Lock()
	defer e.spare.mu.Unlock()
	return snapshotSpared{e.spare.since, e.spare.last, e.spare.times, e.spare.units}
}

// sparing returns what a snapshot holds, which was written before its shards, with those that spare.
func (s Stages) sparing(held snapshotSpared) snapshotSpared {
	for _, e := range []*Engine{s.Engine, s.Before} {
		if e == nil || !e.Spares() {
			continue
		}
		for i := range e.shards {
			r := e.request(i, 0)
			if r.state().on == 0 {
				continue
			}
			if held.Times == 0 {
				held = snapshotSpared{e.nanos(Position{Generation: r.number()}), r.number(), 1, held.Units}
			}
			held.Last = max(held.Last, r.number())
		}
	}
	return held
}

// become makes an episode that was restored the present one, if keys may be spared.
func (s *Spare) become(held snapshotSpared) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.last, s.times, s.units = held.Since, held.Last, held.Times, held.Units
}
