package main

// conservative is the count-min sketch with conservative update, which raises only the
// least of a key's cells: C. Estan and G. Varghese, "New Directions in Traffic
// Measurement and Accounting", SIGCOMM 2002.
type conservative struct{ rows }

func newConservative(bytes int, s setting) sketch { return &conservative{newRows(bytes, s[0], 8)} }

func (c *conservative) add(h uint64, estimate uint32) { c.raise(h, estimate+1) }
