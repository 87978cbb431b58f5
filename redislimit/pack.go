package redislimit

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
// Most cells of most records take a byte. A zero byte begins the next record.

// appendCell appends a cell that has risen by n units (above 0), gap (above 0) after the
// one before.
func appendCell(b []byte, gap int, n uint64) []byte {
	if n == 1 {
		return binary.AppendUvarint(b, uint64(gap)<<1)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(gap)<<1|1), n-2)
}

var errRecord = errors.New("redislimit: record of cells is cut or out of bounds")

// risen yields the cells of records one after another, each below cells, and the units
// that each has risen by. It ends with an error at what is no record.
func risen(records []byte, cells int) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		at := -1
		for len(records) > 0 {
			if records[0] == 0 {
				at, records = -1, records[1:]
				continue
			}
			gap, size := binary.Uvarint(records)
			if size <= 0 || gap>>1 == 0 || gap>>1 >= uint64(cells-at) {
				yield(change{}, errRecord)
				return
			}
			records = records[size:]
			at += int(gap >> 1)
			n := uint64(1)
			if gap&1 == 1 {
				more, size := binary.Uvarint(records)
				if size <= 0 || more > math.MaxUint32-2 {
					yield(change{}, errRecord)
					return
				}
				records = records[size:]
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

// risenIn returns records of the cells that are higher in to than in from, words of the same cells: none of
// them is longer than so many bytes and one cell.
func (l lanes) risenIn(from, to []uint64, longest int) (records [][]byte) {
	before := -1
	var b []byte
	for w, now := range to {
		if now == from[w] {
			continue
		}
		for lane := range l.perWord() {
			was, is := from[w]>>(lane*l.bits)&l.max(), now>>(lane*l.bits)&l.max()
			if is <= was {
				continue
			}
			if len(b) >= longest {
				records, b, before = append(records, b), nil, -1
			}
			cell := w*l.perWord() + lane
			b = appendCell(b, cell-before, is-was)
			before = cell
		}
	}
	return append(records, b)
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

// without puts in to what cells of a sum, as Redis keeps them, hold beyond those of own.
// Redis keeps cells one after another, each with the highest byte first, and none
// after the last that is not 0. A cell that is full may have held more.
func (l lanes) without(to []uint64, sum []byte, own []uint64) {
	size := l.bits / 8
	for w := range to {
		to[w] = 0
		for lane := range l.perWord() {
			var n uint64
			for i := range size {
				n <<= 8
				if at := (w*l.perWord()+lane)*size + i; at < len(sum) {
					n |= uint64(sum[at])
				}
			}
			if mine := own[w] >> (lane * l.bits) & l.max(); n < l.max() {
				n -= min(n, mine)
			}
			to[w] |= n << (lane * l.bits)
		}
	}
}
