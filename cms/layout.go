package cms

import (
	"fmt"
	"math"
	"math/bits"
)

// MaxDepth is the largest number of rows. Beyond it rows cost time and memory
// and buy nothing that can be measured.
const MaxDepth = 32

// Layout is the dimensions of a sketch. Its methods count in words of the caller's, of
// which it takes the first [Layout.Words]: many small sketches of one layout need
// no headers of their own. The zero value has no cells and reads 0 for every key.
type Layout struct {
	width  uint64 // cells a row, below 1<<31
	stride uint64 // cells from one row to the next: width rounded up to whole words
	depth  int
	max    uint32 // all bits of one cell
	per    uint8  // log2 of the cells in a word
	shift  uint8  // log2 of the bits in a cell
}

// NewLayout returns the layout of depth rows (1 … 32) and width cells a row
// (1 … 1<<31-1), each cell cellBits (4, 8, 16 or 32) bits wide.
func NewLayout(depth, width, cellBits int) (Layout, error) {
	n, err := Words(depth, width, cellBits)
	if err != nil {
		return Layout{}, err
	}
	l := Layout{
		width: uint64(width),
		depth: depth,
		max:   math.MaxUint32 >> (32 - cellBits),
		shift: uint8(bits.TrailingZeros(uint(cellBits))),
	}
	l.per = 6 - l.shift
	l.stride = uint64(n/depth) << l.per
	return l, nil
}

// Words returns the number of 64-bit words that the cells take.
func (l *Layout) Words() int { return l.depth * int(l.stride>>(l.per&63)) }

// Depth returns the number of rows.
func (l *Layout) Depth() int { return l.depth }

// Width returns the number of cells in a row.
func (l *Layout) Width() int { return int(l.width) }

// CellBits returns the number of bits in a cell.
func (l *Layout) CellBits() int { return 1 << l.shift }

// Max returns the largest count that a cell holds.
func (l *Layout) Max() uint32 { return l.max }

// Estimate is [Sketch.Estimate] on the cells in words.
func (l *Layout) Estimate(words []uint64, h uint64) uint32 {
	if l.depth == 4 {
		return l.estimate4(words, h)
	}
	least := l.max
	for r := 0; r < l.depth; r += 2 {
		w, sh := l.cell(r, h>>32)
		least = min(least, uint32(words[w]>>(sh&63))&l.max)
		if r+1 < l.depth {
			w, sh = l.cell(r+1, h&math.MaxUint32)
			least = min(least, uint32(words[w]>>(sh&63))&l.max)
		}
		h = remix(h)
	}
	return least
}

// estimate4 is Estimate without the loop, for the depth that limiters use: the loads
// of all rows begin at once.
func (l *Layout) estimate4(words []uint64, h uint64) uint32 {
	g := remix(h)
	i0 := h >> 32 * l.width >> 32
	i1 := h&math.MaxUint32*l.width>>32 + l.stride
	i2 := g>>32*l.width>>32 + 2*l.stride
	i3 := g&math.MaxUint32*l.width>>32 + 3*l.stride
	per, shift := l.per&63, l.shift&63
	return min(
		uint32(words[i0>>per]>>(i0<<shift&63))&l.max,
		uint32(words[i1>>per]>>(i1<<shift&63))&l.max,
		uint32(words[i2>>per]>>(i2<<shift&63))&l.max,
		uint32(words[i3>>per]>>(i3<<shift&63))&l.max)
}

// Raise is [Sketch.Raise] on the cells in words.
func (l *Layout) Raise(words []uint64, h uint64, c uint32) {
	c = min(c, l.max)
	for r := 0; r < l.depth; r += 2 {
		l.raise(words, r, h>>32, c)
		if r+1 < l.depth {
			l.raise(words, r+1, h&math.MaxUint32, c)
		}
		h = remix(h)
	}
}

// raise stores without a branch: whether a cell rises is data that no predictor
// learns, and a store that changes nothing is cheaper than a misprediction.
func (l *Layout) raise(words []uint64, row int, draw uint64, c uint32) {
	w, sh := l.cell(row, draw)
	word := &words[w]
	old := uint32(*word>>(sh&63)) & l.max
	*word += uint64(max(old, c)-old) << (sh & 63)
}

// cell turns 32 random bits into a cell of a row. Multiplying maps them evenly on
// any width; a remainder would cost a division, a mask would want powers of two.
func (l *Layout) cell(row int, draw uint64) (word uint64, shift uint8) {
	i := uint64(row)*l.stride + draw*l.width>>32
	return i >> (l.per & 63), uint8(i<<(l.shift&63)) & 63
}

// remix draws the next 64 bits for the next two rows.
func remix(h uint64) uint64 {
	hi, lo := bits.Mul64(h^0x2d358dccaa6c78a5, 0x8bb84b93962eacc9)
	return hi ^ lo
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
