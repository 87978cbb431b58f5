// Package timetable keeps one time for each of many keys, in a table of fixed size that
// holds fingerprints in place of keys.
//
// A line of the table is one cache line. It has 6, 8, 9 or 10 entries, each a
// fingerprint and a time of 32 bits. The fewer entries, the longer their fingerprints.
// A key's hash gives its first line and its fingerprint, and both give two other lines
// (as in a cuckoo filter). Its entry is in the first of the three that had [roomy] free
// places when the key came, or else in the one that had most. So lines fill evenly: a
// table of which three quarters are in use has no place for one new key in ten
// thousand.
//
// A time that has passed is a free place, and so is a time of 0. Nothing is deleted.
//
// A key reads what was set for it, until that has passed. Keys of the same first line
// and fingerprint are one key to the table, and read the latest time of them all.
package timetable

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	// LineBytes are the bytes of a line.
	LineBytes = 8 * lineWords

	lineWords = 8
	timeBits  = 32
	roomy     = 3
	choices   = 3
	laneBits  = 16
	laneMask  = 1<<laneBits - 1
)

// Layout says where things lie in a table. It is immutable, and so safe for concurrent
// use; a table is words that the caller guards.
//
// In the words of a line, from the lowest bit on: of each entry 16 bits of its
// fingerprint; every stride bits the rest of each fingerprint, above it which of its
// key's lines this is; a bit that is set if an entry of which this is the first line is
// in another one. From the highest bit down: each entry's time.
type Layout struct {
	lines   uint64
	entries int
	lanes   [3]uint64 // highest bits of the 16 of each entry, by word
	first   uint      // bit of the first rest
	stride  uint      // bits
	rest    uint64    // mask of a rest and its choice
	choice  uint      // bits of a rest below its choice
	print   uint64    // mask of a fingerprint
	spilled uint      // bit
}

// shapes are, by entries of a line, the bits that an entry has for the rest of its
// fingerprint and the choice, their stride, and the bit that tells of spilled entries.
var shapes = map[int]struct{ bits, stride, spilled uint }{
	6: {32, 32, 288}, 8: {15, 16, 143}, 9: {8, 8, 216}, 10: {3, 3, 190},
}

// Entries are the numbers of entries that a line may have.
var Entries = [...]int{6, 8, 9, 10}

// NewLayout returns that of a table of lines, 1 … 1<<31-1, with so many entries each, one
// of [Entries].
func NewLayout(lines, entries int) (Layout, error) {
	shape, ok := shapes[entries]
	switch {
	case !ok:
		return Layout{}, fmt.Errorf("timetable: %d entries a line, must be one of %v", entries, Entries)
	case lines < 1 || lines > math.MaxInt32:
		return Layout{}, fmt.Errorf("timetable: %d lines, must be 1 … %d", lines, math.MaxInt32)
	}
	l := Layout{
		lines: uint64(lines), entries: entries, first: uint(laneBits * entries), stride: shape.stride,
		rest: 1<<shape.bits - 1, choice: shape.bits - 2, print: 1<<FingerprintBits(entries) - 1, spilled: shape.spilled,
	}
	for i := range entries {
		l.lanes[i/4] |= 0x8000 << (i % 4 * laneBits)
	}
	return l, nil
}

// FingerprintBits returns the bits of a fingerprint in lines of so many entries.
func FingerprintBits(entries int) int { return laneBits + int(shapes[entries].bits) - 2 }

// Words returns the words of a table.
func (l *Layout) Words() int { return int(l.lines) * lineWords }

// Lines returns the lines of a table.
func (l *Layout) Lines() int { return int(l.lines) }

// Entries returns the entries of a line.
func (l *Layout) Entries() int { return l.entries }

// line returns a line by its number.
func line(table []uint64, n uint32) *[lineWords]uint64 {
	return (*[lineWords]uint64)(table[int(n)*lineWords:])
}

// First returns the first word of a key's first line, by its hash.
func (l *Layout) First(h uint64) int { return int(h>>32*l.lines>>32) * lineWords }

// away are how far lines are from the first one, by the choice: factors of the
// fingerprint.
var away = [choices]uint64{0, 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f}

// line returns one of a key's lines.
func (l *Layout) line(e *Entry, choice uint64) uint32 {
	n := uint64(e.first) + e.print*away[choice]>>32*l.lines>>32
	if n >= l.lines {
		n -= l.lines
	}
	return uint32(n)
}

