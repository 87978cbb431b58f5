package exact

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

const (
	slots = 8 // of a bucket

	// A bucket is added above maxFill keys a bucket, and one taken away below minFill.
	maxFill, minFill = 6, 3
)

// table is the keys of a shard: a hash table that grows and shrinks by one bucket at a
// time (W. Litwin, "Linear hashing", 1980). So no request waits while all keys are
// moved, as it does with a table that doubles. Only the list of buckets, eight bytes
// for six keys, is copied as it doubles.
//
// Bucket i holds the keys whose hash ends in the bits of i, as many bits as the number
// of buckets has. Where that bucket does not exist yet, its keys are in the bucket with
// the highest bit left out. What finds no slot is in a chain of further buckets.
type table[S any] struct {
	seed    maphash.Seed
	buckets []*bucket[S]
	keys    int // held
	chained int // buckets in chains
	text    int // bytes of the keys
	hand    int // bucket that a sweep has looked at last
	idle    int // bucket that an eviction has looked at last
}

type bucket[S any] struct {
	tags    [slots]uint8 // of the key's hash; 0: the slot is free
	used    uint8        // reference bits: the key was used since the hand came by
	entries [slots]entry[S]
	more    *bucket[S]
}

type entry[S any] struct {
	key   string // a copy of the caller's
	state S
}

func tagOf(h uint64) uint8 { return uint8(h>>48) | 0x80 }

// at returns the index of the bucket that keys of a hash are in.
func (t *table[S]) at(h uint64) int {
	n := len(t.buckets)
	width := bits.Len(uint(n - 1))
	i := int(h & (1<<width - 1))
	if i >= n {
		i &^= 1 << (width - 1)
	}
	return i
}

// find returns the bucket and the slot of a key, nil if it is not held.
func (t *table[S]) find(h uint64, key string) (*bucket[S], int) {
	if len(t.buckets) == 0 {
		return nil, 0
	}
	tag := tagOf(h)
	for b := t.buckets[t.at(h)]; b != nil; b = b.more {
		for i := range b.tags {
			if b.tags[i] == tag && b.entries[i].key == key {
				return b, i
			}
		}
	}
	return nil, 0
}

// add adds a key that is not held and keeps it.
func (t *table[S]) add(h uint64, key string) (*bucket[S], int) {
	if len(t.buckets) == 0 {
		t.buckets = append(t.buckets, new(bucket[S]))
	} else if t.keys >= maxFill*len(t.buckets) {
		t.grow()
	}
	b, i := t.free(t.at(h))
	b.tags[i], b.entries[i].key = tagOf(h), key
	t.keys++
	t.text += len(key)
	return b, i
}

// free returns a free slot of a bucket, whose chain it makes longer if there is none.
func (t *table[S]) free(i int) (*bucket[S], int) {
	for b := t.buckets[i]; ; b = b.more {
		for i, tag := range b.tags {
			if tag == 0 {
				return b, i
			}
		}
		if b.more == nil {
			b.more = new(bucket[S])
			t.chained++
		}
	}
}

// remove drops the key in a slot.
func (t *table[S]) remove(b *bucket[S], i int) {
	t.keys--
	t.text -= len(b.entries[i].key)
	b.tags[i], b.entries[i] = 0, entry[S]{}
	b.used &^= 1 << i
}

// grow adds a bucket, and moves those keys there of the one that had them until now.
func (t *table[S]) grow() {
	n := len(t.buckets)
	t.buckets = append(t.buckets, new(bucket[S]))
	t.scatter(n &^ (1 << (bits.Len(uint(n)) - 1)))
}

// shrink takes the last bucket away if the keys are few. It is not the last of all.
func (t *table[S]) shrink() {
	n := len(t.buckets) - 1
	if n < 1 || t.keys >= minFill*(n+1) {
		return
	}
	last := t.buckets[n]
	t.buckets[n] = nil
	t.buckets = t.buckets[:n]
	if cap(t.buckets) > 4*n+64 {
		t.buckets = append(make([]*bucket[S], 0, 2*n), t.buckets...)
	}
	t.move(last)
	t.hand = min(t.hand, n-1)
}

// scatter puts the keys of a bucket where they belong now.
func (t *table[S]) scatter(i int) {
	old := t.buckets[i]
	t.buckets[i] = new(bucket[S])
	t.move(old)
}

// move puts the keys of a chain, which is not in the table any more, where they belong.
func (t *table[S]) move(from *bucket[S]) {
	for b := from; b != nil; b = b.more {
		if b != from {
			t.chained--
		}
		for i, tag := range b.tags {
			if tag == 0 {
				continue
			}
			to, j := t.free(t.at(maphash.String(t.seed, b.entries[i].key)))
			to.tags[j], to.entries[j] = tag, b.entries[i]
			to.used |= b.used >> i & 1 << j
		}
	}
}

// next moves the hand by one bucket, drops the keys there whose state is dead, and
// returns the bucket; nil if there is none. It also frees chained buckets that have
// become empty.
func (t *table[S]) next(dead func(S) bool) *bucket[S] {
	if len(t.buckets) == 0 {
		return nil
	}
	t.hand = (t.hand + 1) % len(t.buckets)
	first := t.buckets[t.hand]
	for b := first; b != nil; b = b.more {
		for i, tag := range b.tags {
			if tag != 0 && dead(b.entries[i].state) {
				t.remove(b, i)
			}
		}
	}
	for b := first; b.more != nil; {
		if b.more.tags == [slots]uint8{} {
			b.more = b.more.more
			t.chained--
			continue
		}
		b = b.more
	}
	t.shrink()
	if t.hand >= len(t.buckets) {
		return nil
	}
	return t.buckets[t.hand]
}

// clock moves the hand of evictions by one bucket, and returns that bucket.
func (t *table[S]) clock() *bucket[S] {
	t.idle = (t.idle + 1) % len(t.buckets)
	return t.buckets[t.idle]
}

// each calls f for every key, which must not change the table.
func (t *table[S]) each(f func(*entry[S])) {
	for _, b := range t.buckets {
		for ; b != nil; b = b.more {
			for i, tag := range b.tags {
				if tag != 0 {
					f(&b.entries[i])
				}
			}
		}
	}
}

// bytes returns the memory of the table and its keys, but not what states refer to.
func (t *table[S]) bytes() int {
	const word = unsafe.Sizeof(uintptr(0))
	return (len(t.buckets)+t.chained)*int(unsafe.Sizeof(bucket[S]{})) + cap(t.buckets)*int(word) + t.text
}
