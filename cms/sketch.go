package cms

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"unsafe"
)

// ErrMismatch is returned by [Sketch.Merge] for sketches of different dimensions.
var ErrMismatch = errors.New("dimensions differ")

// Sketch counts keys in depth × width cells. An estimate is never below the true
// count (up to [Layout.Max]) and exceeds it only by what keys that share all of the
// key's cells have left there.
//
// The zero value has no cells: it reads 0 for every key and must not be added to.
// A Sketch is not safe for concurrent use.
type Sketch struct {
	Layout
	words []uint64 // rows one after another
}

// New returns an empty sketch of depth rows (1 … 32) and width cells a row, which fill
// whole words of 64 bits (1 … 1<<26), each cell cellBits (4, 8, 16 or 32) bits wide.
func New(depth, width, cellBits int) (*Sketch, error) {
	l, err := NewLayout(depth, width, cellBits)
	if err != nil {
		return nil, err
	}
	return &Sketch{l, make([]uint64, l.Words())}, nil
}

// Over is [New] on memory of the caller's, which holds exactly [Words] words and
// belongs to the sketch from then on. What the words hold is taken as counts.
func Over(words []uint64, depth, width, cellBits int) (*Sketch, error) {
	l, err := NewLayout(depth, width, cellBits)
	if err != nil {
		return nil, err
	}
	if len(words) != l.Words() {
		return nil, fmt.Errorf("cms: %d words, must be %d", len(words), l.Words())
	}
	return &Sketch{l, words}, nil
}

// MemoryBytes returns the size of the sketch with all its cells.
func (s *Sketch) MemoryBytes() int { return int(unsafe.Sizeof(*s)) + 8*cap(s.words) }

// Estimate returns the count of the key with hash h: at least what was added for
// it, or [Layout.Max] where that is less.
func (s *Sketch) Estimate(h uint64) uint32 { return s.Layout.Estimate(s.words, 0, h) }

// Add counts n units for the key with hash h in every row, and returns the new
// estimate. Cells stop at [Layout.Max].
func (s *Sketch) Add(h uint64, n uint32) uint32 {
	s.each(h, func(w uint64) {
		s.lift(&s.words[w], h, min(s.count(s.words[w], h)+uint64(n), s.max))
	})
	return s.Estimate(h)
}

// AddBounded counts n units for the key with hash h unless that would lift its estimate
// past max or past [Layout.Max]. It returns the key's count, its estimate and the n
// units if they were counted, and whether they were. Cells are raised to that count and
// no further: what they hold beyond it belongs to other keys, also where a pair is
// joined.
func (s *Sketch) AddBounded(h uint64, n, max uint32) (estimate uint32, ok bool) {
	return s.Layout.AddBounded(s.words, 0, h, n, max)
}

// Raise lifts the cells of the key with hash h to at least c, or to [Layout.Max]
// where that is less. It suits a caller that knows the key's whole count.
func (s *Sketch) Raise(h uint64, c uint32) { s.Layout.Raise(s.words, 0, h, c) }

// each calls f with the word of each of the key's cells.
func (s *Sketch) each(h uint64, f func(word uint64)) {
	for r := range uint64(s.depth) {
		draw := h >> 32
		if r&1 == 1 {
			draw = h & math.MaxUint32
			h = remix(h)
		}
		f(r*s.row + draw*s.row>>32)
	}
}

// Tail returns the share of a lane's cells in a row that hold c or more: the chance that
// a key which was never added, in that lane, reads at least c in that row. Lanes are
// drawn evenly, and within one the rows are independent.
func (s *Sketch) Tail(row, lane int, c uint32) float64 {
	n := 0
	for v := range s.Cells(row, lane) {
		if v >= c {
			n++
		}
	}
	return float64(n) / float64(s.row)
}

// Cells yields the counts of a row's cells in a lane (0 … Lanes()-1), in order.
func (s *Sketch) Cells(row, lane int) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, w := range s.words[row*int(s.row):][:s.row] {
			if !yield(uint32(s.count(w, uint64(lane)*s.bits))) {
				return
			}
		}
	}
}

// Clear empties the sketch.
func (s *Sketch) Clear() { clear(s.words) }

// Merge adds the other sketch's cells to this one's, stopping at [Layout.Max]. The
// result is a valid sketch of both streams if their keys were hashed alike: its
// estimates are never below the counts of both. With [Sketch.Add] and cells of 32 bits
// it is exactly that of the joint stream. Sketches of other dimensions are refused with
// [ErrMismatch].
func (s *Sketch) Merge(other *Sketch) error {
	if s.Layout != other.Layout {
		return fmt.Errorf("cms: merge %d × %d cells of %d bits into %d × %d of %d: %w",
			other.depth, other.Width(), other.CellBits(), s.depth, s.Width(), s.CellBits(), ErrMismatch)
	}
	for i, w := range other.words {
		for at := uint64(0); at < 64; at += 2 * s.bits {
			s.mergePair(&s.words[i], w, at)
		}
	}
	return nil
}

// mergePair adds a pair of another word, at so many bits, to that of a word.
func (l *Layout) mergePair(word *uint64, other, at uint64) {
	a, b := l.count(*word, at)+l.count(other, at), l.count(*word, at+l.bits)+l.count(other, at+l.bits)
	l.lift(word, at, min(a, l.max))
	l.lift(word, at+l.bits, min(b, l.max))
}
