package cms

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"unsafe"
)

// MaxDepth is the largest number of rows. Beyond it rows cost time and memory
// and buy nothing that can be measured.
const MaxDepth = 32

// ErrMismatch is returned by [Sketch.Merge] for sketches of different dimensions.
var ErrMismatch = errors.New("dimensions differ")

// Sketch counts keys in depth × width cells. An estimate is never below the true
// count (up to [Sketch.Max]) and exceeds it only by what keys that share all of the
// key's cells have left there.
//
// The zero value has no cells: it reads 0 for every key and must not be added to.
// A Sketch is not safe for concurrent use.
type Sketch struct {
	words  []uint64 // rows one after another, each rowWords long
	width  uint64   // cells a row, below 1<<31
	stride uint64   // cells from one row to the next: width rounded up to whole words
	depth  int
	max    uint32 // all bits of one cell
	per    uint8  // log2 of the cells in a word
	shift  uint8  // log2 of the bits in a cell
}

// New returns an empty sketch of depth rows (1 … 32) and width cells a row
// (1 … 1<<31-1), each cell cellBits (4, 8, 16 or 32) bits wide.
func New(depth, width, cellBits int) (*Sketch, error) {
	n, err := Words(depth, width, cellBits)
	if err != nil {
		return nil, err
	}
	return Over(make([]uint64, n), depth, width, cellBits)
}

// Over is [New] on memory of the caller's, which holds exactly [Words] words and
// belongs to the sketch from then on. What the words hold is taken as counts.
func Over(words []uint64, depth, width, cellBits int) (*Sketch, error) {
	n, err := Words(depth, width, cellBits)
	if err != nil {
		return nil, err
	}
	if len(words) != n {
		return nil, fmt.Errorf("cms: %d words, must be %d", len(words), n)
	}
	s := &Sketch{
		words: words,
		width: uint64(width),
		depth: depth,
		max:   math.MaxUint32 >> (32 - cellBits),
		shift: uint8(bits.TrailingZeros(uint(cellBits))),
	}
	s.per = 6 - s.shift
	s.stride = uint64(n/depth) << s.per
	return s, nil
}

// Words returns the number of 64-bit words that hold the cells of a sketch. Each
// row starts on a word of its own.
func Words(depth, width, cellBits int) (int, error) {
	switch {
	case depth < 1 || depth > MaxDepth:
		return 0, fmt.Errorf("cms: depth %d, must be 1 … %d", depth, MaxDepth)
	case width < 1 || width > math.MaxInt32:
		return 0, fmt.Errorf("cms: width %d, must be 1 … %d", width, math.MaxInt32)
	case cellBits != 4 && cellBits != 8 && cellBits != 16 && cellBits != 32:
		return 0, fmt.Errorf("cms: cells of %d bits, must be 4, 8, 16 or 32", cellBits)
	}
	per := 64 / int64(cellBits)
	words := int64(depth) * ((int64(width) + per - 1) / per)
	if words > math.MaxInt/8 {
		return 0, fmt.Errorf("cms: %d words, more than can be addressed", words)
	}
	return int(words), nil
}

// Depth returns the number of rows.
func (s *Sketch) Depth() int { return s.depth }

// Width returns the number of cells in a row.
func (s *Sketch) Width() int { return int(s.width) }

// CellBits returns the number of bits in a cell.
func (s *Sketch) CellBits() int { return 1 << s.shift }

// Max returns the largest count that a cell holds.
func (s *Sketch) Max() uint32 { return s.max }

// MemoryBytes returns the size of the sketch with all its cells.
func (s *Sketch) MemoryBytes() int { return int(unsafe.Sizeof(*s)) + 8*cap(s.words) }

// Estimate returns the count of the key with hash h: at least what was added for
// it, or [Sketch.Max] where that is less.
func (s *Sketch) Estimate(h uint64) uint32 {
	least := s.max
	for r := 0; r < s.depth; r += 2 {
		w, sh := s.cell(r, h>>32)
		least = min(least, uint32(s.words[w]>>sh)&s.max)
		if r+1 < s.depth {
			w, sh = s.cell(r+1, h&math.MaxUint32)
			least = min(least, uint32(s.words[w]>>sh)&s.max)
		}
		h = remix(h)
	}
	return least
}

