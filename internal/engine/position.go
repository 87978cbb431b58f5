package engine

import (
	"math/bits"
	"time"
)

// Position is a moment as an engine sees it.
type Position struct {
	Generation int64         // its number since the Unix epoch
	Elapsed    time.Duration // since the generation began: 0 … length-1ns
}

// Timeline cuts time into generations of one length, aligned to the Unix epoch.
type Timeline struct {
	length int64 // ns
	mask   int64 // the bits of a word that hold the time into a generation
	shift  uint8 // their number
}

// NewTimeline returns the timeline of generations of a length above 0.
func NewTimeline(length time.Duration) Timeline {
	shift := bits.Len64(uint64(length - 1))
	return Timeline{int64(length), 1<<shift - 1, uint8(shift)}
}

// Length returns the length of a generation, ns.
func (t *Timeline) Length() int64 { return t.length }

// Pack puts a position in a word; later positions have greater words. It has room: unix time in ns
// has 62 bits, and rounding the length of a generation up to a power of two adds less than one.
func (t *Timeline) Pack(p Position) int64 { return p.Generation<<t.shift | int64(p.Elapsed) }

// Unpack returns the position in a word.
func (t *Timeline) Unpack(word int64) Position {
	return Position{word >> (t.shift & 63), time.Duration(word & t.mask)}
}

// Generation returns the generation in a word.
func (t *Timeline) Generation(word int64) int64 { return word >> (t.shift & 63) }

// Split returns the position of a unix time in ns.
func (t *Timeline) Split(ns int64) Position {
	generation, rest := ns/t.length, ns%t.length
	if rest < 0 { // before 1970: round down, not towards 0
		generation, rest = generation-1, rest+t.length
	}
	return Position{generation, time.Duration(rest)}
}

// nanos returns the position as unix time in ns.
func (t *Timeline) nanos(p Position) int64 { return p.Generation*t.length + int64(p.Elapsed) }

// Nanos returns the position in a word as unix time in ns.
func (t *Timeline) Nanos(word int64) int64 { return t.nanos(t.Unpack(word)) }

// after returns the position a few generations later at most.
func (t *Timeline) after(p Position, d time.Duration) Position {
	for p.Elapsed += d; int64(p.Elapsed) >= t.length; p.Generation++ {
		p.Elapsed -= time.Duration(t.length)
	}
	return p
}

// NearEnd returns how far into a generation it nears its end: 15 sixteenths.
func (t *Timeline) NearEnd() time.Duration { return time.Duration(t.length / 16 * 15) }
