package engine

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// table returns the first word of the table of heavy keys.
func (r request) table() int { return r.first + r.e.Ring.Buffers()*r.e.generation }

// entries returns the key's bucket in the table.
func (r request) entries() *heavyhitter.Bucket { return r.e.heavy.Bucket(r.e.memory, r.table(), r.h) }

// markTable is for a shard whose table has entries. A peak one below the threshold, or higher, tells of them, so
// that the tables of most shards, where no key is heavy, need not be passed over when they rotate.
func (r request) markTable() { r.s.peaks.current = max(r.s.peaks.current, uint32(r.e.promoteAt-1)) }

// marked reports whether the shard's table may have entries.
func (r request) marked() bool { return int64(r.s.peaks.current) >= r.e.promoteAt-1 }

// apart is the number of a wide shard, which is no generation: whoever compares it with one finds that it is another.
const apart = never - 1

// wide reports whether the shard is wide.
func (r request) wide() bool { return r.s.number == apart }

// wideBuckets returns the buckets of a wide shard's table.
func (l *layout) wideBuckets() int {
	return (l.size - spareWords - l.Ring.Buffers()*l.cellsFirst) / heavyhitter.BucketEntries
}

// tableWords returns the words of the shard's table.
func (r request) tableWords() int {
	if r.wide() {
		return r.e.wideBuckets() * heavyhitter.BucketEntries
	}
	return r.e.heavy.Words()
}

// tableMemory returns the words of the shard's table.
func (r request) tableMemory() []uint64 {
	if r.wide() {
		return r.e.memory[r.wideTable():r.tableEnd()]
	}
	return r.e.memory[r.table():][:r.e.heavy.Words()]
}

// tableEnd returns the word behind the table.
func (r request) tableEnd() int { return r.first + r.e.size - spareWords }

// wideTable returns the first word of the wide table.
func (r request) wideTable() int { return r.tableEnd() - r.e.wideBuckets()*heavyhitter.BucketEntries }

// wideDoor returns the first word of a doorkeeper, by its generation's number.
func (r request) wideDoor(number int64) int {
	return r.first + r.e.Ring.Buffer(number)*r.e.cellsFirst
}

// bucketOf returns the key's bucket.
func (r request) bucketOf() *heavyhitter.Bucket {
	if !r.wide() {
		return r.entries()
	}
	return r.wideEntries(r.wideBucket(r.h&math.MaxUint32*r.e.heavy.Buckets()>>32, part(r.e.heavy.Fingerprint(r.h))))
}

// wideEntries returns a bucket of the wide table, by its index.
func (r request) wideEntries(i uint64) *heavyhitter.Bucket {
	return (*heavyhitter.Bucket)(r.e.memory[r.wideTable()+int(i)*heavyhitter.BucketEntries:])
}

// wideBucket returns the index of a bucket in the wide table, by the usual one and by the part of it that an entry is in.
func (r request) wideBucket(usual, part uint64) uint64 {
	hi, lo := bits.Mul64(usual<<32|part, uint64(r.e.wideBuckets()))
	i, _ := bits.Div64(hi, lo, r.e.heavy.Buckets()<<32)
	return i
}

// part returns the part of a usual bucket, 0 … 1<<32-1, that entries with a fingerprint are in.
func part(print uint64) uint64 { return print * golden >> 32 }

// state returns the shard's state.
func (r request) state() *spareState {
	return stateIn(r.e, r.e.memory[r.first:])
}

// stateIn returns the state in a copy of a shard's memory.
func stateIn(e *Engine, memory []uint64) *spareState {
	return (*spareState)(unsafe.Pointer(&memory[e.size-spareWords]))
}

// number returns that of the shard's current generation.
func (r request) number() int64 {
	if r.wide() {
		return r.state().number
	}
	return r.s.number
}

// sampled reports whether the key is counted exactly as well, see audit.go. Then each of its decisions takes the lock.
func (r request) sampled() bool { return r.e.audit.Sampled(r.h) }

// remember keeps in mind that the key has nothing left, and until when: not of one that is to be counted each time.
func (r request) remember(p rotating.Position, limit int64, v Verdict) {
	if r.sampled() {
		return
	}
	free := r.e.Timeline.Pack(r.e.Timeline.Add(p, v.RetryAfter))
	r.s.last.Set(r.flood(limit), free, r.e.Timeline.UnixNano(p)+int64(v.ResetAfter))
}

// flood is the hash by which a key is remembered that is denied at a limit.
func (r request) flood(limit int64) uint64 { return r.h ^ uint64(r.e.limit-limit) }

// draw returns random bits, which are other ones when something has been admitted.
func (r request) draw() uint64 { return keyhash.Mix(r.s.admitted, r.e.turnSeed) }

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ / φ: its multiples are spread evenly
