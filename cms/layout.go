package cms

import (
	"fmt"
	"math"
	"math/bits"
)

// MaxDepth is the largest number of rows. Beyond it rows cost time and memory
// and buy nothing that can be measured.
const MaxDepth = 32

// maxRow bounds the words of a row, so that the bits which choose among them are not
// those which choose a lane.
const maxRow = 1 << 26

// Layout is the dimensions of a sketch. Its methods count in words of the caller's, of
// which it takes [Layout.Words] from a given one on: many small sketches of one layout
// need no headers of their own. The zero value has no cells and reads 0 for every key.
type Layout struct {
	row   uint64 // words of a row
	depth int
	lanes uint64 // the bits of a hash that choose a lane: where in a word its cells begin
	max   uint32 // all bits of one cell
	bits  uint8  // of one cell
}

// NewLayout returns the layout of depth rows (1 … 32) and width cells a row, which fill
// whole words of 64 bits (1 … 1<<26), each cell cellBits (4, 8, 16 or 32) bits wide.
func NewLayout(depth, width, cellBits int) (Layout, error) {
	n, err := Words(depth, width, cellBits)
	if err != nil {
		return Layout{}, err
	}
	return Layout{
		row:   uint64(n / depth),
		depth: depth,
		lanes: 64 - uint64(cellBits),
		max:   math.MaxUint32 >> (32 - cellBits),
		bits:  uint8(cellBits),
	}, nil
}

// Words returns the number of 64-bit words that the cells take.
func (l *Layout) Words() int { return l.depth * int(l.row) }

// Depth returns the number of rows.
func (l *Layout) Depth() int { return l.depth }

// Width returns the number of cells in a row.
func (l *Layout) Width() int { return int(l.row) * l.Lanes() }

// Lanes returns the number of cells in a word.
func (l *Layout) Lanes() int {
	if l.bits == 0 {
		return 0
	}
	return 64 / int(l.bits)
}

// CellBits returns the number of bits in a cell.
func (l *Layout) CellBits() int { return int(l.bits) }

// Max returns the largest count that a cell holds.
func (l *Layout) Max() uint32 { return l.max }

// Estimate is [Sketch.Estimate] on the cells in words[first:].
func (l *Layout) Estimate(words []uint64, first int, h uint64) uint32 {
	w, n := uint64(first), l.row
	lane := h & l.lanes & 63
	cell := uint64(l.max) << lane
	switch l.depth { // the usual ones: without a loop all loads begin at once
	case 2:
		return uint32(min(
			cell&words[w+h>>32*n>>32],
			cell&words[w+n+h&math.MaxUint32*n>>32]) >> lane)
	case 4:
		g := remix(h)
		return uint32(min(
			cell&words[w+h>>32*n>>32],
			cell&words[w+n+h&math.MaxUint32*n>>32],
			cell&words[w+2*n+g>>32*n>>32],
			cell&words[w+3*n+g&math.MaxUint32*n>>32]) >> lane)
	}
	least := cell
	for r := range l.depth {
		draw := h >> 32
		if r&1 == 1 {
			draw = h & math.MaxUint32
			h = remix(h)
		}
		least = min(least, cell&words[w+draw*n>>32])
		w += n
	}
	return uint32(least >> lane)
}

// Raise is [Sketch.Raise] on the cells in words[first:].
func (l *Layout) Raise(words []uint64, first int, h uint64, c uint32) {
	w, n := uint64(first), l.row
	lane := h & l.lanes & 63
	cell, least := uint64(l.max)<<lane, uint64(min(c, l.max))<<lane
	switch l.depth {
	case 2:
		raise(&words[w+h>>32*n>>32], cell, least)
		raise(&words[w+n+h&math.MaxUint32*n>>32], cell, least)
		return
	case 4:
		g := remix(h)
		raise(&words[w+h>>32*n>>32], cell, least)
		raise(&words[w+n+h&math.MaxUint32*n>>32], cell, least)
		raise(&words[w+2*n+g>>32*n>>32], cell, least)
		raise(&words[w+3*n+g&math.MaxUint32*n>>32], cell, least)
		return
	}
	for r := range l.depth {
		draw := h >> 32
		if r&1 == 1 {
			draw = h & math.MaxUint32
			h = remix(h)
		}
		raise(&words[w+draw*n>>32], cell, least)
		w += n
	}
}

