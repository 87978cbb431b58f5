package engine

import (
	"math"
	"math/bits"
	"slices"
)

// heavyTable is the layout of a shard's table of heavy keys: those on their way to
// the limit, counted exactly but for the rare two that share bucket and fingerprint,
// which count together. What is here fills no cells, so that a heavy key cannot
// carry its neighbours to the limit.
//
// A bucket is a cache line of eight entries, those in use first, an entry one word:
//
//	fingerprint | whole, previous and current | count, previous | count, current
//
// Two generations is all that fits, so windows in sub-windows do without the table, as
// do limits that leave too little of the word to the fingerprint.
//
// An entry that was there when a generation began has counted the whole of it: no key
// with that fingerprint has units elsewhere, and the entry is all that need be read.
// An entry made later may tell too little: of two keys that share it, the second may
// have units in the sketch from before. A key's count is then the greater of the two
// readings, and what is written back counts from there; so it stays an upper bound
// for both.
type heavyTable struct {
	buckets   uint64
	threshold int64 // units in one generation that make a key heavy
	bits      uint8 // of one count
	shift     uint8 // bits of an entry beside the fingerprint
	above     uint8 // bits of an entry beside the counts
}

// HeavyBucket is the entries of a bucket of the heavy table.
const HeavyBucket = 8

func newHeavyTable(limit int64, d Dimensions) heavyTable {
	bits, _ := heavyBits(limit)
	return heavyTable{
		buckets:   uint64(d.HeavyEntries / HeavyBucket),
		threshold: int64(d.HeavyThreshold),
		bits:      bits,
		shift:     2*bits + 2,
		above:     64 - 2*bits,
	}
}

// HeavyFits tells whether a heavy table can count up to a limit.
func HeavyFits(limit int) bool {
	_, ok := heavyBits(int64(limit))
	return ok
}

// heavyBits returns the bits of a count up to limit, and whether two of them leave
// enough of a word for a fingerprint.
func heavyBits(limit int64) (width uint8, ok bool) {
	width = uint8(bits.Len(uint(limit)))
	return width, 62-2*int(width) >= 20
}

// line is a bucket: a cache line of entries.
type line [HeavyBucket]uint64

// line returns the key's bucket in the table at words[first:], nil where there is no table.
func (t *heavyTable) line(words []uint64, first int, h uint64) *line {
	if t.buckets == 0 {
		return nil
	}
	return (*line)(words[t.bucket(first, h):])
}

// bucket returns the first word of the key's bucket.
func (t *heavyTable) bucket(first int, h uint64) uint64 {
	return uint64(first) + h&0xffffffff*t.buckets>>32*HeavyBucket
}

// room tells whether there is room for one more entry. It looks at the last one alone, behind which
// insert may find another that is spent.
func (t *heavyTable) room(l *line) bool { return l != nil && t.spent(l[HeavyBucket-1]) }

// spent tells whether an entry, or a place for one, has no units in either generation. It only says that
// its key has none in the sketch either, and another key may have its place.
func (t *heavyTable) spent(entry uint64) bool { return entry<<(t.above&63) == 0 }

// find returns the key's entry in its bucket, or nil.
func (t *heavyTable) find(l *line, h uint64) *uint64 {
	if l == nil || l[0] == 0 {
		return nil
	}
	print, shift := t.print(h), t.shift&63
	switch print { // written out, as all eight are looked at for most keys
	case l[0] >> shift:
		return &l[0]
	case l[1] >> shift:
		return &l[1]
	case l[2] >> shift:
		return &l[2]
	case l[3] >> shift:
		return &l[3]
	case l[4] >> shift:
		return &l[4]
	case l[5] >> shift:
		return &l[5]
	case l[6] >> shift:
		return &l[6]
	case l[7] >> shift:
		return &l[7]
	}
	return nil
}

// insert makes an entry for a key that has none, in a place that is free or, where none is, in that of an entry
// that is spent. It tells whether there was one.
func (t *heavyTable) insert(l *line, h uint64, current int64) bool {
	if l == nil {
		return false
	}
	place := slices.Index(l[:], 0)
	if place < 0 {
		place = slices.IndexFunc(l[:], t.spent)
	}
	if place >= 0 {
		l[place] = t.print(h)<<(t.shift&63) | uint64(current)
	}
	return place >= 0
}

// print returns the key's fingerprint, which is not 0: a free entry is nobody's.
func (t *heavyTable) print(h uint64) uint64 { return h*0x9e3779b97f4a7c15>>(t.shift&63) | 1 }

// collides returns the chance that a key which has no entry is taken for that of a given one.
func (t *heavyTable) collides() float64 {
	return math.Ldexp(1, int(t.shift)-63) / float64(t.buckets) // a fingerprint's last bit is always set
}

// count returns an entry's count of the generation of an age, 0 or 1.
func (t *heavyTable) count(entry uint64, age int) int64 {
	return int64(entry >> (uint8(age) * t.bits & 63) & (1<<(t.bits&63) - 1))
}

// whole tells whether an entry has counted all of its generation of an age, 0 or 1.
func (t *heavyTable) whole(entry uint64, age int) bool {
	return entry>>((2*t.bits+uint8(age))&63)&1 != 0
}

// held returns how many entries have counted a key's whole generation of an age, 0 or 1.
func (t *heavyTable) held(table []uint64, age int) (n int) {
	if t.buckets == 0 {
		return 0
	}
	for _, e := range table {
		if t.whole(e, age) && t.count(e, age) > 0 {
			n++
		}
	}
	return n
}

// set changes the current generation's count.
func (t *heavyTable) set(entry *uint64, current int64) {
	*entry = *entry&^(1<<(t.bits&63)-1) | uint64(current)
}

// turn begins so many generations (at least 1) of those kept, 1 or 2, and tells whether there are entries left.
//
// An entry without units in the generation that ends is kept for one more, behind those in use. Its key was
// told when the units of the generation before come free; without the entry the sketch would be read for the
// one that ends, where other keys have left theirs.
func (t *heavyTable) turn(table []uint64, turns, kept int) (left bool) {
	if turns >= kept {
		clear(table)
		return false
	}
	for ; len(table) > 0; table = table[HeavyBucket:] {
		l := (*line)(table)
		if l[0] == 0 {
			continue // it is not written, and need not leave the cache again
		}
		was, used, resting := *l, 0, false
		*l = line{}
		for _, e := range was {
			if t.count(e, 0) > 0 {
				l[used] = t.aged(e)
				used++
			} else if t.count(e, 1) > 0 {
				resting = true
			}
		}
		for i := 0; resting && i < HeavyBucket; i++ {
			if e := was[i]; t.count(e, 0) == 0 && t.count(e, 1) > 0 {
				l[used] = t.aged(e)
				used++
			}
		}
		left = left || used > 0
	}
	return left
}

// aged returns an entry in the next generation, of which it counts the whole.
func (t *heavyTable) aged(entry uint64) uint64 {
	flags := 2 * t.bits & 63
	whole := entry>>flags&1<<1 | 1
	return entry>>(flags+2)<<(flags+2) | whole<<flags | uint64(t.count(entry, 0))<<(t.bits&63)
}
