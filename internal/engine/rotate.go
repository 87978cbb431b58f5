package engine

import (
	"math"
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
	case r.IsBucket():
		r.rotateBucket(to)
	default:
		r.rotateWindow(to)
	}
	return r.clamp(p)
}

// rotateWindow is rotate to a later generation for a window.
func (r request) rotateWindow(to int64) {
	wide, marked, kept := r.wide(), r.wide() || r.marked(), r.Ring.Buffers()
	from, first, size := r.s.number, r.first, r.generation
	if wide {
		from, size = r.state().number, r.cellsFirst
	}
	widen := r.Spares() && r.rotateSpare(to)
	if r.Spares() && (wide || r.state().on > 0) {
		kept = suspects
	}
	expired := r.Ring.Rotate(from, to, func(buffer int) { clear(r.memory[first+buffer*size:][:size]) })
	if wide {
		r.state().number = to
	} else {
		r.s.begin(to, expired, r.peakStep)
	}
	if share := r.share.Load(); share != nil {
		share.rotate(r, expired)
	}
	if marked && r.heavy.Rotate(r.tableMemory(), expired, kept) && !wide {
		r.markTable()
	}
	switch {
	case widen:
		r.widen()
	case wide:
		r.endWide()
	}
}

// markTable is for a shard whose table has entries. A peak one below the threshold, or higher, tells of them, so
// that the tables of most shards, where no key is heavy, need not be passed over when they rotate.
func (r request) markTable() { r.s.peaks.current = max(r.s.peaks.current, uint32(r.promoteAt-1)) }

// marked tells whether the shard's table may have entries.
func (r request) marked() bool { return int64(r.s.peaks.current) >= r.promoteAt-1 }

// peakBefore returns what the key has at most in the previous generation, by the shard's peak.
func (r request) peakBefore() int64 { return min(r.reach, int64(r.s.peaks.before)*r.peakStep) }

// begin makes a later generation the current one, with which others expire, ≥ 1.
func (s *shard) begin(number int64, expired int, peakStep int64) {
	s.number = number
	before := (int64(s.peaks.current) + peakStep - 1) / peakStep
	if expired > 1 {
		before = 0
	}
	s.peaks = peaks{before: uint16(min(before, math.MaxUint16))}
}

// span returns the time from one position to a later one.
func (r request) span(from, to rotating.Position) time.Duration {
	return time.Duration(r.Timeline.UnixNano(to) - r.Timeline.UnixNano(from))
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
func (r request) table() int { return r.first + r.Ring.Buffers()*r.generation }

// entries returns the key's bucket in the table.
func (r request) entries() *heavyhitter.Bucket { return r.heavy.Bucket(r.memory, r.table(), r.h) }

// buffer returns the first word of the generation of an age.
func (r request) buffer(age int) int { return r.first + r.layout.buffer(r.s.number-int64(age)) }

// buffer returns the first of a shard's words that hold a generation, by its number.
func (l *layout) buffer(number int64) int {
	return l.Ring.Buffer(number) * l.generation
}
