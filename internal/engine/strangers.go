package engine

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
)

// fresh returns what a new key reads of the others' units: those that count in full, of which more than most
// are most, and if there are several generations those of the oldest; with the chance of each pair.
func (s *Share) fresh(others [][]uint64, most int64) iter.Seq2[[2]int64, float64] {
	w := strangers{Share: s, others: others, most: most}
	if s.max < 256 {
		w.dense = make([]float64, int(most+1)*int(s.max))
	}
	for row := range w.least {
		w.least[row] = make([]uint64, len(others))
	}
	for age := range others {
		w.least[0][age] = s.max
	}
	for block := range int(s.blocks) {
		if len(others) <= 2 {
			w.block(block)
		} else {
			w.row(block, 0, 1/float64(s.blocks))
		}
	}
	return w.pairs
}

// strangers goes through the cells that a new key may have.
type strangers struct {
	*Share
	others [][]uint64              // by age
	most   int64                   // units that are told apart
	least  [halfWords + 1][]uint64 // cells in the rows before each, by age

	dense  []float64 // chances by units, where there are few of them
	sparse []stranger
}

// stranger is a key, or some, and what it reads.
type stranger struct {
	units [2]int64
	p     float64
}

// block is row for at most two generations, in a fraction of the time: the least cells of both are at or above two
// counts with the product, over the rows, of the shares of lanes in which both cells are.
func (w *strangers) block(block int) {
	recent, oldest := w.levels(block, 0), []level{{0, math.MaxUint32}}
	if len(w.others) == 2 {
		oldest = w.levels(block, 1)
	}
	p := math.Pow(float64(w.CellBits())/64, halfWords) / float64(w.blocks) // of one cell in each row
	above := make([]int, len(oldest))                                      // ways to have more of the recent
	for _, a := range slices.Backward(recent) {
		more, moreOfBoth := 0, 0 // ways to have more of the oldest
		for i, b := range slices.Backward(oldest) {
			ways := a.ways(b)
			if exactly := ways - more - above[i] + moreOfBoth; exactly > 0 {
				w.least[0][len(w.others)-1] = b.count
				w.least[0][0] = a.count
				w.add(w.units(0), float64(exactly)*p)
			}
			more, moreOfBoth, above[i] = ways, above[i], ways
		}
	}
}

// level is a count and the cells of a block, eight bits a row, that hold as much or more.
type level struct {
	count uint64
	cells uint32
}

// ways returns how many choices of a cell in each row are among both.
func (l level) ways(other level) int {
	both, ways := l.cells&other.cells, 1
	for range halfWords {
		ways *= bits.OnesCount8(uint8(both))
		both >>= 8
	}
	return ways
}

// levels returns the counts of a block's cells in the generation of an age, rising.
func (w *strangers) levels(block, age int) []level {
	var cells []level
	for row, word := range w.others[age][block*halfWords:][:halfWords] {
		for lane := range 64 / w.CellBits() {
			cells = append(cells, level{word & w.max, 1 << (8*row + lane)})
			word >>= w.CellBits()
		}
	}
	slices.SortFunc(cells, func(a, b level) int { return cmp.Compare(b.count, a.count) })
	levels, all := cells[:0], uint32(0)
	for _, c := range cells {
		all |= c.cells
		if n := len(levels); n > 0 && levels[n-1].count == c.count {
			levels[n-1].cells = all
		} else {
			levels = append(levels, level{c.count, all})
		}
	}
	slices.Reverse(levels)
	return levels
}

// row goes through a block's cells in a row, each beside the least of the rows before, until nothing is less.
func (w *strangers) row(block, row int, p float64) {
	units := w.units(row)
	if row == halfWords || units == [2]int64{} {
		w.add(units, p)
		return
	}
	next := w.least[row+1]
	for lane := 0; lane < 64; lane += w.CellBits() {
		for age, cells := range w.others {
			next[age] = min(w.least[row][age], cells[block*halfWords+row]>>lane&w.max)
		}
		w.row(block, row+1, p*float64(w.CellBits())/64)
	}
}

// units returns what the least cells of so many rows stand for.
func (w *strangers) units(rows int) (units [2]int64) {
	last := len(w.others) - 1
	for age, c := range w.least[rows] {
		switch {
		case c == w.max:
			units[0] += w.most // or more than a cell can hold
		case age == last && last > 0:
			units[1] += int64(c)
		default:
			units[0] += int64(c)
		}
	}
	units[0] = min(units[0], w.most)
	return units
}

func (w *strangers) add(units [2]int64, p float64) {
	if w.dense != nil {
		w.dense[units[0]*int64(w.max)+units[1]] += p
	} else {
		w.sparse = append(w.sparse, stranger{units, p})
	}
}

// pairs yields the units and their chances.
func (w *strangers) pairs(yield func(units [2]int64, p float64) bool) {
	for i, p := range w.dense {
		if p > 0 && !yield([2]int64{int64(i) / int64(w.max), int64(i) % int64(w.max)}, p) {
			return
		}
	}
	slices.SortFunc(w.sparse, func(a, b stranger) int { return slices.Compare(a.units[:], b.units[:]) })
	for i := 0; i < len(w.sparse); {
		units, p := w.sparse[i].units, 0.0
		for ; i < len(w.sparse) && w.sparse[i].units == units; i++ {
			p += w.sparse[i].p
		}
		if !yield(units, p) {
			return
		}
	}
}
