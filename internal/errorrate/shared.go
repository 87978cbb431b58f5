package errorrate

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
)

// FromShared returns the noise in the counters of those that share a limit: pairs of
// units, rising, and their probabilities. The first of a pair are units that count in
// full, up to most. The second are those of the oldest generation, which are weighted;
// if there is one generation they are 0.
//
// Words are the counters of a shard, by the age of their generation, from 0. They are
// as many for each age, in blocks, ≥ 1. A key has one block, the same at every age, and
// in each of its words one counter. A block is up to 4 words. A counter has 8, 16 or 32
// bits. If all of them are set it may stand for any number of units, which count as
// most.
//
// Words are read at once. The result may be ranged over repeatedly, but not
// concurrently.
func FromShared(words [][]uint64, blocks, counterBits int, most int64) iter.Seq2[[2]int64, float64] {
	s := shared{
		words: words, blocks: blocks, rows: len(words[0]) / blocks,
		bits: counterBits, max: 1<<counterBits - 1, most: most,
	}
	if s.max < 256 {
		s.dense = make([]float64, int(most+1)*int(s.max))
	}
	s.least = make([][]uint64, s.rows+1)
	for row := range s.least {
		s.least[row] = make([]uint64, len(words))
	}
	for age := range words {
		s.least[0][age] = s.max
	}
	for block := range blocks {
		if len(words) <= 2 {
			s.addBlock(block)
		} else {
			s.addRow(block, 0, 1/float64(blocks))
		}
	}
	return s.pairs
}

// shared adds up the noise block by block.
type shared struct {
	words  [][]uint64 // by age
	blocks int
	rows   int    // words of a block
	bits   int    // of a counter
	max    uint64 // all bits of a counter
	most   int64  // units that count in full

	least  [][]uint64 // of the counters in the rows before each, by age
	dense  []float64  // probabilities by pair, if counters have 8 bits
	sparse []pair     // otherwise
}

// pair is units that count in full, units that are weighted, and their probability.
type pair struct {
	units [2]int64
	p     float64
}

// addBlock does what addRow does for at most two generations, in a fraction of the
// time. The least counters of both are at or above two counts with the product, over
// the rows, of the shares of counters that are at or above both.
func (s *shared) addBlock(block int) {
	recent, oldest := s.counts(block, 0), []holders{{0, math.MaxUint32}}
	if len(s.words) == 2 {
		oldest = s.counts(block, 1)
	}
	p := math.Pow(float64(s.bits)/64, float64(s.rows)) / float64(s.blocks) // of one counter in each row
	above := make([]int, len(oldest))                                      // ways to have more of the recent
	for _, a := range slices.Backward(recent) {
		more, moreOfBoth := 0, 0 // ways to have more of the oldest
		for i, b := range slices.Backward(oldest) {
			ways := s.ways(a.counters & b.counters)
			if exactly := ways - more - above[i] + moreOfBoth; exactly > 0 {
				s.least[0][len(s.words)-1] = b.count
				s.least[0][0] = a.count
				s.add(s.units(0), float64(exactly)*p)
			}
			more, moreOfBoth, above[i] = ways, above[i], ways
		}
	}
}

// holders is a count, and the counters of a block that hold it or more, eight bits a
// row.
type holders struct {
	count    uint64
	counters uint32
}

// ways returns the number of choices of one counter in each row.
func (s *shared) ways(counters uint32) int {
	ways := 1
	for range s.rows {
		ways *= bits.OnesCount8(uint8(counters))
		counters >>= 8
	}
	return ways
}

// counts returns the counts in a block of a generation, rising.
func (s *shared) counts(block, age int) []holders {
	var counters []holders
	for row, word := range s.words[age][block*s.rows:][:s.rows] {
		for lane := range 64 / s.bits {
			counters = append(counters, holders{word & s.max, 1 << (8*row + lane)})
			word >>= s.bits
		}
	}
	slices.SortFunc(counters, func(a, b holders) int { return cmp.Compare(b.count, a.count) })
	rising, all := counters[:0], uint32(0)
	for _, c := range counters {
		all |= c.counters
		if n := len(rising); n > 0 && rising[n-1].count == c.count {
			rising[n-1].counters = all
		} else {
			rising = append(rising, holders{c.count, all})
		}
	}
	slices.Reverse(rising)
	return rising
}

// addRow adds the ways through a block from a row on, of probability p in all. Before
// it come the counters of the rows above, by their minimum. It ends early where that is
// 0.
func (s *shared) addRow(block, row int, p float64) {
	units := s.units(row)
	if row == s.rows || units == [2]int64{} {
		s.add(units, p)
		return
	}
	next := s.least[row+1]
	for lane := 0; lane < 64; lane += s.bits {
		for age, words := range s.words {
			next[age] = min(s.least[row][age], words[block*s.rows+row]>>lane&s.max)
		}
		s.addRow(block, row+1, p*float64(s.bits)/64)
	}
}

// units returns what the least counters of the rows before a row stand for.
func (s *shared) units(row int) (units [2]int64) {
	last := len(s.words) - 1
	for age, c := range s.least[row] {
		switch {
		case c == s.max:
			units[0] += s.most // or more than a counter can hold
		case age == last && last > 0:
			units[1] += int64(c)
		default:
			units[0] += int64(c)
		}
	}
	units[0] = min(units[0], s.most)
	return units
}

func (s *shared) add(units [2]int64, p float64) {
	if s.dense != nil {
		s.dense[units[0]*int64(s.max)+units[1]] += p
	} else {
		s.sparse = append(s.sparse, pair{units, p})
	}
}

// pairs yields the units and their probabilities.
func (s *shared) pairs(yield func(units [2]int64, p float64) bool) {
	for i, p := range s.dense {
		if p > 0 && !yield([2]int64{int64(i) / int64(s.max), int64(i) % int64(s.max)}, p) {
			return
		}
	}
	slices.SortFunc(s.sparse, func(a, b pair) int { return slices.Compare(a.units[:], b.units[:]) })
	for i := 0; i < len(s.sparse); {
		units, p := s.sparse[i].units, 0.0
		for ; i < len(s.sparse) && s.sparse[i].units == units; i++ {
			p += s.sparse[i].p
		}
		if !yield(units, p) {
			return
		}
	}
}
