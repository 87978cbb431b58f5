package tune

import "time"

// counts are the units of every key in the generations that are kept.
type counts struct {
	byAge [][]int64 // by age of the generation and by key
	full  []int64   // by key, in all generations that count in full
}

func newCounts(generations, keys int) *counts {
	c := &counts{make([][]int64, generations), make([]int64, keys)}
	for age := range c.byAge {
		c.byAge[age] = make([]int64, keys)
	}
	return c
}

// turn begins a generation.
func (c *counts) turn() {
	last := len(c.byAge) - 1
	gone := c.byAge[last]
	copy(c.byAge[1:], c.byAge)
	leaves := c.byAge[last] // from now on the oldest, or the only one, which is over
	for key, n := range leaves {
		c.full[key] -= n
	}
	clear(gone)
	c.byAge[0] = gone
}

func (c *counts) add(key int, n int64) {
	c.byAge[0][key] += n
	c.full[key] += n
}

func (c *counts) used(w *window, key int, elapsed time.Duration) int64 {
	last := len(c.byAge) - 1
	if last == 0 {
		return c.full[key]
	}
	return c.full[key] + w.Weighted(c.byAge[last][key], last, elapsed)
}

// earlier is a key's units before the current generation.
type earlier struct {
	oldest int64 // in the generation that counts in part
	middle int64 // in all between that and the current one
	busy   int32 // of those, the generations with units of the key
}

func (c *counts) earlier(key int) (e earlier) {
	for age := 1; age < len(c.byAge)-1; age++ {
		if n := c.byAge[age][key]; n > 0 {
			e.middle += n
			e.busy++
		}
	}
	if last := len(c.byAge) - 1; last > 0 {
		e.oldest = c.byAge[last][key]
	}
	return e
}