// AddBounded is [Sketch.AddBounded] on the cells in words[first:].
func (l *Layout) AddBounded(words []uint64, first int, h uint64, n, most uint32) (estimate uint32, ok bool) {
	most = min(most, l.max)
	w, rows := uint64(first), l.row
	lane := h & l.lanes & 63
	cell := uint64(l.max) << lane
	switch l.depth {
	default:
		e := l.Estimate(words, first, h)
		if uint64(e)+uint64(n) > uint64(most) {
			return e, false
		}
		l.Raise(words, first, h, e+n)
		return e + n, true
	case 2:
		w0 := &words[w+h>>32*rows>>32]
		w1 := &words[w+rows+h&math.MaxUint32*rows>>32]
		c0, c1 := cell&*w0, cell&*w1
		least := min(c0, c1)
		if least>>lane+uint64(n) > uint64(most) {
			return uint32(least >> lane), false
		}
		least += uint64(n) << lane
		*w0 += least - min(c0, least)
		*w1 += least - min(c1, least)
		return uint32(least >> lane), true
	case 4:
	}
	g := remix(h)
	w0 := &words[w+h>>32*rows>>32]
	w1 := &words[w+rows+h&math.MaxUint32*rows>>32]
	w2 := &words[w+2*rows+g>>32*rows>>32]
	w3 := &words[w+3*rows+g&math.MaxUint32*rows>>32]
	c0, c1, c2, c3 := cell&*w0, cell&*w1, cell&*w2, cell&*w3
	least := min(c0, c1, c2, c3)
	if least>>lane+uint64(n) > uint64(most) {
		return uint32(least >> lane), false
	}
	least += uint64(n) << lane
	*w0 += least - min(c0, least)
	*w1 += least - min(c1, least)
	*w2 += least - min(c2, least)
	*w3 += least - min(c3, least)
	return uint32(least >> lane), true
}

// Four returns the words in which a key's cells of the first four rows are, of those from
// words[first] on. Where there are fewer rows some are others of the last one's; without cells all are the first word.
func (l *Layout) Four(first int, h uint64) (a, b, c, d int) {
	n, last := l.row, l.depth-1
	g := remix(h)
	row := func(r int) int { return first + min(r, last)*int(n) }
	return row(0) + int(h>>32*n>>32),
		row(1) + int(h&math.MaxUint32*n>>32),
		row(2) + int(g>>32*n>>32),
		row(3) + int(g&math.MaxUint32*n>>32)
}

// raise lifts one cell of a word. It stores without a branch: whether a cell rises is
// data that no predictor learns, and a store that changes nothing is cheaper than a
// misprediction.
func raise(word *uint64, cell, least uint64) {
	old := *word
	*word = old&^cell | max(old&cell, least)
}

// remix draws the next 64 bits for the next two rows.
func remix(h uint64) uint64 {
	hi, lo := bits.Mul64(h^0x2d358dccaa6c78a5, 0x8bb84b93962eacc9)
	return hi ^ lo
}

// Words returns the number of 64-bit words that hold the cells of a sketch.
func Words(depth, width, cellBits int) (int, error) {
	if cellBits != 4 && cellBits != 8 && cellBits != 16 && cellBits != 32 {
		return 0, fmt.Errorf("cms: cells of %d bits, must be 4, 8, 16 or 32", cellBits)
	}
	lanes := 64 / cellBits
	switch {
	case depth < 1 || depth > MaxDepth:
		return 0, fmt.Errorf("cms: depth %d, must be 1 … %d", depth, MaxDepth)
	case width < lanes || width/lanes > maxRow || width%lanes != 0:
		return 0, fmt.Errorf("cms: width %d, must be a multiple of %d, %d … %d", width, lanes, lanes, maxRow*lanes)
	}
	return depth * (width / lanes), nil
}
