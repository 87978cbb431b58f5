package engine

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// rotate makes a position's generation the shard's current one unless that is as late, and returns the position in the
// shard's generation. State of a shard expires here and nowhere else: each part that rotates has its call.
func (r request) rotate(p rotating.Position) rotating.Position {
	from, to := r.number(), p.Generation
	switch {
	case to <= from:
	case from == never: // nothing needs clearing
		r.s.number = to
	default:
		r.e.algorithm.rotate(r, to)
	}
	return r.clamp(p)
}

// markTable is for a shard whose table has entries. A peak one below the threshold, or higher, tells of them, so
// that the tables of most shards, where no key is heavy, need not be passed over when they rotate.
func (r request) markTable() { r.s.peaks.current = max(r.s.peaks.current, uint32(r.e.promoteAt-1)) }

// marked reports whether the shard's table may have entries.
func (r request) marked() bool { return int64(r.s.peaks.current) >= r.e.promoteAt-1 }

// span returns the time from one position to a later one.
func (r request) span(from, to rotating.Position) time.Duration {
	return time.Duration(r.e.Timeline.UnixNano(to) - r.e.Timeline.UnixNano(from))
}

// clamp brings a position to the shard's generation, if a request that came later has
// rotated the shard already.
func (r request) clamp(p rotating.Position) rotating.Position {
	if g := r.number(); g > p.Generation {
		return rotating.Position{Generation: g}
	}
	return p
}

// table returns the first word of the table of heavy keys.
func (r request) table() int { return r.first + r.e.Ring.Buffers()*r.e.generation }

// entries returns the key's bucket in the table.
func (r request) entries() *heavyhitter.Bucket { return r.e.heavy.Bucket(r.e.memory, r.table(), r.h) }