// Add counts n units for the key with hash h in every row, and returns the new
// estimate. Cells stop at [Sketch.Max].
func (s *Sketch) Add(h uint64, n uint32) uint32 {
	least := s.max
	s.each(h, func(w uint64, sh uint8) {
		c := s.words[w] >> sh & uint64(s.max)
		t := min(c+uint64(n), uint64(s.max))
		s.words[w] += (t - c) << sh
		least = min(least, uint32(t))
	})
	return least
}

// AddBounded counts n units for the key with hash h unless that would lift its
// estimate past max or past [Sketch.Max]. It returns the estimate that holds
// afterwards and whether the units were counted. Cells are raised to the new
// estimate and no further: what they hold beyond it belongs to other keys.
func (s *Sketch) AddBounded(h uint64, n, max uint32) (estimate uint32, ok bool) {
	e := s.Estimate(h)
	t := uint64(e) + uint64(n)
	if t > uint64(min(max, s.max)) {
		return e, false
	}
	s.Raise(h, uint32(t))
	return uint32(t), true
}

// Raise lifts the cells of the key with hash h to at least c, or to [Sketch.Max]
// where that is less. It suits a caller that knows the key's whole count.
func (s *Sketch) Raise(h uint64, c uint32) {
	c = min(c, s.max)
	for r := 0; r < s.depth; r += 2 {
		s.raise(r, h>>32, c)
		if r+1 < s.depth {
			s.raise(r+1, h&math.MaxUint32, c)
		}
		h = remix(h)
	}
}

// raise stores without a branch: whether a cell rises is data that no predictor
// learns, and a store that changes nothing is cheaper than a misprediction.
func (s *Sketch) raise(row int, draw uint64, c uint32) {
	w, sh := s.cell(row, draw)
	word := s.words[w]
	old := uint32(word>>sh) & s.max
	s.words[w] = word + uint64(max(old, c)-old)<<sh
}

// each calls f with the word and the shift of each of the key's cells.
func (s *Sketch) each(h uint64, f func(word uint64, shift uint8)) {
	for r := 0; r < s.depth; r++ {
		draw := h >> 32
		if r&1 == 1 {
			draw = h & math.MaxUint32
			h = remix(h)
		}
		f(s.cell(r, draw))
	}
}

// cell turns 32 random bits into a cell of a row. Multiplying maps them evenly on
// any width; a remainder would cost a division, a mask would want powers of two.
func (s *Sketch) cell(row int, draw uint64) (word uint64, shift uint8) {
	i := uint64(row)*s.stride + draw*s.width>>32
	return i >> s.per, uint8(i<<s.shift) & 63
}

// remix draws the next 64 bits for the next two rows.
func remix(h uint64) uint64 {
	hi, lo := bits.Mul64(h^0x2d358dccaa6c78a5, 0x8bb84b93962eacc9)
	return hi ^ lo
}

// Tail returns the share of a row's cells that hold c or more: the chance that a
// key which was never added reads at least c in that row.
func (s *Sketch) Tail(row int, c uint32) float64 {
	n := 0
	for v := range s.Cells(row) {
		if v >= c {
			n++
		}
	}
	return float64(n) / float64(s.width)
}

// Cells yields the counts of a row's cells in order.
func (s *Sketch) Cells(row int) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		first := uint64(row) * s.stride
		for i := first; i < first+s.width; i++ {
			if !yield(uint32(s.words[i>>s.per]>>(i<<s.shift&63)) & s.max) {
				return
			}
		}
	}
}

// Clear empties the sketch.
func (s *Sketch) Clear() { clear(s.words) }

// Merge adds the other sketch's cells to this one's, stopping at [Sketch.Max]. The
// result is a valid sketch of both streams if their keys were hashed alike: exactly
// that of the joint stream for [Sketch.Add]; for conservative updates not exactly
// that, but its estimates are never below the counts of both either. Sketches of
// other dimensions are refused with [ErrMismatch].
func (s *Sketch) Merge(other *Sketch) error {
	if s.depth != other.depth || s.width != other.width || s.shift != other.shift {
		return fmt.Errorf("cms: merge %d × %d cells of %d bits into %d × %d of %d: %w",
			other.depth, other.width, other.CellBits(), s.depth, s.width, s.CellBits(), ErrMismatch)
	}
	for i, w := range other.words {
		var sum uint64
		for sh := 0; sh < 64; sh += s.CellBits() {
			a, b := s.words[i]>>sh&uint64(s.max), w>>sh&uint64(s.max)
			sum |= min(a+b, uint64(s.max)) << sh
		}
		s.words[i] = sum
	}
	return nil
}
