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
	bits  uint64 // of one cell
	cell  uint64 // all bits of one cell
	max   uint64 // the largest count
	pairs
}

// NewLayout returns the layout of depth rows (1 … 32) and width cells a row, which fill
// whole words of 64 bits (1 … 1<<26), each cell cellBits (4, 8, 16 or 32) bits wide.
func NewLayout(depth, width, cellBits int) (Layout, error) {
	n, err := Words(depth, width, cellBits)
	if err != nil {
		return Layout{}, err
	}
	l := Layout{
		row:   uint64(n / depth),
		depth: depth,
		lanes: 64 - uint64(cellBits),
		bits:  uint64(cellBits),
		cell:  1<<cellBits - 1,
		max:   largest[cellBits],
	}
	l.pairs = newPairs(&l)
	return l, nil
}

// largest are the largest counts, by the bits of a cell.
var largest = map[int]uint64{4: 123, 8: 1<<13 - 1, 16: 1<<31 - 1, 32: 1<<32 - 1}

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

// Max returns the largest count: 123 for cells of 4 bits, 8191 for 8, 1<<31 - 1 for 16,
// 1<<32 - 1 for 32.
func (l *Layout) Max() uint32 { return uint32(l.max) }

// count returns what a word holds in a hash's lane.
func (l *Layout) count(word, h uint64) uint64 {
	if l.bits == 4 {
		return countDigit(word, h)
	}
	c, _, _ := l.readPair(word, h)
	return c
}

// lift raises what a word holds in a hash's lane to c (up to Max) or more.
func (l *Layout) lift(word *uint64, h, c uint64) {
	if l.bits == 4 {
		liftDigit(word, h, c)
		return
	}
	l.liftPair(word, h, c)
}

// Estimate is [Sketch.Estimate] on the cells in words[first:].
func (l *Layout) Estimate(words []uint64, first int, h uint64) uint32 {
	w, n := uint64(first), l.row
	switch { // the usual ones: without a loop all loads begin at once
	case l.depth == 3 && l.bits == 4:
		counts, at := &digitCounts[h>>2&1], h&56
		return uint32(min(
			counts[uint8(words[w+h>>32*n>>32]>>at)],
			counts[uint8(words[w+n+h&math.MaxUint32*n>>32]>>at)],
			counts[uint8(words[w+2*n+remix(h)>>32*n>>32]>>at)]))
	case l.depth == 4 && l.bits == 32:
		g, at := remix(h), h&32
		return uint32(min(
			words[w+h>>32*n>>32]>>at&l.cell,
			words[w+n+h&math.MaxUint32*n>>32]>>at&l.cell,
			words[w+2*n+g>>32*n>>32]>>at&l.cell,
			words[w+3*n+g&math.MaxUint32*n>>32]>>at&l.cell))
	}
	least, lane := l.max, h
	for r := range l.depth {
		draw := h >> 32
		if r&1 == 1 {
			draw = h & math.MaxUint32
			h = remix(h)
		}
		least = min(least, l.count(words[w+draw*n>>32], lane))
		w += n
	}
	return uint32(least)
}

// Cell returns what a row holds in one of its lanes (0 … [Layout.Lanes]-1), in the word
// that h draws: to look at a sample of cells.
func (l *Layout) Cell(words []uint64, first, row, lane int, h uint64) uint32 {
	return uint32(l.count(words[uint64(first)+uint64(row)*l.row+h>>32*l.row>>32], uint64(lane)*l.bits))
}

// Raise is [Sketch.Raise] on the cells in words[first:].
func (l *Layout) Raise(words []uint64, first int, h uint64, c uint32) {
	w, n, lane := uint64(first), l.row, h
	most := min(uint64(c), l.max)
	if l.depth == 4 && l.bits == 32 {
		g, at := remix(h), h&32
		raise(&words[w+h>>32*n>>32], at, most)
		raise(&words[w+n+h&math.MaxUint32*n>>32], at, most)
		raise(&words[w+2*n+g>>32*n>>32], at, most)
		raise(&words[w+3*n+g&math.MaxUint32*n>>32], at, most)
		return
	}
	for r := range l.depth {
		draw := h >> 32
		if r&1 == 1 {
			draw = h & math.MaxUint32
			h = remix(h)
		}
		l.lift(&words[w+draw*n>>32], lane, most)
		w += n
	}
}

// raise lifts a cell of 32 bits.
func raise(word *uint64, at, c uint64) {
	*word += (c - min(c, *word>>(at&63)&math.MaxUint32)) << (at & 63)
}

// AddBounded is [Sketch.AddBounded] on the cells in words[first:].
func (l *Layout) AddBounded(words []uint64, first int, h uint64, n, most uint32) (estimate uint32, ok bool) {
	bound := min(uint64(most), l.max)
	if l.depth != 3 || l.bits != 4 {
		e := l.Estimate(words, first, h)
		if uint64(e)+uint64(n) > bound {
			return e, false
		}
		l.Raise(words, first, h, e+n)
		return e + n, true
	}
	w, row := uint64(first), l.row // the usual one
	w0 := &words[w+h>>32*row>>32]
	w1 := &words[w+row+h&math.MaxUint32*row>>32]
	w2 := &words[w+2*row+remix(h)>>32*row>>32]
	counts, at := &digitCounts[h>>2&1], h&56
	c0, c1, c2 := uint64(counts[uint8(*w0>>at)]), uint64(counts[uint8(*w1>>at)]), uint64(counts[uint8(*w2>>at)])
	c := min(c0, c1, c2) + uint64(n)
	if c > bound {
		return uint32(c) - n, false
	}
	if c >= digits {
		l.lift(w0, h, c)
		l.lift(w1, h, c)
		l.lift(w2, h, c)
		return uint32(c), true
	}
	// No cell rises that is joint. The first word is written in any case; where one of
	// the others reads enough, its store goes there too, and its cache line may stay
	// with other cores. There is no branch on that: no predictor learns it.
	unit := digitUnits[h>>2&1] << at
	v0, v1, v2 := *w0+(c-min(c, c0))*unit, *w1+(c-c1)*unit, *w2+(c-c2)*unit
	if c1 >= c {
		w1, v1 = w0, v0
	}
	if c2 >= c {
		w2, v2 = w0, v0
	}
	*w0, *w1, *w2 = v0, v1, v2
	return uint32(c), true
}

// Four returns the words in which a key's cells of the first four rows are, of those
// from words[first] on. Where there are fewer rows some are others of the last one's;
// without cells all are the first word.
func (l *Layout) Four(first int, h uint64) (a, b, c, d int) {
	n, last := l.row, l.depth-1
	g := remix(h)
	row := func(r int) int { return first + min(r, last)*int(n) }
	return row(0) + int(h>>32*n>>32),
		row(1) + int(h&math.MaxUint32*n>>32),
		row(2) + int(g>>32*n>>32),
		row(3) + int(g&math.MaxUint32*n>>32)
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