// home returns the first line of the key that has an entry in a line.
func (l *Layout) home(line uint32, print, choice uint64) uint32 {
	n := uint64(line) + l.lines - print*away[choice]>>32*l.lines>>32
	if n >= l.lines {
		n -= l.lines
	}
	return uint32(n)
}

// Entry is a key's entry, or the place where it gets one. [Layout.Find] makes it.
type Entry struct {
	// Time is the key's, which may have passed; 0 if it has no entry.
	Time uint32
	// Gone is the time that gives way at the place, of another key; 0 if the place is the
	// key's or was never used. If it has not passed, there is no place until then.
	Gone uint32

	print uint64 // the key's fingerprint
	first uint32 // and first line
	line  uint32
	at    uint8 // which of the line's
	own   bool  // the fingerprint is there
	stale bool  // there is an entry that has passed, somewhere else
	was   uint8
	old   uint32 // its line
}

// Find makes e the entry that a key has at a time, by its hash, or the place of a new
// one. The table stays as it is.
func (l *Layout) Find(table []uint64, h uint64, now uint32, e *Entry) {
	n := uint32(h >> 32 * l.lines >> 32)
	*e = Entry{print: h & l.print, first: n, line: n}
	words := line(table, n)
	if m := l.candidates(words, e.print); m != 0 {
		l.match(words, m, e.print>>laneBits, e)
	}
	if !e.own && words[l.spilled/64&7]>>(l.spilled%64)&1 != 0 {
		l.findSpilled(table, e)
	}
	if e.Time <= now {
		l.place(table, now, e)
	}
}

// findSpilled finds an entry that is not in the first line.
func (l *Layout) findSpilled(table []uint64, e *Entry) {
	for choice := uint64(1); choice < choices && !e.own; choice++ {
		e.line = l.line(e, choice)
		words := line(table, e.line)
		if m := l.candidates(words, e.print); m != 0 {
			l.match(words, m, e.print>>laneBits|choice<<l.choice, e)
		}
	}
}

// place chooses the place of a key that has no entry, or one whose time has passed.
func (l *Layout) place(table []uint64, now uint32, e *Entry) {
	at, gone, most := l.free(line(table, e.first), now)
	if e.own {
		if e.line == e.first && most >= roomy {
			return
		}
		e.own, e.stale, e.old, e.was = false, true, e.line, e.at
	}
	e.line, e.at, e.Gone = e.first, at, gone
	for choice := uint64(1); choice < choices && most < roomy; choice++ {
		n := l.line(e, choice)
		if at, gone, free := l.free(line(table, n), now); free > most || most == 0 && gone < e.Gone {
			e.line, e.at, e.Gone, most = n, at, gone, free
		}
	}
}

// Set gives the key of an entry a time above 0, by the last entry that was found.
func (l *Layout) Set(table []uint64, e *Entry, time uint32) {
	if !e.own {
		l.put(table, e)
	}
	setTime(line(table, e.line), uint(e.at), time)
}

// candidates returns a bit for each entry of a line whose fingerprint may begin as one
// does: of the i-th entry of the w-th word, that is 15 - w above the lowest of its 16.
func (l *Layout) candidates(words *[lineWords]uint64, print uint64) uint64 {
	const ones = 0x0001_0001_0001_0001
	tag := print & laneMask * ones
	x, y, z := words[0]^tag, words[1]^tag, words[2]^tag
	return (x-ones)&^x&l.lanes[0] | (y-ones)&^y&l.lanes[1]>>1 | (z-ones)&^z&l.lanes[2]>>2
}

// match makes one of some candidates the entry, if it has a rest and a time.
func (l *Layout) match(words *[lineWords]uint64, candidates, rest uint64, e *Entry) {
	for ; candidates != 0; candidates &= candidates - 1 {
		bit := uint(bits.TrailingZeros64(candidates))
		i := (15-bit%16)*4 + bit/16
		if l.restOf(words, i) == rest {
			if t := timeOf(words, i); t != 0 {
				e.at, e.Time, e.own = uint8(i), t, true
				return
			}
		}
	}
}

// restOf returns what an entry has of its fingerprint beside its first bits, and its
// choice.
func (l *Layout) restOf(words *[lineWords]uint64, i uint) uint64 {
	bit := l.first + l.stride*i
	return words[bit/64&7] >> (bit % 64) & l.rest
}

// timeOf returns the time of an entry.
func timeOf(words *[lineWords]uint64, i uint) uint32 {
	return uint32(words[(lineWords-1-i/2)&7] >> ((1 - i%2) * timeBits & 63))
}

