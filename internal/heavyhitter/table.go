package heavyhitter

import (
	"math"
	"math/bits"
	"slices"
)

// Table is the layout of a table of heavy hitters, which lies in memory of the
// caller's. A heavy hitter is a key on its way to the limit: it is counted exactly
// here, but for the rare two that share bucket and fingerprint, which count together,
// and fills no counters that other keys share.
//
// A bucket is [BucketEntries] entries, those in use first, of which the second cache
// line is looked at only where the first is full. An entry is one word:
//
//	fingerprint | complete, previous and current | offered, previous and current | count, previous | count, current
//
// An entry keeps two counts. count starts at the sketch's estimate and is an upper
// bound. offered counts the requests since the entry was made, as far as an exact
// limiter would have admitted them, and is a lower bound, for limiters that deny by it
// beyond their plan. Where the word has few bits left, offered counts in steps; where it
// has hardly any, not at all.
//
// Two generations is all that fits, so windows in sub-windows do without the table, as
// do limits that leave too little of the word to the fingerprint.
//
// An entry that was there when a generation began is complete: no key with that
// fingerprint has units elsewhere, and the entry is all that need be read. An entry
// made later may be too low: of two keys that share it, the second may have units in
// the sketch from before. A key's count is then the greater of entry and estimate, and
// the count that is set starts there. So it stays an upper bound for both.
//
// A Table is immutable. Who calls it serialises access to the memory.
type Table struct {
	buckets     uint64
	bits        uint8 // of one count
	offeredBits uint8 // of one offered
	offeredStep uint8 // low bits of a count that offered does without
	flags       uint8 // bits below the flags
	shift       uint8 // bits of an entry beside the fingerprint
	above       uint8 // bits of an entry beside the counts
}

// BucketEntries is the entries of a bucket. What a full bucket has no room for stays in
// counters, where it denies others: with eight entries a bucket that would be six times
// as many.
const BucketEntries = 16

const (
	// PlainFingerprint is the bits of a fingerprint that offered does not take, and
	// ProvenFingerprint the same where keys are denied or not by what they have
	// offered.
	PlainFingerprint  = 30
	ProvenFingerprint = 22

	minOffered = 3 // bits of offered: eighths of the limit
)

// New returns the layout of a table of entries, ≥ 0 and a multiple of [BucketEntries],
// whose counts go up to a limit that [Fits], with fingerprints of some bits at least.
func New(limit int64, entries int, fingerprint uint8) Table {
	bits, _ := countBits(limit)
	offered := min(bits, (64-2-fingerprint-2*min(bits, 16))/2)
	if offered < min(bits, minOffered) {
		offered = 0
	}
	return Table{
		buckets:     uint64(entries / BucketEntries),
		bits:        bits,
		offeredBits: offered,
		offeredStep: bits - offered,
		flags:       2 * (bits + offered),
		shift:       2*(bits+offered) + 2,
		above:       64 - 2*bits,
	}
}

// Fits reports whether a table can count up to a limit.
func Fits(limit int) bool {
	_, ok := countBits(int64(limit))
	return ok
}

// countBits returns the bits of a count up to limit, and whether two of them leave
// enough of a word for a fingerprint.
func countBits(limit int64) (width uint8, ok bool) {
	width = uint8(bits.Len(uint(limit)))
	return width, 62-2*int(width) >= 20
}

// FitsOffered reports whether entries can count what keys have offered up to a limit:
// exactly up to 1023, and from there on in steps, which err by an eleventh of the limit
// at the most (one standard deviation).
func FitsOffered(limit int) bool {
	bits := bits.Len(uint(limit))
	return limit > 1 && 64-2-ProvenFingerprint-2*bits >= 2*min(bits, 6)
}

// Bucket is two cache lines of entries.
type Bucket [BucketEntries]uint64

// Bucket returns the bucket of a key, by its hash, in the table at words[first:]; nil
// if the table has no entries.
func (t *Table) Bucket(words []uint64, first int, h uint64) *Bucket {
	if t.buckets == 0 {
		return nil
	}
	return (*Bucket)(words[t.Index(first, h):])
}

