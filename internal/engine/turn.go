package engine

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// turn begins the position's generation unless it is behind, and returns the position
// in what is then the shard's.
func (r request) turn(p rotating.Position) rotating.Position {
	if r.bucket.burst > 0 {
		return r.turnTime(p)
	}
	if r.wide() {
		return r.turnWide(p)
	}
	from, marked := r.s.number, r.marked()
	if from == never { // and nothing needs clearing
		r.s.number = max(from, p.Generation)
		return r.clamp(p)
	}
	turns := rotating.Turns(from, p.Generation, r.generations)
	widen := turns > 0 && r.Spares() && r.turnSpare(p.Generation)
	if turns > 0 {
		r.s.begin(p.Generation, turns, r.peakStep)
	}
	for age := range turns {
		clear(r.memory[r.buffer(age):][:r.generation])
	}
	if share := r.share.Load(); share != nil && turns > 0 {
		share.turn(r, turns)
	}
	kept := r.generations
	if r.Spares() && r.state().on > 0 {
		kept = suspects
	}
	if turns > 0 && marked && r.heavy.turn(r.memory[r.table():][:r.heavy.words()], turns, kept) {
		r.markTable()
	}
	if widen {
		r.widen()
	}
	return r.clamp(p)
}

// markTable is for a shard whose table has entries. A peak one below the threshold, or higher, tells of them, so
// that the tables of most shards, where no key is heavy, need not be passed over when they turn.
func (r request) markTable() { r.s.peaks.current = max(r.s.peaks.current, uint32(r.heavy.threshold-1)) }

// marked tells whether the shard's table may have entries.
func (r request) marked() bool { return int64(r.s.peaks.current) >= r.heavy.threshold-1 }

// peakBefore returns what the key has at most in the previous generation, by the shard's peak.
func (r request) peakBefore() int64 { return min(r.reach, int64(r.s.peaks.before)*r.peakStep) }

// begin makes a later generation the current one, so many (at least 1) behind.
func (s *shard) begin(number int64, turns int, peakStep int64) {
	s.number = number
	before := (int64(s.peaks.current) + peakStep - 1) / peakStep
	if turns > 1 {
		before = 0
	}
	s.peaks = peaks{before: uint16(min(before, math.MaxUint16))}
}

// span returns the time from one position to a later one.
func (r request) span(from, to rotating.Position) time.Duration {
	return time.Duration(r.Timeline.UnixNano(to) - r.Timeline.UnixNano(from))
}

// clamp brings a position to the shard's generation, if a request that came later has
// turned the shard already.
func (r request) clamp(p rotating.Position) rotating.Position {
	if g := r.number(); g > p.Generation {
		return rotating.Position{Generation: g}
	}
	return p
}

// table returns the first word of the table of heavy keys.
func (r request) table() int { return r.first + r.generations*r.generation }

// entries returns the key's bucket in the table.
func (r request) entries() *entries { return r.heavy.entries(r.memory, r.table(), r.h) }

// buffer returns the first word of the generation of an age.
func (r request) buffer(age int) int { return r.first + r.layout.buffer(r.s.number-int64(age)) }

// buffer returns the first of a shard's words that hold a generation, by its number.
func (l *layout) buffer(number int64) int {
	return rotating.Buffer(number, l.generations) * l.generation
}
