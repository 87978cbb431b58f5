package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Episode returns the last time that the limiter was over capacity, at a position or later.
func (e *Engine) Episode(p rotating.Position) overcapacity.Episode {
	switch {
	case e.OverCapacity == nil:
		return overcapacity.Episode{}
	case e.Evicts():
		return e.OverCapacity.LastEvicted(e.Timeline.UnixNano(p), e.Fills())
	}
	active := func() (on bool, units uint64) {
		for one := e; one != nil; one = one.Before() {
			active, more := overCapacityUnits(one, p)
			on, units = on || active, units+more
		}
		return on, units
	}
	return e.OverCapacity.Last(active, func(generation int64) int64 {
		return e.Timeline.UnixNano(rotating.Position{Generation: generation + int64(e.Ring.Buffers())})
	})
}

// overCapacityUnits reports whether a shard is over capacity that a request would not find to have ended, at a position or
// later, and returns the units of all shards.
func overCapacityUnits(e *Engine, p rotating.Position) (on bool, units uint64) {
	for i := range e.shards {
		r := e.request(i, 0)
		r.s.mu.Lock()
		on = on || r.isOverCapacity() && r.s.number+1 >= p.Generation
		units += r.state().Counted(r.s.admitted)
		r.s.mu.Unlock()
	}
	return on, units
}
