package whatif

import (
	"cmp"
	"slices"
)

// heavy finds the keys with the most requests, by the Space-Saving algorithm (Metwally,
// Agrawal and El Abbadi, 2005): when all slots are taken, a new key replaces the one
// with the lowest count and starts from that count.
type heavy struct {
	most  int
	slots []slot // a heap, the lowest count first
	index table  // slot by hash, as current
}

// slot holds a key with count-error … count requests.
type slot struct {
	hash         uint64
	count, error uint64
	seen         bool   // by the caller, until the key loses its slot
	light        uint32 // of the caller too
	key          []byte // the first KeyBytes of it, where it is known
}

// KeyBytes is how much of a key is told.
const KeyBytes = 256

// add counts n requests of a key, and returns its slot until the next add. It keeps
// what it needs of the key.
func (t *heavy) add(h uint64, key []byte, n uint64) *slot {
	e := t.index.find(h)
	switch {
	case e != nil:
		i := int(e.current)
		t.slots[i].count += n
		return &t.slots[t.down(i)]
	case len(t.slots) < t.most:
		if t.index.full() {
			t.index.double()
		}
		t.slots = append(t.slots, slot{})
		i := len(t.slots) - 1
		t.take(i, h, key)
		i = t.up(i) // as 0 it is the lowest
		t.slots[i].count = n
		return &t.slots[t.down(i)]
	}
	s := &t.slots[0]
	t.index.drop(t.index.seek(s.hash))
	s.error = s.count
	t.take(0, h, key)
	s.count += n
	return &t.slots[t.down(0)]
}

// find returns a key's slot until the next add, or nil.
func (t *heavy) find(h uint64) *slot {
	if e := t.index.find(h); e != nil {
		return &t.slots[e.current]
	}
	return nil
}

func (t *heavy) take(i int, h uint64, key []byte) {
	s := &t.slots[i]
	s.hash, s.seen, s.light, s.key = h, false, 0, append(s.key[:0], key[:min(len(key), KeyBytes)]...)
	t.index.put(h).current = uint32(i)
}

// up moves a slot towards the top for as long as its count is lower, and returns where
// it is then.
func (t *heavy) up(i int) int {
	for i > 0 && t.slots[i].count < t.slots[(i-1)/2].count {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

// down moves a slot away from the top for as long as its count is higher, and returns
// where it is then.
func (t *heavy) down(i int) int {
	for {
		lowest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.slots); child++ {
			if t.slots[child].count < t.slots[lowest].count {
				lowest = child
			}
		}
		if lowest == i {
			return i
		}
		t.swap(i, lowest)
		i = lowest
	}
}

func (t *heavy) swap(i, j int) {
	t.slots[i], t.slots[j] = t.slots[j], t.slots[i]
	t.index.place(t.slots[i].hash).current = uint32(i)
	t.index.place(t.slots[j].hash).current = uint32(j)
}

// least returns the most requests that any key has which has no slot.
func (t *heavy) least() uint64 {
	if len(t.slots) < t.most {
		return 0
	}
	return t.slots[0].count
}

// ranked returns the slots, those with the most certain requests first.
func (t *heavy) ranked() []slot { return sorted(slices.Clone(t.slots)) }

func sorted(slots []slot) []slot {
	slices.SortFunc(slots, func(a, b slot) int {
		return cmp.Or(cmp.Compare(b.count-b.error, a.count-a.error), cmp.Compare(a.hash, b.hash))
	})
	return slots
}
