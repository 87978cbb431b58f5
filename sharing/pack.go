package sharing

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
)

// What nodes tell each other is records of cells that have risen, in ascending order:
//
//	uvarint  cells since the one before (the first since cell −1) × 2, plus 1 if another number follows
//	uvarint  units − 2; without it the cell has risen by one
//
// Most cells of most records take a byte.

// appendCell appends a cell that has risen by n units (above 0), gap (above 0) after the
// one before.
func appendCell(b []byte, gap int, n uint64) []byte {
	if n == 1 {
		return binary.AppendUvarint(b, uint64(gap)<<1)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(gap)<<1|1), n-2)
}

var errRecord = errors.New("sharing: record of cells is cut or out of bounds")

// risen yields the cells of a record, in ascending order and each below cells, and the
// units that each has risen by. It ends with an error at what is no record.
func risen(record []byte, cells int) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		at := -1
		for len(record) > 0 {
			gap, size := binary.Uvarint(record)
			if size <= 0 || gap>>1 == 0 || gap>>1 >= uint64(cells-at) {
				yield(change{}, errRecord)
				return
			}
			record = record[size:]
			at += int(gap >> 1)
			n := uint64(1)
			if gap&1 == 1 {
				more, size := binary.Uvarint(record)
				if size <= 0 || more > math.MaxUint32-2 {
					yield(change{}, errRecord)
					return
				}
				record = record[size:]
				n = more + 2
			}
			if !yield(change{at, uint32(n)}, nil) {
				return
			}
		}
	}
}

// change is a cell that has risen by n units.
type change struct {
	cell int
	n    uint32
}

// lanes is how cells lie in words, the first in the lowest bits.
type lanes struct {
	bits int // of a cell: 8, 16 or 32
}

func (l lanes) perWord() int { return 64 / l.bits }

func (l lanes) max() uint64 { return 1<<l.bits - 1 }

// packer makes records of cells that have risen, cut at about longest bytes.
type packer struct {
	lanes
	longest int
	before  int // cell of the current record, -1 if it has none
	current []byte
	full    [][]byte
}

func newPacker(l lanes, longest int) *packer { return &packer{lanes: l, longest: longest, before: -1} }

// risen takes in the cells that are higher in to than in from, words of the same cells,
// of which the first is word first of all. Words must come in ascending order.
func (p *packer) risen(first int, from, to []uint64) {
	for w, now := range to {
		if now == from[w] {
			continue
		}
		for lane := range p.perWord() {
			was, is := from[w]>>(lane*p.bits)&p.max(), now>>(lane*p.bits)&p.max()
			if is <= was {
				continue
			}
			if len(p.current) >= p.longest {
				p.full, p.current, p.before = append(p.full, p.current), nil, -1
			}
			cell := (first+w)*p.perWord() + lane
			p.current = appendCell(p.current, cell-p.before, is-was)
			p.before = cell
		}
	}
}

// records returns what was taken in, no record if that is nothing.
func (p *packer) records() [][]byte {
	if len(p.current) == 0 {
		return p.full
	}
	return append(p.full, p.current)
}

// add adds n to a cell, which stops at its largest value.
func (l lanes) add(words []uint64, cell int, n uint64) {
	w, lane := cell/l.perWord(), cell%l.perWord()*l.bits
	was := words[w] >> lane & l.max()
	words[w] += (min(was+n, l.max()) - was) << lane
}

// raise raises cells to those of least, words of the same cells.
func (l lanes) raise(words, least []uint64) {
	for w, now := range words {
		for lane := 0; lane < 64 && now != least[w]; lane += l.bits {
			is, must := now>>lane&l.max(), least[w]>>lane&l.max()
			words[w] += (max(is, must) - is) << lane
		}
	}
}

// sub subtracts n from a cell, which stops at 0. A cell at its largest value may have
// held more, and stays.
func (l lanes) sub(words []uint64, cell int, n uint64) {
	w, lane := cell/l.perWord(), cell%l.perWord()*l.bits
	if was := words[w] >> lane & l.max(); was < l.max() {
		words[w] -= min(was, n) << lane
	}
}

// sum adds the cells of more to those of words. Each stops at its largest value.
func (l lanes) sum(words, more []uint64) {
	for w, m := range more {
		for lane := 0; lane < 64 && m>>lane != 0; lane += l.bits {
			was := words[w] >> lane & l.max()
			words[w] += (min(was+m>>lane&l.max(), l.max()) - was) << lane
		}
	}
}

// less subtracts the cells of less from those of words, as sub does.
func (l lanes) less(words, less []uint64) {
	for w, m := range less {
		for lane := 0; lane < 64 && m>>lane != 0; lane += l.bits {
			if was := words[w] >> lane & l.max(); was < l.max() {
				words[w] -= min(was, m>>lane&l.max()) << lane
			}
		}
	}
}
