package sketchlimit

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
)

// odds is the distribution of a number of units, by rising number.
type odds []chance

type chance struct {
	units int64
	p     float64
}

// atLeast returns the chance of so many units or more.
func (o odds) atLeast(units int64) (p float64) {
	first, _ := slices.BinarySearchFunc(o, units, func(c chance, units int64) int { return cmp.Compare(c.units, units) })
	for _, c := range o[first:] {
		p += c.p
	}
	return p
}

// fresh returns what a key that a generation has never seen reads in it: nothing unless it passes the
// doorkeeper, and then the unit that this stands for and the least of its cells.
func (g *generation) fresh() odds {
	if g.missing() {
		return odds{{0, 1}}
	}
	passes := g.door.FalsePositiveRate()
	o := odds{{0, 1 - passes}}
	if passes > 0 {
		for _, r := range g.cells.Readings() {
			o = append(o, chance{1 + int64(r.Count), passes * r.Chance})
		}
	}
	return o
}

// mostOdds bounds the numbers that a sum tells apart: beyond that they are rounded up.
const mostOdds = 4096

// plus returns the distribution of the sum of two independent numbers, of which those above most count as most.
func (o odds) plus(other odds, most int64) (sum odds) {
	if len(o) == 1 && o[0].units == 0 {
		return other
	}
	if len(other) == 1 && other[0].units == 0 {
		return o
	}
	step := (most + mostOdds - 1) / mostOdds
	all := make([]float64, min(most, mostOdds)+1)
	for _, a := range o {
		for _, b := range other {
			all[(min(a.units+b.units, most)+step-1)/step] += a.p * b.p
		}
	}
	for i, p := range all {
		if p > 0 {
			sum = append(sum, chance{int64(i) * step, p})
		}
	}
	return sum
}

// denied returns the chance that a new key is denied n units at a limit which the exact algorithm admits.
//
// Its readings in the generations are independent, because their seeds are. A generation of a predecessor
// counts together with the limiter's own. So do the cells of those that share the limit, which are the same for
// all generations: what a key reads there is gone through case by case.
func (s *piece) denied(n, limit int64) float64 {
	if s.bucket.burst > 0 {
		return s.bucket.falseDenialRate(s.at, &s.ages[0].cells, n, limit, s.limit)
	}
	if n < 1 || n > limit {
		return 0
	}
	over := limit - n + 1                        // units that leave too few
	recent, oldest := odds{{0, 1}}, odds{{0, 1}} // units that count in full, and those that are weighted
	for age := range s.ages {
		if age > 0 && age == s.generations-1 {
			oldest = s.ages[age].fresh().plus(s.former[age].fresh(), 2*s.limit)
		} else {
			recent = recent.plus(s.ages[age].fresh().plus(s.former[age].fresh(), over), over)
		}
	}
	rate := 0.0
	if s.others == nil {
		rate = s.beside(recent, oldest, over, 0)
	} else {
		for units, p := range s.share.Load().fresh(s.others, over) {
			rate += p * s.beside(recent, oldest, over-units[0], units[1])
		}
	}
	return min(1, rate+s.mistaken(over))
}

// beside returns the chance of so many units or more, with a part of the oldest generation's that is certain.
func (s *piece) beside(recent, oldest odds, over, part int64) (p float64) {
	for _, c := range oldest {
		p += c.p * recent.atLeast(over-s.weighted(c.units+part, s.generations-1, s.at.Elapsed))
	}
	return p
}

// mistaken returns the chance that a new key is taken for a heavy one which has so many units.
func (s *piece) mistaken(over int64) float64 {
	n := 0
	for _, e := range s.table {
		if e != 0 && s.heavy.count(e, 0)+s.weighted(s.heavy.count(e, 1), 1, s.at.Elapsed) >= over {
			n++
		}
	}
	if n == 0 { // or there is no table
		return 0
	}
	return float64(n) * s.heavy.collides()
}

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