func setTime(words *[lineWords]uint64, i uint, time uint32) {
	w, shift := &words[(lineWords-1-i/2)&7], (1-i%2)*timeBits&63
	*w = *w&^(math.MaxUint32<<shift) | uint64(time)<<shift
}

// free returns the entry of a line that has the earliest time, and how many times have
// passed.
func (l *Layout) free(words *[lineWords]uint64, now uint32) (at uint8, earliest uint32, free int) {
	const indexBits = 4 // below a time, so that the least of both tells both, without a branch
	least, live, n := uint64(math.MaxUint64), uint64(0), uint64(now)
	for i := 0; i+1 < l.entries; i += 2 {
		w := words[(lineWords-1-i/2)&7]
		one, other := w>>timeBits, w&math.MaxUint32
		live += (n-one)>>63 + (n-other)>>63
		least = min(least, one<<indexBits|uint64(i), other<<indexBits|uint64(i)|1)
	}
	if last := uint(l.entries) - 1; last%2 == 0 {
		t := uint64(timeOf(words, last))
		live += (n - t) >> 63
		least = min(least, t<<indexBits|uint64(last))
	}
	return uint8(least & (1<<indexBits - 1)), uint32(least >> indexBits), l.entries - int(live)
}

// put makes a place that was found the entry of its key.
func (l *Layout) put(table []uint64, e *Entry) {
	if e.stale { // a key has one entry at most
		setTime(line(table, e.old), uint(e.was), 0)
	}
	i, rest := uint(e.at), e.print>>laneBits
	if e.line != e.first {
		rest |= l.choiceOf(e) << l.choice
		line(table, e.first)[l.spilled/64&7] |= 1 << (l.spilled % 64)
	}
	words := line(table, e.line)
	lane, shift := &words[i/4&7], i%4*laneBits
	*lane = *lane&^(laneMask<<shift) | e.print&laneMask<<shift
	bit := l.first + l.stride*i
	w := &words[bit/64&7]
	*w = *w&^(l.rest<<(bit%64)) | rest<<(bit%64)
}

// choiceOf returns which of the key's lines another one than the first is.
func (l *Layout) choiceOf(e *Entry) uint64 {
	if l.line(e, 1) == e.line {
		return 1
	}
	return 2
}

// Shift makes all times earlier by so many ticks, at least 0.
func (l *Layout) Shift(table []uint64, ticks uint32) {
	l.Map(table, func(t uint32) uint32 { return t - min(t, ticks) })
}

// Map gives each entry another time, by the one that it has. Times of 0 stay.
func (l *Layout) Map(table []uint64, time func(uint32) uint32) {
	for n := range uint32(l.lines) {
		words := line(table, n)
		words[l.spilled/64&7] &^= 1 << (l.spilled % 64)
		for i := range uint(l.entries) {
			if t := timeOf(words, i); t != 0 {
				setTime(words, i, time(t))
			}
		}
	}
	for n := range uint32(l.lines) { // what is spilled still
		words := line(table, n)
		for i := range uint(l.entries) {
			rest := l.restOf(words, i)
			if choice := rest >> l.choice; choice != 0 && choice < choices && timeOf(words, i) != 0 {
				print := rest&^(3<<l.choice)<<laneBits | words[i/4&7]>>(i%4*laneBits)&laneMask
				line(table, l.home(n, print, choice))[l.spilled/64&7] |= 1 << (l.spilled % 64)
			}
		}
	}
}

// Use is how a table is used at a time.
type Use struct {
	Live  int // entries whose time has not passed
	Full  int // lines in which all are
	Later int // entries whose time is later than another one
}

// Use counts the entries of a table at a time, and those whose time is later than
// another.
func (l *Layout) Use(table []uint64, now, than uint32) (u Use) {
	for n := range uint32(l.lines) {
		words, free := line(table, n), 0
		for i := range uint(l.entries) {
			t := timeOf(words, i)
			if t <= now {
				free++
			} else {
				u.Live++
			}
			if t > max(now, than) {
				u.Later++
			}
		}
		if free == 0 {
			u.Full++
		}
	}
	return u
}

// Refused returns the chance that an unseen key finds no place, if so many of a table's
// lines are full.
func Refused(full, lines int) float64 {
	return math.Pow(float64(full)/float64(lines), choices)
}

// Shared returns the chance that an unseen key is one of some keys to a table of lines
// of so many entries.
func Shared(keys, lines float64, entries int) float64 {
	return min(1, keys/lines*math.Exp2(-float64(FingerprintBits(entries))))
}
