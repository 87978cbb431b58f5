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
