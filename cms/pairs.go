package cms

import "math"

// pairs is how cells of 8 and of 16 bits share a number of twice their bits. Up to
// apart it is two counts, the first cell's in the lower bits. Above it is one count
// that both cells share, in the lower bits up to max: a count that does not fit joins
// its cell with the one beside it. Cells of 32 bits stay apart.
type pairs struct {
	choose   uint64 // the bits of a hash that choose a pair
	all      uint64 // all bits of a pair
	maxSplit uint64 // the greatest pair that is two counts
}

func newPairs(l *Layout) pairs {
	p := pairs{choose: 64 - 2*l.bits, all: math.MaxUint64 >> (64 - 2*l.bits)}
	p.maxSplit = p.all
	if l.bits < 32 {
		p.maxSplit -= l.max + 1
	}
	return p
}

// readPair returns the count in a hash's lane of a word, the bit where it begins, and
// all bits that are its own: max if the pair is joint.
func (l *Layout) readPair(word, h uint64) (count, at, mask uint64) {
	at, mask = h&l.lanes, l.cell
	if p := word >> (h & l.choose & 63) & l.all; p > l.maxSplit {
		at, mask = h&l.choose, l.max
	}
	return word >> (at & 63) & mask, at, mask
}

// liftPair is lift for such pairs.
func (l *Layout) liftPair(word *uint64, h, c uint64) {
	was, at, mask := l.readPair(*word, h)
	room := min(l.cell, l.maxSplit>>(h&l.bits&63)) // what fits while the pair is apart
	if c <= room || mask == l.max {
		*word += (c - min(c, was)) << (at & 63)
		return
	}
	at = h & l.choose
	p := *word >> (at & 63) & l.all
	*word += (l.maxSplit + 1 + max(c, p&l.cell, p>>(l.bits&63)) - p) << (at & 63)
}
