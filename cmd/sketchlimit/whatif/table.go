package whatif

import "math/bits"

// entry is what a table holds of a key: units in the generation of its turn and in the
// one before.
type entry struct {
	hash              uint64
	turn              uint32 // 0 is a free place
	current, previous uint32 // units modulo 2³²
	refused           uint32 // requests, since the entry was made. In a window's table: the upper half of current
	light             uint32 // of these, those that count for other keys too. In a window's table: the upper half of previous
	// entered is for a window's table: of a drawn key the turn in which all limits have
	// refused it a request, of another one the turn in which the sketch gave the units.
	entered uint32
}

// at brings the entry to a turn, and tells whether it has not been there before.
func (e *entry) at(turn uint32) (first bool) {
	switch turn - e.turn {
	case 0:
		return false
	case 1:
		e.previous = e.current
	default:
		e.previous = 0
	}
	e.turn, e.current = turn, 0
	return true
}

// follow brings the entry of a window's table to a turn, as at does.
func (e *entry) follow(turn uint32) (first bool) {
	was, current := e.turn, e.refused
	if first = e.at(turn); !first {
		return false
	}
	e.refused, e.light = 0, 0
	if turn-was == 1 {
		e.light = current
	}
	return true
}

// asked returns the units of both generations of an entry of a window's table.
func (e *entry) asked() (current, previous uint64) {
	return uint64(e.refused)<<32 | uint64(e.current), uint64(e.light)<<32 | uint64(e.previous)
}

// ask sets the units of the current generation.
func (e *entry) ask(current uint64) { e.refused, e.current = uint32(current>>32), uint32(current) }

// table finds entries by hash, by linear probing from the place that the first bits of
// the hash name.
type table struct {
	places []entry // as many as a power of two
	shift  int     // 64 - the bits that name a place
	used   int
}

const (
	entryBytes  = 32
	leastPlaces = 16
)

func newTable(places int) table {
	return table{places: make([]entry, places), shift: 64 - bits.TrailingZeros(uint(places))}
}

func (t *table) bytes() int { return entryBytes * len(t.places) }

// full says that there must be room made before the next put.
func (t *table) full() bool { return 4*t.used >= 3*len(t.places) }

// isCrowded says that a sweep has not made enough room to last.
func (t *table) isCrowded() bool { return 2*t.used > len(t.places) }

// seek returns where a key is, or the free place where it belongs.
func (t *table) seek(h uint64) uint64 {
	i := h >> (t.shift & 63)
	for t.places[i].turn != 0 && t.places[i].hash != h {
		i = (i + 1) & uint64(len(t.places)-1)
	}
	return i
}

func (t *table) place(h uint64) *entry { return &t.places[t.seek(h)] }

// find returns a key's entry, or nil.
func (t *table) find(h uint64) *entry {
	if t.used == 0 {
		return nil
	}
	if e := t.place(h); e.turn != 0 {
		return e
	}
	return nil
}

// put returns the entry of a key, a new one of an older turn if it has none. The table
// must not be full.
func (t *table) put(h uint64) *entry {
	e := t.place(h)
	if e.turn == 0 {
		*e = entry{hash: h, turn: longAgo}
		t.used++
	}
	return e
}

// longAgo is the turn of new entries. Turns that count begin two later.
const longAgo = 1

// double moves the entries to a table of twice the places.
func (t *table) double() {
	larger := newTable(max(leastPlaces, 2*len(t.places)))
	for i := range t.places {
		if e := &t.places[i]; e.turn != 0 {
			*larger.place(e.hash) = *e
		}
	}
	larger.used = t.used
	*t = larger
}

// sweep drops the entries that are not to be kept.
func (t *table) sweep(keep func(*entry) bool) {
	for i := 0; i < len(t.places); {
		if e := &t.places[i]; e.turn == 0 || keep(e) {
			i++
		} else {
			t.drop(uint64(i)) // another one may be here now
		}
	}
}

// drop frees a place and moves up what stands behind it, as far as the next free one,
// so that no walk ends in the gap before it has reached its key.
func (t *table) drop(gap uint64) {
	last := uint64(len(t.places) - 1)
	for i := (gap + 1) & last; t.places[i].turn != 0; i = (i + 1) & last {
		home := t.places[i].hash >> (t.shift & 63)
		if (i-home)&last >= (i-gap)&last {
			t.places[gap] = t.places[i]
			gap = i
		}
	}
	t.places[gap] = entry{}
	t.used--
}