// Index returns the first word of the key's bucket, in the table at the word first.
func (t *Table) Index(first int, h uint64) uint64 {
	return uint64(first) + h&0xffffffff*t.buckets>>32*BucketEntries
}

// Buckets returns the number of buckets.
func (t *Table) Buckets() uint64 { return t.buckets }

// Words returns the number of words of the table.
func (t *Table) Words() int { return int(t.buckets) * BucketEntries }

// HasRoom reports whether a bucket, which may be nil, has room for one more entry. It
// looks at the last one alone: Insert may find another that has expired.
func (t *Table) HasRoom(b *Bucket) bool { return b != nil && t.Expired(b[BucketEntries-1]) }

// Expired reports whether an entry, or a free place, has no units in either generation.
// Its key then has none in the sketch either, and another key may have the place.
func (t *Table) Expired(entry uint64) bool { return entry<<(t.above&63) == 0 }

// Find returns a key's entry in its bucket, which may be nil; or nil.
func (t *Table) Find(b *Bucket, h uint64) *uint64 {
	if b == nil || b[0] == 0 {
		return nil
	}
	fingerprint, shift := t.Fingerprint(h), t.shift&63
	switch fingerprint { // written out, as all sixteen are looked at for most keys
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
	switch fingerprint {
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

// Insert makes an entry of a key that has none, and returns it. It takes a free place,
// or else that of an entry that has expired: the bucket must have room.
func (t *Table) Insert(b *Bucket, h uint64, current int64) *uint64 {
	place := slices.Index(b[:], 0)
	if place < 0 {
		place = slices.IndexFunc(b[:], t.Expired)
	}
	b[place] = t.Fingerprint(h)<<(t.shift&63) | uint64(current)
	return &b[place]
}

// Fingerprint returns a key's fingerprint, which is not 0: a free place is nobody's.
func (t *Table) Fingerprint(h uint64) uint64 { return h*golden>>(t.shift&63) | 1 }

// FingerprintOf returns the fingerprint in an entry.
func (t *Table) FingerprintOf(entry uint64) uint64 { return entry >> (t.shift & 63) }

// FingerprintBits returns the bits of a fingerprint.
func (t *Table) FingerprintBits() int { return 64 - int(t.shift) }

// CountBits returns the bits of a count.
func (t *Table) CountBits() int { return int(t.bits) }

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ / φ: its multiples are spread evenly

// CollisionRate returns the chance that a key without an entry is taken for the key of
// a given one.
func (t *Table) CollisionRate() float64 {
	return math.Ldexp(1, int(t.shift)-63) / float64(t.buckets) // a fingerprint's last bit is always set
}

// Count returns an entry's count of the generation of an age, 0 or 1: an upper bound of
// its key's units.
func (t *Table) Count(entry uint64, age int) int64 {
	return int64(entry >> (uint8(age) * t.bits & 63) & (1<<(t.bits&63) - 1))
}

// Complete reports whether an entry has counted all of its key's generation of an age,
// 0 or 1.
func (t *Table) Complete(entry uint64, age int) bool {
	return entry>>((t.flags+uint8(age))&63)&1 != 0
}

// SetReference sets the reference bit of an entry, which may be nil, as CLOCK does. The
// bit is the one by which the previous generation is complete: for a table beside which
// no counters are read.
func (t *Table) SetReference(entry *uint64) {
	if entry != nil {
		*entry |= 2 << (t.flags & 63)
	}
}

// TestAndClearReference clears the reference bit of an entry, and reports whether it
// was set.
func (t *Table) TestAndClearReference(entry *uint64) (set bool) {
	set = t.Complete(*entry, 1)
	*entry &^= 2 << (t.flags & 63)
	return set
}

// Offered returns the units of the requests since the entry was made, in the generation
// of an age, 0 or 1, in steps.
func (t *Table) Offered(entry uint64, age int) int64 {
	return int64(entry >> ((2*t.bits + uint8(age)*t.offeredBits) & 63) & (1<<(t.offeredBits&63) - 1) << (t.offeredStep & 63))
}

// LowerBound returns a lower bound of the units that the key of an entry has used in
// the generation of an age, 0 or 1, or would have if it had not been denied. It is
// never above the entry's count.
func (t *Table) LowerBound(entry uint64, age int) int64 {
	offered, count := t.Offered(entry, age), t.Count(entry, age)
	if offered>>(t.offeredStep&63) == 1<<(t.offeredBits&63)-1 { // it may have offered any number
		return count
	}
	return min(offered, count)
}

// Offer adds n units to what an entry's key has offered in the generation of an age, 0
// or 1, up to the most that fits. Where offered counts in steps, random rounds it up or
// down, so that it is right on average.
func (t *Table) Offer(entry *uint64, age int, n int64, random uint64) {
	step, at := t.offeredStep&63, (2*t.bits+uint8(age)*t.offeredBits)&63
	most := uint64(1)<<(t.offeredBits&63) - 1
	old := *entry >> at & most
	offered := min(most, old+(uint64(n)+random*golden>>32&(1<<step-1))>>step)
	*entry += (offered - old) << at
}

// LowerBounds returns an entry that counts the lower bound of its key's units as its
// count. It is for a generation in which nothing has come yet. The reference bit is
// cleared.
func (t *Table) LowerBounds(entry uint64) uint64 {
	counts := uint64(1)<<(2*t.bits) - 1
	t.TestAndClearReference(&entry)
	return entry&^counts | uint64(t.LowerBound(entry, 1))<<(t.bits&63)
}

// CountComplete returns how many entries of a table have units of a generation that is
// complete, of an age 0 or 1.
func (t *Table) CountComplete(table []uint64, age int) (n int) {
	if t.buckets == 0 {
		return 0
	}
	for _, e := range table {
		if t.Complete(e, age) && t.Count(e, age) > 0 {
			n++
		}
	}
	return n
}

// Set sets the count of the current generation.
func (t *Table) Set(entry *uint64, current int64) {
	*entry = *entry&^(1<<(t.bits&63)-1) | uint64(current)
}

// Rotate lets generations expire, ≥ 1, of those kept, 1 or 2, and reports whether there
// are entries left.
//
// An entry without units in the generation that ends is kept for one more, behind those
// in use. Its key was told when the units of the generation before come free; without
// the entry the sketch would be read for the one that ends, where other keys have left
// theirs.
func (t *Table) Rotate(table []uint64, expired, kept int) (left bool) {
	if expired >= kept {
		clear(table)
		return false
	}
	for ; len(table) > 0; table = table[BucketEntries:] {
		b := (*Bucket)(table)
		if b[0] == 0 {
			continue // it is not written, and need not leave the cache again
		}
		was, used, resting := *b, 0, false
		*b = Bucket{}
		for _, e := range was {
			if t.Count(e, 0) > 0 {
				b[used] = t.Aged(e)
				used++
			} else if t.Count(e, 1) > 0 {
				resting = true
			}
		}
		for i := 0; resting && i < BucketEntries; i++ {
			if e := was[i]; t.Count(e, 0) == 0 && t.Count(e, 1) > 0 {
				b[used] = t.Aged(e)
				used++
			}
		}
		left = left || used > 0
	}
	return left
}

// Aged returns an entry one generation later, which is complete.
func (t *Table) Aged(entry uint64) uint64 {
	complete := entry>>(t.flags&63)&1<<1 | 1
	offered := entry >> (2 * t.bits & 63) & (1<<(t.offeredBits&63) - 1)
	return entry>>(t.shift&63)<<(t.shift&63) | complete<<(t.flags&63) |
		offered<<((2*t.bits+t.offeredBits)&63) | uint64(t.Count(entry, 0))<<(t.bits&63)
}
