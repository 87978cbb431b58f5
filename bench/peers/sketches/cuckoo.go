package main

// cuckoo is a table of fingerprints with counts beside a sketch with conservative
// update. The table is that of B. Fan, D. Andersen, M. Kaminsky and M. Mitzenmacher,
// "Cuckoo Filter: Practically Better Than Bloom", CoNEXT 2014: an entry lies in one of
// two buckets, and its bucket and fingerprint tell the other one. A key enters the
// table when the sketch reads a threshold, and stays in the sketch if there is no room.
//
// Two keys with the same buckets and fingerprint share an entry, and one of them may
// have units in the sketch from before. So a count is the greater of both readings.
//
//	entry: fingerprint | count (7 bits)
type cuckoo struct {
	table     entries
	buckets   uint64
	threshold uint32
	used      uint64 // entries
	overflow  rows
}

const (
	cuckooBucket = 4 // entries
	cuckooMoves  = 32
	cuckooCount  = 1<<7 - 1
)

// newCuckoo takes the bytes of an entry, the memory of the table in percent, and the
// threshold.
func newCuckoo(bytes int, s setting) sketch {
	c := &cuckoo{table: newEntries(bytes*s[1]/100, s[0], cuckooBucket), threshold: uint32(s[2])}
	c.buckets = c.table.count() / cuckooBucket
	c.overflow = newRows(bytes-c.table.bits()/8, 3, 8)
	return c
}

func (c *cuckoo) bits() int { return c.table.bits() + c.overflow.bits() }

func (c *cuckoo) clear() {
	c.table.clear()
	c.overflow.clear()
	c.used = 0
}

// other returns the other bucket of a fingerprint. The two add up to a number that the
// fingerprint decides.
func (c *cuckoo) other(bucket uint64, print uint32) uint64 {
	sum := pick(next(next(uint64(print))), c.buckets)
	if sum < bucket {
		sum += c.buckets
	}
	return sum - bucket
}

// find returns the place and count of the key's entry; a count of 0 says that there is
// none.
func (c *cuckoo) find(h uint64) (place uint64, count uint32) {
	print := c.table.print(h, 7)
	first := pick(h, c.buckets)
	for _, bucket := range [2]uint64{first, c.other(first, print)} {
		for i := bucket * cuckooBucket; i < (bucket+1)*cuckooBucket; i++ {
			if v := c.table.get(i); v>>7 == print && v&cuckooCount > 0 {
				return i, v & cuckooCount
			}
		}
	}
	return 0, 0
}

func (c *cuckoo) estimate(h uint64) uint32 {
	_, count := c.find(h)
	return max(count, c.overflow.estimate(rehash(h)))
}

func (c *cuckoo) add(h uint64, estimate uint32) {
	print := c.table.print(h, 7)
	place, count := c.find(h)
	switch {
	case count > 0:
		c.table.set(place, print<<7|(estimate+1))
	case estimate+1 < c.threshold || !c.insert(h, print<<7|(estimate+1)):
		c.overflow.raise(rehash(h), estimate+1)
	}
}

// insert puts an entry into one of its buckets. Where they are full it moves an entry
// to its other bucket, and so on. If there is no room after a number of moves, it takes
// them back. A table that is nearly full takes no more.
func (c *cuckoo) insert(h uint64, entry uint32) bool {
	if c.used*20 >= c.table.count()*19 {
		return false
	}
	bucket := pick(h, c.buckets)
	if c.put(bucket, entry) {
		return true
	}
	var path [cuckooMoves]uint64 // places of moved entries
	for n := range path {
		if bucket = c.other(bucket, entry>>7); c.put(bucket, entry) {
			return true
		}
		h = next(h)
		path[n] = bucket*cuckooBucket + h%cuckooBucket
		entry = c.swap(path[n], entry)
	}
	for n := len(path) - 1; n >= 0; n-- {
		entry = c.swap(path[n], entry)
	}
	return false
}

// put puts an entry into a free place of a bucket, if there is one.
func (c *cuckoo) put(bucket uint64, entry uint32) bool {
	for i := bucket * cuckooBucket; i < (bucket+1)*cuckooBucket; i++ {
		if c.table.get(i) == 0 {
			c.table.set(i, entry)
			c.used++
			return true
		}
	}
	return false
}

func (c *cuckoo) swap(i uint64, entry uint32) (was uint32) {
	was = c.table.get(i)
	c.table.set(i, entry)
	return was
}
