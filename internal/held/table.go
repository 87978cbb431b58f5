// Package held has the table of keys that hold something for as long as a request is in
// flight.
package held

import (
	"math"
	"slices"
)

// Table is the keys of a shard that hold units, by linear probing: a key is
// found by walking from its home to the first free entry. There always is one.
type Table []Entry

// Entry is a key and what it holds; one without units is free.
type Entry struct {
	Hash  uint64
	Units int64
}

// Room returns places for so many in each of the parts. Half of them more let a walk end
// soon and a draw find a free one; one more keeps a walk from not ending at all.
func Room[place any](n, parts int) []place {
	each := (n + parts - 1) / parts
	return Filled[place](parts * (each + each/2 + 1))
}

// Filled returns n places, and as many more as the runtime rounds the allocation up to.
func Filled[place any](n int) []place {
	places := slices.Grow([]place(nil), n)
	return places[:cap(places)]
}

// Home is where the walk to a key begins. The other half of the hash chose the shard.
func (t Table) Home(h uint64) int {
	return int(h & math.MaxUint32 * uint64(len(t)) >> 32)
}

// Find returns the key's entry, or the free one where it belongs.
func (t Table) Find(h uint64) int {
	i := t.Home(h)
	for t[i].Units != 0 && t[i].Hash != h {
		i = t.after(i)
	}
	return i
}

// CloseGap frees an entry and moves up what stands behind it, as far as the next free
// one, so that no walk ends in the gap before it has reached its key.
func (t Table) CloseGap(gap int) {
	for i := t.after(gap); t[i].Units != 0; i = t.after(i) {
		if t.steps(t.Home(t[i].Hash), i) >= t.steps(gap, i) {
			t[gap] = t[i]
			gap = i
		}
	}
	t[gap] = Entry{}
}

// after returns the next entry; the first one follows the last.
func (t Table) after(i int) int {
	if i++; i < len(t) {
		return i
	}
	return 0
}

// steps returns how many steps a walk takes from one entry to another.
func (t Table) steps(from, to int) int {
	if to < from {
		to += len(t)
	}
	return to - from
}
