package sketchlimit

import "math/bits"

// heavyTable is the layout of a shard's table of heavy keys: those on their way to
// the limit, counted exactly but for the rare two that share bucket and fingerprint,
// which count together. What is here fills no cells, so that a heavy key cannot
// carry its neighbours to the limit.
//
// A bucket is a cache line of eight entries, an entry one word:
//
//	fingerprint | count of the previous generation | count of the current one
//
// An entry whose counts are both 0 is free. Two generations is all that fits, so
// windows in sub-windows do without the table, as do limits that leave too little
// of the word to the fingerprint.
//
// An entry alone may tell too little: of two keys that share it, the second may have
// units in the sketch from before. A key's count is therefore the greater of the two
// readings, and what is written back counts from there; so it stays an upper bound
// for both.
type heavyTable struct {
	buckets   uint64
	threshold int64 // units in one generation that make a key heavy
	bits      uint8 // of one count
}

const heavyBucket = 8

// heavyBits returns the bits of a count up to limit, and whether two of them leave
// enough of a word for a fingerprint.
func heavyBits(limit int) (width uint8, ok bool) {
	width = uint8(bits.Len(uint(limit)))
	return width, 64-2*int(width) >= 20
}

// find returns the key's entry, or nil.
func (t *heavyTable) find(table []uint64, h uint64) *uint64 {
	if t.buckets == 0 {
		return nil
	}
	bucket, print := t.locate(table, h)
	for i := range bucket {
		if e := bucket[i]; e>>(2*t.bits&63) == print && e != 0 {
			return &bucket[i]
		}
	}
	return nil
}

// insert makes an entry for a key that has none, and tells whether there was room.
func (t *heavyTable) insert(table []uint64, h uint64, current int64) bool {
	if t.buckets == 0 {
		return false
	}
	bucket, print := t.locate(table, h)
	for i := range bucket {
		if bucket[i] == 0 {
			bucket[i] = print<<(2*t.bits&63) | uint64(current)
			return true
		}
	}
	return false
}

func (t *heavyTable) locate(table []uint64, h uint64) (bucket *[heavyBucket]uint64, print uint64) {
	i := h & 0xffffffff * t.buckets >> 32 * heavyBucket
	return (*[heavyBucket]uint64)(table[i:]), h * 0x9e3779b97f4a7c15 >> (2 * t.bits & 63)
}

// count returns an entry's count of the generation of an age, 0 or 1.
func (t *heavyTable) count(entry uint64, age int) int64 {
	return int64(entry >> (uint8(age) * t.bits & 63) & (1<<(t.bits&63) - 1))
}

// set changes the current generation's count.
func (t *heavyTable) set(entry *uint64, current int64) {
	*entry = *entry&^(1<<(t.bits&63)-1) | uint64(current)
}

// turn begins so many generations (at least 1) of those kept, 1 or 2.
func (t *heavyTable) turn(table []uint64, turns, kept int) {
	if turns >= kept {
		clear(table)
		return
	}
	for i, e := range table {
		if current := t.count(e, 0); current == 0 {
			table[i] = 0
		} else {
			table[i] = e>>(2*t.bits)<<(2*t.bits) | uint64(current)<<t.bits
		}
	}
}
