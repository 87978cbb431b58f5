package sketchlimit

import (
	"fmt"
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
)

//go:generate go run ./bench/sizes -write sizes_table.go

// sized is what limits from one on, to that of the next row, take by Tune where keys send five
// requests a window on average and one in a hundred sends three times the limit.
type sized struct {
	limit  int
	shapes [2]shape                 // for rates of strictRate and more, and for lower ones
	bytes  [len(sizedRates)]float64 // a key, by rate
}

const (
	strictRate = 1e-7
	// headroom is on top of what Tune takes: whoever states keys alone knows less of the
	// traffic. With it everybody is denied from three times the load on, rather than twice.
	headroom = 1.5
	// bucketBytesPerKey is what has been measured at a limit of 100, and smallBucket the
	// units from which on it will do.
	bucketBytesPerKey = 5
	smallBucket       = 20
	// lowBelow is the lowest limit from which on the rows of limits as low do, and lowCellBits the cells of those below.
	lowBelow    = 12
	lowCellBits = 16
)

// sized returns the row of the lowest limit, and for how many generations it is; fewer take as much, because
// each then has more to hold. It is nil for large buckets and for windows with a limit of 1, which
// no table is needed for.
func (c *Config) sized() (row *sized, generations int) {
	table, generations, limit := slidingSizes, 2, c.lowest()
	switch {
	case c.Algorithm == TokenBucket:
		if limit = min(limit, c.lowestUnits()); limit >= smallBucket {
			return nil, 0
		}
		table, generations = bucketSizes, 1
	case c.Limit == 1:
		return nil, 0
	case c.Algorithm == FixedWindow:
		table, generations = fixedSizes, 1
	case c.SubWindows > 1 && limit >= subWindowSizes[0].limit: // sliding ones take no less below
		table, generations = subWindowSizes, 7
	}
	if c.Algorithm != TokenBucket {
		limit = max(limit, table[0].limit) // doorkeepers are what a lowest limit of 1 needs besides
	}
	for i := range table {
		if limit >= table[i].limit {
			row = &table[i]
		}
	}
	return row, generations
}

func (s *sized) shape(rate float64) shape {
	if rate < strictRate {
		return s.shapes[1]
	}
	return s.shapes[0]
}

// bytesFor returns the bytes a key for a rate: between two columns, and beyond the last, as a
// power of it.
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

// lowSized is sized for limits that have a table of heavy keys, and of which the lowest ones would have none: with
// it they take less where cells are wide. It is nil for others.
func (c *Config) lowSized() (row *sized) {
	if !c.heavyTable() || c.lowest() >= lowBelow {
		return nil
	}
	table := slidingLowSizes
	if c.Algorithm == FixedWindow {
		table = fixedLowSizes
	}
	for i := range table {
		if max(c.lowest(), table[0].limit) >= table[i].limit {
			row = &table[i]
		}
	}
	return row
}

// sizedFor returns how the bytes of the limiter's row are spent for so many keys, and how many these are.
func (c *Config) sizedFor(keys int) (how shape, bytes float64, err error) {
	row, generations := c.sized()
	how, bytes, err = c.spent(row, cellBits(row.limit), generations, keys)
	if low := c.lowSized(); low != nil && err == nil {
		lowHow, lowBytes, err := c.spent(low, lowCellBits, generations, keys)
		if lowBytes < bytes {
			return lowHow, lowBytes, err
		}
	}
	return how, bytes, err
}

// spent is sizedFor by a row for cells of so many bits.
//
// Cells hold Limit, and are the wider for it where the row is that of a lower one. Against a limit of 1 any
// reading is too much, so doorkeepers hold the rate themselves, as they do where Limit is 1.
func (c *Config) spent(row *sized, bits, generations, keys int) (how shape, bytes float64, err error) {
	how = row.shape(c.goal())
	bytes = headroom * row.bytesFor(c.goal()) * float64(keys) * max(1, float64(c.generations())/float64(generations))
	if c.Algorithm == TokenBucket || c.lowest() == c.Limit {
		return how, bytes, nil
	}
	heavy := bytes * how.heavy
	door := (bytes - heavy) * how.door
	cells := (bytes - heavy - door) * float64(cellBits(c.Limit)) / float64(bits)
	if c.lowest() == 1 {
		if door, how.probes, err = c.doorsFor(keys); err != nil {
			return shape{}, 0, err
		}
	}
	bytes = heavy + door + cells
	how.heavy, how.door = heavy/bytes, door/(door+cells)
	return how, bytes, nil
}

// doorsFor returns the bytes and the probes of doorkeepers that deny so many keys wrongly as rarely as shall be, where
// each that is passed is a denial.
func (c *Config) doorsFor(keys int) (bytes float64, probes int, err error) {
	generations, rate := float64(c.generations()), c.goal()
	filter, probes, err := bloom.Dimensions(keys, rate/generations)
	if err != nil {
		return 0, 0, fmt.Errorf("sketchlimit: FalseDenialRate %v of %d keys: %w", rate, keys, err)
	}
	return generations * float64(filter), probes, nil
}

// memoryFor returns the memory that holds the false-denial rate for so many keys.
func (c *Config) memoryFor(keys int) (int, error) {
	rate := c.goal()
	var bytes float64
	var err error
	if row, _ := c.sized(); row != nil {
		_, bytes, err = c.sizedFor(keys)
	} else if c.Algorithm == TokenBucket {
		// the rate falls with about the fourth power of the memory, down to half of what
		// 1e-5 takes; below that the cliff is near where everybody is denied
		bytes = bucketBytesPerKey * float64(keys) * max(0.5, math.Pow(1e-5/rate, 0.25))
	} else {
		bytes, _, err = c.doorsFor(keys)
	}
	if err != nil {
		return 0, err
	}
	memory := 1.05*bytes + float64(c.smallest()) // 5 % for shards and their unevenness
	if memory > maxMemory {
		return 0, fmt.Errorf("sketchlimit: Keys %d at FalseDenialRate %v needs %.3g bytes, must be at most %d",
			keys, rate, memory, maxMemory)
	}
	return int(memory), nil
}
