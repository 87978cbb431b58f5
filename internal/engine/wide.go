package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// A shard that spares is wide from the next rotation on: its table has the memory of its cells as well, which are too full to
// tell anything. Then it looks at entries alone. Its doorkeepers go on telling how many keys there are.
//
//	usual  doorkeeper, cells | doorkeeper, cells | table | state
//	wide   doorkeeper | doorkeeper | table               | state
//
// Both tables end at the same word. An entry's bucket in the wide one follows from its usual bucket and its fingerprint,
// so that entries move without their keys.

// suspects are the generations for which a shard that spares keeps entries, also those of fixed windows: keys that were
// heavy in one will be so in the next.
const suspects = 2

// widen makes a shard wide that has just rotated. Each bucket is moved to places that lie before all those not moved yet.
func (r overCapacity) widen() {
	number := r.s.number
	for n := range r.e.Ring.Buffers() {
		copy(r.e.memory[r.first+n*r.e.cellsFirst:][:r.e.cellsFirst], r.e.memory[r.first+n*r.e.generation:])
	}
	clear(r.e.memory[r.first+r.e.Ring.Buffers()*r.e.cellsFirst : r.table()])
	for i := range r.e.heavy.Buckets() {
		from := (*heavyhitter.Bucket)(r.e.memory[r.table()+int(i)*heavyhitter.BucketEntries:])
		was := *from
		*from = heavyhitter.Bucket{}
		for _, e := range was {
			if e != 0 {
				r.move(e, r.wideEntries(r.wideBucket(i, part(r.e.heavy.FingerprintOf(e)))))
			}
		}
	}
	r.state().number, r.s.number = number, apart
}

// narrow makes a wide shard a usual one again, which has counted nothing in its cells.
func (r overCapacity) narrow() {
	number := r.state().number
	for i := int64(r.e.heavy.Buckets()) - 1; i >= 0; i-- {
		bucket := r.gather(uint64(i))
		*(*heavyhitter.Bucket)(r.e.memory[r.table()+int(i)*heavyhitter.BucketEntries:]) = bucket
	}
	for n := r.e.Ring.Buffers() - 1; n >= 0; n-- {
		to := r.e.memory[r.first+n*r.e.generation:][:r.e.generation]
		copy(to, r.e.memory[r.first+n*r.e.cellsFirst:][:r.e.cellsFirst])
		clear(to[r.e.cellsFirst:])
	}
	r.s.number, r.s.peaks = number, unknown
}

// gather takes the entries of a usual bucket out of the wide table: those with most units where it has no room for all.
func (r overCapacity) gather(usual uint64) (bucket heavyhitter.Bucket) {
	for i := r.wideBucket(usual, 0); i <= r.wideBucket(usual, math.MaxUint32); i++ {
		from := r.wideEntries(i)
		for j, e := range from {
			if e != 0 && r.wideBucket(usual, part(r.e.heavy.FingerprintOf(e))) == i {
				from[j] = 0
				r.move(r.e.heavy.LowerBounds(e), &bucket)
			}
		}
	}
	return bucket
}

// move puts an entry in a bucket. Where there is no room, it takes the place of one with fewer units, if there is one.
func (r overCapacity) move(e uint64, to *heavyhitter.Bucket) {
	least := 0
	for i := range to {
		if to[i] == 0 {
			to[i] = e
			return
		}
		if r.units(to[i]) < r.units(to[least]) {
			least = i
		}
	}
	if r.units(e) > r.units(to[least]) {
		to[least] = e
	}
}

// units returns those that an entry has counted of its key.
func (r overCapacity) units(entry uint64) int64 {
	return r.e.heavy.Offered(entry, 0) + r.e.heavy.Offered(entry, 1)
}

// endWide makes a wide shard that has rotated a usual one again, if it is time.
func (r overCapacity) endWide() {
	s := r.state()
	if s.mode != sparing || s.before <= r.bears() {
		r.narrow()
	}
	if s.mode == sparing && !r.wide() {
		s.turns = int32(r.e.Ring.Buffers()) // one more in which it need not have spared, and it ends
	}
}

// takeWide is take for a wide shard, in its generation.
func (r overCapacity) takeWide(p rotating.Position, n, limit int64) Verdict {
	entry := r.e.heavy.Find(r.bucketOf(), r.h)
	v := r.certified(p, n, limit, entry)
	if !v.Allowed {
		r.e.heavy.SetReference(entry)
		return r.refuseCertified(p, n, limit, v)
	}
	r.countWide(p, n, entry)
	v.Remaining, v.ResetAfter = v.Remaining-int(n), r.e.ResetAfter(p, 0)
	return v
}

// countWide counts n units of a key in a wide shard, by its entry if it has one.
func (r overCapacity) countWide(p rotating.Position, n int64, entry *uint64) {
	r.s.admitted += uint64(n)
	r.s.last.Clear()
	h := window(r).hashAt(p.Generation)
	if r.e.guarded || h%Sampled == 0 {
		r.e.door.TestAndAdd(r.e.memory, r.wideDoor(p.Generation), h)
	}
	if entry != nil {
		window(r).ask(entry, 0, n)
		r.e.heavy.SetReference(entry)
	} else {
		entry = r.compete(p, r.bucketOf())
	}
	if entry != nil {
		r.e.heavy.Set(entry, min(r.e.heavy.Count(*entry, 0)+n, r.e.limit))
	}
}
