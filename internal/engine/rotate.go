package engine

import (
	"time"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// rotate makes a position's generation the shard's current one, unless the shard's generation is
// as late or later. It returns the position in the shard's generation. What a window has counted
// expires here and nowhere else: each part that rotates has its call.
func (r request) rotate(p rotating.Position) rotating.Position {
	from, to := r.s.number, p.Generation
	switch {
	case to <= from:
	case from == never: // nothing needs clearing
		r.s.number = to
	default:
		r.e.algorithm.rotate(r, to)
		r.e.Audit.Reach(r.e.Timeline.UnixNano(p))
	}
	return r.clamp(p)
}

// span returns the time from one position to a later one.
func (r request) span(from, to rotating.Position) time.Duration {
	return time.Duration(r.e.Timeline.UnixNano(to) - r.e.Timeline.UnixNano(from))
}

// clamp brings a position to the shard's generation, if a request that came later has
// rotated the shard already.
func (r request) clamp(p rotating.Position) rotating.Position {
	if g := r.s.number; g > p.Generation {
		return rotating.Position{Generation: g}
	}
	return p
}
