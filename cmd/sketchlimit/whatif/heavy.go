package whatif

import (
	"cmp"
	"slices"
)

// heavy finds the keys with the most requests, by the Space-Saving algorithm (Metwally, Agrawal and El Abbadi, 2005): when
// all places are taken, a new key replaces the one with the lowest count and starts from that count.
type heavy struct {
	most  int
	slots []slot         // a heap, the lowest count first
	index map[uint64]int // slot by hash
}

// slot holds a key with count-error … count requests.
type slot struct {
	hash         uint64
	count, error uint64
	key          []byte // the first keyBytes of it, where it is known
}

const keyBytes = 256

// add counts n requests of a key. It keeps what it needs of the key.
func (t *heavy) add(h uint64, key []byte, n uint64) {
	i, found := t.index[h]
	switch {
	case found:
	case len(t.slots) < t.most:
		if t.index == nil {
			t.index = make(map[uint64]int)
		}
		i = len(t.slots)
		t.slots = append(t.slots, slot{})
		t.take(i, h, key)
		i = t.up(i) // as 0 it is the lowest
	default:
		s := &t.slots[0]
		delete(t.index, s.hash)
		s.error = s.count
		t.take(0, h, key)
	}
	t.slots[i].count += n
	t.down(i)
}

func (t *heavy) take(i int, h uint64, key []byte) {
	s := &t.slots[i]
	s.hash, s.key = h, append(s.key[:0], key[:min(len(key), keyBytes)]...)
	t.index[h] = i
}

// up moves a slot towards the top for as long as its count is lower, and returns where it is then.
func (t *heavy) up(i int) int {
	for i > 0 && t.slots[i].count < t.slots[(i-1)/2].count {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

// down moves a slot away from the top for as long as its count is higher.
func (t *heavy) down(i int) {
	for {
		lowest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.slots); child++ {
			if t.slots[child].count < t.slots[lowest].count {
				lowest = child
			}
		}
		if lowest == i {
			return
		}
		t.swap(i, lowest)
		i = lowest
	}
}

func (t *heavy) swap(i, j int) {
	t.slots[i], t.slots[j] = t.slots[j], t.slots[i]
	t.index[t.slots[i].hash], t.index[t.slots[j].hash] = i, j
}

// least returns the most requests that any key has which has no slot.
func (t *heavy) least() uint64 {
	if len(t.slots) < t.most {
		return 0
	}
	return t.slots[0].count
}

// ranked returns the slots, those with the most certain requests first.
func (t *heavy) ranked() []slot { return rank(slices.Clone(t.slots)) }

func rank(slots []slot) []slot {
	slices.SortFunc(slots, func(a, b slot) int {
		return cmp.Or(cmp.Compare(b.count-b.error, a.count-a.error), cmp.Compare(a.hash, b.hash))
	})
	return slots
}
