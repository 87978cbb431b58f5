package cms

import (
	"cmp"
	"slices"
)

// Reading is a count, and the chance (0 … 1) that a key which was never added reads it.
type Reading struct {
	Count  uint32
	Chance float64
}

// Readings returns what a key that was never added reads, by rising count: a
// distribution that sums to 1. It is no estimate. Such a key meets in every row a cell
// of its lane that is drawn at random, so it reads c or more with the product of the
// rows' shares of cells at c or above.
func (s *Sketch) Readings() []Reading {
	if s.depth == 0 {
		return []Reading{{0, 1}}
	}
	top := s.Max()
	if s.bits > 4 {
		top = s.top()
	}
	if top < tallied {
		return s.tally(int(top))
	}
	return s.ranked()
}

// tallied is the count below which cells are counted by what they hold, rather than
// sorted.
const tallied = 4096

// top returns the largest count in a cell.
func (s *Sketch) top() (top uint32) {
	for _, w := range s.words {
		for lane := uint64(0); lane < 64 && w>>lane != 0; lane += 2 * s.bits {
			top = max(top, uint32(s.count(w, lane)), uint32(s.count(w, lane+s.bits)))
		}
	}
	return top
}

// tally is Readings for cells that hold top at most.
func (s *Sketch) tally(top int) (readings []Reading) {
	values, lanes := top+1, s.Lanes()
	cells := make([]uint32, values*lanes)
	atLeast := make([]float64, values*lanes)
	for i := range atLeast {
		atLeast[i] = 1
	}
	for row := range s.depth {
		clear(cells)
		if s.bits == 4 {
			s.countDigits(row, cells, values)
		} else {
			s.countCells(row, cells, values)
		}
		for lane := range lanes {
			n := uint32(0)
			for v := top; v >= 0; v-- {
				n += cells[lane*values+v]
				atLeast[lane*values+v] *= float64(n) / float64(s.row)
			}
		}
	}
	for v := range values {
		chance := 0.0
		for first := 0; first < len(atLeast); first += values {
			chance += atLeast[first+v]
			if v < top {
				chance -= atLeast[first+v+1]
			}
		}
		if chance > 0 {
			readings = append(readings, Reading{uint32(v), chance / float64(lanes)})
		}
	}
	return readings
}

// countCells counts the cells of a row by what they hold, those of each lane after
// those of the lane before.
func (s *Sketch) countCells(row int, cells []uint32, values int) {
	for _, w := range s.words[row*int(s.row):][:s.row] {
		for lane := range s.Lanes() {
			cells[lane*values+int(s.count(w, uint64(lane)*s.bits))]++
		}
	}
}

// countDigits is countCells for cells of 4 bits, by the bytes that two of them share.
func (s *Sketch) countDigits(row int, cells []uint32, values int) {
	var bytes [8][256]uint32
	for _, w := range s.words[row*int(s.row):][:s.row] {
		for i := range bytes {
			bytes[i][uint8(w>>(8*i))]++
		}
	}
	for i := range bytes {
		for b, n := range bytes[i] {
			cells[2*i*values+int(digitCounts[0][b])] += n
			cells[(2*i+1)*values+int(digitCounts[1][b])] += n
		}
	}
}

// ranked is Readings for wide cells, whose counts are many and few of them alike.
func (s *Sketch) ranked() (readings []Reading) {
	rows := make([][]uint32, s.depth)
	at := make([]int, s.depth) // cells that hold the count or more
	for lane := range s.Lanes() {
		var counts []uint32
		for row := range rows {
			rows[row] = slices.AppendSeq(rows[row][:0], s.Cells(row, lane))
			slices.Sort(rows[row])
			counts = append(counts, rows[row]...)
			at[row] = 0
		}
		slices.Sort(counts)
		counts = slices.Compact(counts)
		higher := 0.0
		for _, c := range slices.Backward(counts) {
			chance := 1.0
			for row, cells := range rows {
				for at[row] < len(cells) && cells[len(cells)-1-at[row]] >= c {
					at[row]++
				}
				chance *= float64(at[row]) / float64(len(cells))
			}
			if chance > higher {
				readings = append(readings, Reading{c, (chance - higher) / float64(s.Lanes())})
			}
			higher = chance
		}
	}
	slices.SortFunc(readings, func(a, b Reading) int { return cmp.Compare(a.Count, b.Count) })
	distinct := readings[:1]
	for _, r := range readings[1:] {
		if last := &distinct[len(distinct)-1]; last.Count == r.Count {
			last.Chance += r.Chance
		} else {
			distinct = append(distinct, r)
		}
	}
	return distinct
}
