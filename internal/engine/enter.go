package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// add counts n units for the key, whose entry and current count were read just before.
func (r window) add(entry *uint64, h uint64, count, n int64) {
	r.s.admitted += uint64(n)
	r.s.denials.Clear()
	if entry != nil {
		r.e.heavy.Set(entry, count+n)
		if r.e.DeniesProven() {
			r.offer(entry, 0, n)
		}
		return // the Bloom filter knows the key from before it had the entry
	}
	first := r.buffer(0)
	if r.e.filterFirst || h%Sampled == 0 {
		r.e.filter.TestAndAdd(r.e.memory, first, h)
	}
	count += n
	switch {
	case count >= r.promoteAt() && r.e.heavy.HasRoom(r.entries()) && r.isHeavy(count):
		entry = r.e.heavy.Insert(r.entries(), r.h, count)
		if r.e.DeniesProven() {
			r.offer(entry, 0, n) // no more is certain
		}
		r.noteEntry()
		if count == n { // it is in no cell yet, and is to be among the keys that are told
			r.e.cells.Raise(r.e.memory, first+r.e.cellsFirst, h, 1)
		}
	default:
		r.s.peaks.current = max(r.s.peaks.current, uint32(count))
		r.e.cells.Raise(r.e.memory, first+r.e.cellsFirst, h, uint32(count))
	}
}

// Sampled keys stand for all: one in so many, by its hash in the generation. They are marked in a Bloom filter that guards
// nothing, which is enough to tell how many keys there are where cells are too full for it.
const Sampled = 8

// offerDenied is for a request for n units that is denied in a shard that may be over capacity. It counts them for the key of an entry, if they
// fit in the limit beside what that has asked for: so far an exact limiter would admit it.
func (r window) offerDenied(p rotating.Position, n, limit int64, entry *uint64) {
	if r.e.DeniesProven() && entry != nil && n >= 1 && n <= limit-r.offered(p, *entry) {
		r.offer(entry, 0, n)
	}
}

// offer counts n units that the key of an entry has asked for in the generation of an age.
func (r window) offer(entry *uint64, age int, n int64) {
	r.e.heavy.Offer(entry, age, n, r.s.admitted+r.s.denied)
}

// promoteAt is the units of the current generation that make a key heavy, by its reading.
func (r window) promoteAt() int64 { return r.e.promoteAt + int64(r.s.peaks.thresholdBoost) }

// Before a key gets an entry, so many readings are taken of keys that nobody has counted, and it must stand out from
// all but one of them. With all of them the threshold would run away from abusers who come together: their own
// counts are in one reading of a hundred until they have entries.
const (
	unseenSamples  = 32
	maxHighSamples = 2
)

// isHeavy reports whether count, an estimate of the current generation, is of a heavy
// key: it must exceed the estimates of all but one of unseenSamples unseen keys by more
// than half of promoteAt. Otherwise the counters are too full, and the table would fill
// with light keys until heavy ones found no room. So isHeavy then raises the threshold of
// the shard above count for the rest of the generation. It is called seldom: each call
// makes an entry or raises the threshold.
//
// The threshold only decides where a key is counted from then on. Every reading is an upper bound, so no
// threshold admits too much.
func (r window) isHeavy(count int64) bool {
	first, h, high := r.buffer(0), r.h, 0
	for range unseenSamples {
		h = keyhash.Mix(h, r.e.seed)
		units := r.estimate(first, h)
		if units+r.e.promoteAt/2 < count {
			continue
		}
		if high++; high == maxHighSamples {
			r.s.peaks.thresholdBoost = uint16(min(count+1-r.e.promoteAt, math.MaxUint16))
			return false
		}
	}
	return true
}
