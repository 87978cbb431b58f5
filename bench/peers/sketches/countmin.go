package main

// countMin is the count-min sketch: G. Cormode and S. Muthukrishnan, "An Improved Data
// Stream Summary: The Count-Min Sketch and its Applications", Journal of Algorithms
// 55(1), 2005. Its cells have 8 bits, which is more than the limit.
type countMin struct{ rows }

func newCountMin(bytes int, s setting) sketch { return &countMin{newRows(bytes, s[0], 8)} }

func (c *countMin) add(h uint64, _ uint32) { c.grow(h, 1) }
