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
// A bucket is sixteen entries, those in use first, of which the second cache line is looked at only where the first is
// full. An entry is one word:
//
//	fingerprint | whole, previous and current | asked, previous and current | count, previous | count, current
//
// What a key has asked for since it has its entry, as far as an exact limiter would have admitted it, is its own beyond
// doubt, while its count began with a reading that may be others'. Where nothing hangs on certainty, asked begins with what of the reading is likely to be
// the key's own. So a denied key that has asked for little is one that others have carried to its limit.
// Where the word has few bits left, asked counts in steps; where it has hardly any, not at all.
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
	askedBits uint8 // of one asked
	askedStep uint8 // bits of a count that an asked does without
	flags     uint8 // bits below the flags
	shift     uint8 // bits of an entry beside the fingerprint
	above     uint8 // bits of an entry beside the counts
}

// HeavyBucket is the entries of a bucket of the heavy table. What a full bucket has no room for stays in cells,
// where it denies others: with eight entries a bucket that would be six times as many.
const HeavyBucket = 16

func newHeavyTable(limit int64, d Dimensions, print uint8) heavyTable {
	bits, _ := heavyBits(limit)
	asked := min(bits, (64-2-print-2*min(bits, 16))/2)
	if asked < min(bits, leastAsked) {
		asked = 0
	}
	return heavyTable{
		buckets:   uint64(d.HeavyEntries / HeavyBucket),
		threshold: int64(d.HeavyThreshold),
		bits:      bits,
		askedBits: asked,
		askedStep: bits - asked,
		flags:     2 * (bits + asked),
		shift:     2*(bits+asked) + 2,
		above:     64 - 2*bits,
	}
}

const (
	askedPrint = 30 // bits of a fingerprint that asked does not take
	sparePrint = 22 // the same where keys are spared by what they have asked for
	leastAsked = 3  // bits of asked: eighths of the limit
)

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

// SpareFits tells whether the entries of a heavy table can count what keys have asked for up to a limit: exactly up to
// 1023, and from there on in steps, which err by an eleventh of the limit at the most (one standard deviation).
func SpareFits(limit int) bool {
	bits := bits.Len(uint(limit))
	return limit > 1 && 64-2-sparePrint-2*bits >= 2*min(bits, 6)
}

// entries is a bucket: two cache lines of entries.
type entries [HeavyBucket]uint64

// entries returns the key's bucket in the table at words[first:], nil where there is no table.
func (t *heavyTable) entries(words []uint64, first int, h uint64) *entries {
	if t.buckets == 0 {
		return nil
	}
	return (*entries)(words[t.at(first, h):])
}

// at returns the first word of the key's bucket.
func (t *heavyTable) at(first int, h uint64) uint64 {
	return uint64(first) + h&0xffffffff*t.buckets>>32*HeavyBucket
}

// words returns those of the table.
func (t *heavyTable) words() int { return int(t.buckets) * HeavyBucket }

// room tells whether there is room for one more entry. It looks at the last one alone, behind which
// insert may find another that is spent.
func (t *heavyTable) room(b *entries) bool { return b != nil && t.spent(b[HeavyBucket-1]) }

// spent tells whether an entry, or a place for one, has no units in either generation. It only says that
// its key has none in the sketch either, and another key may have its place.
func (t *heavyTable) spent(entry uint64) bool { return entry<<(t.above&63) == 0 }

// find returns the key's entry in its bucket, or nil.
func (t *heavyTable) find(b *entries, h uint64) *uint64 {
	if b == nil || b[0] == 0 {
		return nil
	}
	print, shift := t.print(h), t.shift&63
	switch print { // written out, as all eight are looked at for most keys
	case b[0] >> shift:
		return &b[0]
	case b[1] >> shift:
		return &b[1]
	case b[2] >> shift:
		return &b[2]
	case b[3] >> shift:
		return &b[3]
	case b[4] >> shift:
		return &b[4]
	case b[5] >> shift:
		return &b[5]
	case b[6] >> shift:
		return &b[6]
	case b[7] >> shift:
		return &b[7]
	}
	if b[8] == 0 {
		return nil
	}
	switch print {
	case b[8] >> shift:
		return &b[8]
	case b[9] >> shift:
		return &b[9]
	case b[10] >> shift:
		return &b[10]
	case b[11] >> shift:
		return &b[11]
	case b[12] >> shift:
		return &b[12]
	case b[13] >> shift:
		return &b[13]
	case b[14] >> shift:
		return &b[14]
	case b[15] >> shift:
		return &b[15]
	}
	return nil
}

