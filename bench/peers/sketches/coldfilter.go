package main

// coldFilter is Cold Filter before a sketch with conservative update: Y. Zhou, T. Yang,
// J. Jiang, B. Cui, M. Yu, X. Li and S. Uhlig, "Cold Filter: A Meta-Framework for
// Faster and More Accurate Stream Processing", SIGMOD 2018. A key fills its cells in
// one layer after another, and what comes then is counted in the sketch. The paper has
// two layers; with no memory for the second one there is one.
type coldFilter struct {
	layers []rows
	sketch rows
}

const coldDepth = 3 // rows of each layer, as in the paper

// newColdFilter takes the bits of the first layer's cells, and the memory of first and
// second layer in percent.
func newColdFilter(bytes int, s setting) sketch {
	first, second := bytes*s[1]/100, bytes*s[2]/100
	c := &coldFilter{layers: []rows{newRows(first, coldDepth, s[0])}}
	if second > 0 {
		c.layers = append(c.layers, newRows(second, coldDepth, 4))
	}
	c.sketch = newRows(bytes-first-second, coldDepth, 8)
	return c
}

func (c *coldFilter) bits() int {
	n := c.sketch.bits()
	for i := range c.layers {
		n += c.layers[i].bits()
	}
	return n
}

func (c *coldFilter) clear() {
	c.sketch.clear()
	for i := range c.layers {
		c.layers[i].clear()
	}
}

func (c *coldFilter) estimate(h uint64) (sum uint32) {
	for i := range c.layers {
		v := c.layers[i].estimate(h)
		if sum += v; v < c.layers[i].max {
			return sum
		}
		h = rehash(h)
	}
	return sum + c.sketch.estimate(h)
}

func (c *coldFilter) add(h uint64, _ uint32) {
	for i := range c.layers {
		if v := c.layers[i].estimate(h); v < c.layers[i].max {
			c.layers[i].raise(h, v+1)
			return
		}
		h = rehash(h)
	}
	c.sketch.raise(h, c.sketch.estimate(h)+1)
}
