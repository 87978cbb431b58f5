package main

import "math/bits"

// cells is an array of counters of 1, 2, 4 or 8 bits, packed into words.
type cells struct {
	words []uint64
	width uint64 // bits of a counter
	shift uint64 // log2 of the counters of a word
	max   uint32
}

func newCells(words, width int) cells {
	return cells{make([]uint64, words), uint64(width), uint64(bits.TrailingZeros(64 / uint(width))), 1<<width - 1}
}

// count returns the number of counters.
func (c *cells) count() uint64 { return uint64(len(c.words)) << c.shift }

func (c *cells) bits() int { return 64 * len(c.words) }

func (c *cells) clear() { clear(c.words) }

func (c *cells) get(i uint64) uint32 {
	return uint32(c.words[i>>c.shift]>>(c.lane(i)&63)) & c.max
}

func (c *cells) set(i uint64, v uint32) {
	w, lane := &c.words[i>>c.shift], c.lane(i)&63
	*w = *w&^(uint64(c.max)<<lane) | uint64(v)<<lane
}

// lane returns the first bit of a counter in its word.
func (c *cells) lane(i uint64) uint64 { return i & (1<<c.shift - 1) * c.width }

// rows is an array of cells in rows. A key has one cell in each, and its count is the
// least of them.
type rows struct {
	cells
	depth int
	row   uint64 // cells of a row
}

// newRows returns rows of cells of a width in bits that fill the bytes as far as they
// can.
func newRows(bytes, depth, width int) rows {
	r := rows{cells: newCells(bytes/8, width), depth: depth}
	r.row = r.count() / uint64(depth)
	return r
}

func (r *rows) estimate(h uint64) uint32 {
	least := r.max
	for first := uint64(0); first < uint64(r.depth)*r.row; first += r.row {
		least = min(least, r.get(first+pick(h, r.row)))
		h = next(h)
	}
	return least
}

// grow adds to each of the key's cells, up to what a cell holds.
func (r *rows) grow(h uint64, n uint32) {
	for first := uint64(0); first < uint64(r.depth)*r.row; first += r.row {
		i := first + pick(h, r.row)
		r.set(i, min(r.get(i)+n, r.max))
		h = next(h)
	}
}

// raise lifts the key's cells to a count at least.
func (r *rows) raise(h uint64, count uint32) {
	for first := uint64(0); first < uint64(r.depth)*r.row; first += r.row {
		if i := first + pick(h, r.row); r.get(i) < count {
			r.set(i, count)
		}
		h = next(h)
	}
}
