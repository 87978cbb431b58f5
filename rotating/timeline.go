package rotating

import (
	"math/bits"
	"time"
)

// Position is a moment: a generation, and the time since that began.
type Position struct {
	Generation int64         // floor(unix time / length)
	Elapsed    time.Duration // 0 … length-1ns
}

// Timeline cuts time into generations of one length, aligned to the Unix epoch. It is
// immutable, and so safe for concurrent use.
type Timeline struct {
	length int64 // ns
	mask   int64 // the bits of a word that hold Elapsed
	shift  uint8 // their number
}

// NewTimeline returns the timeline of generations of a length, above 0.
func NewTimeline(length time.Duration) Timeline {
	shift := bits.Len64(uint64(length - 1))
	return Timeline{int64(length), 1<<shift - 1, uint8(shift)}
}

// Length returns the length of a generation, ns.
func (t *Timeline) Length() int64 { return t.length }

// Position returns the position of a unix time in ns, between -1<<62 and 1<<62.
func (t *Timeline) Position(unixNano int64) Position {
	generation, rest := unixNano/t.length, unixNano%t.length
	if rest < 0 { // before 1970: round down, not towards 0
		generation, rest = generation-1, rest+t.length
	}
	return Position{generation, time.Duration(rest)}
}

// UnixNano returns the unix time of a position in ns.
func (t *Timeline) UnixNano(p Position) int64 { return p.Generation*t.length + int64(p.Elapsed) }

// Pack returns a position as one word. Later positions have greater words. A word has
// room for all that [Timeline.Position] returns: unix time in ns has 62 bits, and
// rounding the length of a generation up to a power of two adds less than one.
func (t *Timeline) Pack(p Position) int64 { return p.Generation<<t.shift | int64(p.Elapsed) }

// Unpack returns the position in a word.
func (t *Timeline) Unpack(word int64) Position {
	return Position{word >> (t.shift & 63), time.Duration(word & t.mask)}
}

// Generation returns the generation in a word.
func (t *Timeline) Generation(word int64) int64 { return word >> (t.shift & 63) }

// Add returns the position a duration ≥ 0 later, in as many steps as generations lie
// between.
func (t *Timeline) Add(p Position, d time.Duration) Position {
	for p.Elapsed += d; int64(p.Elapsed) >= t.length; p.Generation++ {
		p.Elapsed -= time.Duration(t.length)
	}
	return p
}

// InRange reports whether a generation begins at a time that has a position.
func (t *Timeline) InRange(generation int64) bool {
	last := 1 << 62 / t.length
	return generation <= last && generation >= -last-1
}
