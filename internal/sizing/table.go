package sizing

import (
	"fmt"
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

//go:generate go run ../../bench/sizes -write sizes_table.go

// sized is what limits from one on, to that of the next row, take by Tune where keys
// send five requests a window on average and one in a hundred sends three times the
// limit.
type sized struct {
	limit  int
	shapes [2]Shape                 // for rates of strictRate and more, and for lower ones
	bytes  [len(sizedRates)]float64 // a key, by rate
}

const (
	strictRate = 1e-7
	// lowCellBits are the bits of a counter in the rows for limits below lowBelow.
	lowCellBits = 8
)

// sized returns the row of the lowest limit, and for how many generations it is; fewer
// take as much, because each then has more to hold. It is nil for buckets and for
// windows with a limit of 1, which no table is needed for.
func (n *Need) sized() (row *sized, generations int) {
	table, generations, limit := slidingSizes, 2, n.Lowest
	switch {
	case n.Rule.IsBucket() || int(n.Rule.Limit) == 1:
		return nil, 0
	case n.Rule.Generations() == 1:
		table, generations = fixedSizes, 1
	case n.Rule.Generations() > 2 && limit >= subWindowSizes[0].limit: // sliding ones take no less below
		table, generations = subWindowSizes, 7
	}
	limit = max(limit, table[0].limit) // Bloom filters are what a lowest limit of 1 needs besides
	for i := range table {
		if limit >= table[i].limit {
			row = &table[i]
		}
	}
	return row, generations
}

func (s *sized) Shape(rate float64) Shape {
	if rate < strictRate {
		return s.shapes[1]
	}
	return s.shapes[0]
}

// bytesFor returns the bytes a key for a rate: between two columns, and beyond the
// last, as a power of it.
func (s *sized) bytesFor(rate float64) float64 {
	if rate >= sizedRates[0] {
		return s.bytes[0]
	}
	i := 1
	for i < len(sizedRates)-1 && rate < sizedRates[i] {
		i++
	}
	part := math.Log(rate/sizedRates[i-1]) / math.Log(sizedRates[i]/sizedRates[i-1])
	return s.bytes[i-1] * math.Pow(s.bytes[i]/s.bytes[i-1], part)
}

// lowSized is sized for limits that have a table of heavy keys, and of which the lowest
// ones would have none: with it they take less where cells are wide. It is nil for
// others.
func (n *Need) lowSized() (row *sized) {
	if !n.HeavyTable() || n.Lowest >= lowBelow {
		return nil
	}
	table := slidingLowSizes
	if n.Rule.Generations() == 1 {
		table = fixedLowSizes
	}
	for i := range table {
		if max(n.Lowest, table[0].limit) >= table[i].limit {
			row = &table[i]
		}
	}
	return row
}

// sizedFor returns how the bytes that so many keys take are spent, and how many these
// are: those of the limiter's row, or those for the units that keys use if these are
// more.
func (n *Need) sizedFor(keys int) (how Shape, bytes float64, err error) {
	if low := n.lowSize(); low != nil {
		return lowShape, n.lowBytes(low, keys), nil
	}
	row, generations := n.sized()
	how, bytes, err = n.spent(row, spec.CellBits(row.limit), generations, keys)
	if low := n.lowSized(); low != nil && err == nil {
		lowHow, lowBytes, err := n.spent(low, lowCellBits, generations, keys)
		if lowBytes < bytes {
			return lowHow, lowBytes, err
		}
	}
	if used := n.used(row, keys); used > bytes && err == nil {
		return n.Shape(int(used)), used, nil
	}
	return how, bytes, err
}

// spent is sizedFor by a row for cells of so many bits.
//
// Cells hold Limit, and are the wider for it where the row is that of a lower one.
// Against a limit of 1 any reading is too much, so Bloom filters hold the rate
// themselves, as they do where Limit is 1.
func (n *Need) spent(row *sized, bits, generations, keys int) (how Shape, bytes float64, err error) {
	how = row.Shape(n.Rate)
	bytes = math.Max(1, n.Headroom/tableHeadroom) * row.bytesFor(n.Rate) * float64(keys) * max(1, float64(n.Rule.Generations())/float64(generations))
	if n.Lowest == int(n.Rule.Limit) {
		return how, bytes, nil
	}
	heavy := bytes * how.Heavy
	filter := (bytes - heavy) * how.Filter
	cells := (bytes - heavy - filter) * float64(spec.CellBits(int(n.Rule.Limit))) / float64(bits)
	if n.Lowest == 1 {
		if filter, how.Probes, err = n.filtersFor(keys); err != nil {
			return Shape{}, 0, err
		}
		how.Probes = max(2, how.Probes) // with one it would not guard
	}
	bytes = heavy + filter + cells
	how.Heavy, how.Filter = heavy/bytes, filter/(filter+cells)
	return how, bytes, nil
}

// filtersFor returns the bytes and the probes of Bloom filters that deny so many keys
// wrongly as rarely as shall be, where each that is passed is a denial.
func (n *Need) filtersFor(keys int) (bytes float64, probes int, err error) {
	generations, rate := float64(n.Rule.Generations()), n.Rate
	filter, probes, err := bloom.Dimensions(keys, rate/generations)
	if err != nil {
		return 0, 0, fmt.Errorf("sketchlimit: FalseDenialRate %v of %d keys: %w", rate, keys, err)
	}
	return generations * float64(filter), probes, nil
}

// usedBytesRate is the false-denial rate that usedBytes are for.
const usedBytesRate = 1e-5

// usedBytes are the bytes a key of a sliding window whose keys use all of their limit
// on average, by the bits of its cells: what fills cells is units, and what a unit
// takes of the limit is what others lose. At two fifths, that is at twice the usual
// use, 1.6, 2.8 and 5.7 bytes were enough, with one key in a hundred above its limit;
// this is a quarter more.
var usedBytes = map[int]float64{4: 5, 8: 9, 16: 18}

// used returns the bytes that so many keys take by their units, of a limiter whose row
// of the table this is. Lower rates take as much more as they do there.
func (n *Need) used(row *sized, keys int) float64 {
	use := defaultUse
	if n.Units > 0 {
		use = n.Units / float64(n.Lowest)
	}
	bytes := float64(keys) * usedBytes[spec.CellBits(int(n.Rule.Limit))] * use * n.Headroom
	bytes *= float64(n.Rule.Generations()) / 2 // sub-windows have fewer units each, and what they read too much adds up
	return bytes * math.Max(1, row.bytesFor(n.Rate)/row.bytesFor(usedBytesRate))
}