// insert makes an entry for a key that has none, in a place that is free or, where none is, in that of an entry
// that is spent, and returns it: there must be room.
func (t *heavyTable) insert(b *entries, h uint64, current int64) *uint64 {
	place := slices.Index(b[:], 0)
	if place < 0 {
		place = slices.IndexFunc(b[:], t.spent)
	}
	b[place] = t.print(h)<<(t.shift&63) | uint64(current)
	return &b[place]
}

// print returns the key's fingerprint, which is not 0: a free entry is nobody's.
func (t *heavyTable) print(h uint64) uint64 { return h*golden>>(t.shift&63) | 1 }

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ / φ: its multiples are spread evenly

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
	return entry>>((t.flags+uint8(age))&63)&1 != 0
}

// stir notes in an entry, if there is one, that its key has asked. It is for wide shards, in the bit that tells elsewhere whether
// the entry has counted the whole generation before: no cells are read there.
func (t *heavyTable) stir(entry *uint64) {
	if entry != nil {
		*entry |= 2 << (t.flags & 63)
	}
}

// settle tells whether the key of an entry has asked since it was settled last.
func (t *heavyTable) settle(entry *uint64) (stirred bool) {
	stirred = t.whole(*entry, 1)
	*entry &^= 2 << (t.flags & 63)
	return stirred
}

// asks tells whether entries count what their keys have asked for.
func (t *heavyTable) asks() bool { return t.askedBits > 0 }

// asked returns the units that the key of an entry has asked for in the generation of an age, 0 or 1, to a step.
func (t *heavyTable) asked(entry uint64, age int) int64 {
	return int64(entry >> ((2*t.bits + uint8(age)*t.askedBits) & 63) & (1<<(t.askedBits&63) - 1) << (t.askedStep & 63))
}

// own returns what the key of an entry has beyond doubt used in the generation of an age, 0 or 1, or would have if it had
// not been denied: never more than the entry's count.
func (t *heavyTable) own(entry uint64, age int) int64 {
	asked, count := t.asked(entry, age), t.count(entry, age)
	if asked>>(t.askedStep&63) == 1<<(t.askedBits&63)-1 { // it may have asked for any number
		return count
	}
	return min(asked, count)
}

// ask adds n units to what the key has asked for in the generation of an age, 0 or 1, as far as that can be counted. Where
// it is counted in steps, a number that differs from time to time rounds it up or down, so that it is right on average.
func (t *heavyTable) ask(entry *uint64, age int, n int64, turn uint64) {
	step, at := t.askedStep&63, (2*t.bits+uint8(age)*t.askedBits)&63
	most := uint64(1)<<(t.askedBits&63) - 1
	old := *entry >> at & most
	asked := min(most, old+(uint64(n)+turn*golden>>32&(1<<step-1))>>step)
	*entry += (asked - old) << at
}

// certain returns an entry of a wide shard, of a generation in which nothing has come yet, that counts what its key has beyond
// doubt used.
func (t *heavyTable) certain(entry uint64) uint64 {
	counts := uint64(1)<<(2*t.bits) - 1
	t.settle(&entry)
	return entry&^counts | uint64(t.own(entry, 1))<<(t.bits&63)
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

// rotate lets generations expire, ≥ 1, of those kept, 1 or 2, and reports whether there are entries left.
//
// An entry without units in the generation that ends is kept for one more, behind those in use. Its key was
// told when the units of the generation before come free; without the entry the sketch would be read for the
// one that ends, where other keys have left theirs.
func (t *heavyTable) rotate(table []uint64, expired, kept int) (left bool) {
	if expired >= kept {
		clear(table)
		return false
	}
	for ; len(table) > 0; table = table[HeavyBucket:] {
		b := (*entries)(table)
		if b[0] == 0 {
			continue // it is not written, and need not leave the cache again
		}
		was, used, resting := *b, 0, false
		*b = entries{}
		for _, e := range was {
			if t.count(e, 0) > 0 {
				b[used] = t.aged(e)
				used++
			} else if t.count(e, 1) > 0 {
				resting = true
			}
		}
		for i := 0; resting && i < HeavyBucket; i++ {
			if e := was[i]; t.count(e, 0) == 0 && t.count(e, 1) > 0 {
				b[used] = t.aged(e)
				used++
			}
		}
		left = left || used > 0
	}
	return left
}

// aged returns an entry in the next generation, of which it counts the whole.
func (t *heavyTable) aged(entry uint64) uint64 {
	whole := entry>>(t.flags&63)&1<<1 | 1
	asked := entry >> (2 * t.bits & 63) & (1<<(t.askedBits&63) - 1)
	return entry>>(t.shift&63)<<(t.shift&63) | whole<<(t.flags&63) |
		asked<<((2*t.bits+t.askedBits)&63) | uint64(t.count(entry, 0))<<(t.bits&63)
}
