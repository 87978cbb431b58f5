package engine

import (
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/prefetch"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// table returns the first word of the table of heavy keys.
func (r request) table() int { return r.first + r.e.Ring.Buffers()*r.e.generation }

// entries returns the key's bucket in the table.
func (r request) entries() *heavyhitter.Bucket { return r.e.heavy.Bucket(r.e.memory, r.table(), r.h) }

// noteEntry is for a shard whose table has entries. A peak one below the threshold, or higher, tells of them, so
// that the tables of most shards, where no key is heavy, need not be passed over when they rotate.
func (r request) noteEntry() { r.s.peaks.current = max(r.s.peaks.current, uint32(r.e.promoteAt-1)) }

// mayHaveEntries reports whether the shard's table may have entries.
func (r request) mayHaveEntries() bool { return int64(r.s.peaks.current) >= r.e.promoteAt-1 }

// state returns the shard's state.
func (r request) state() *overcapacity.Shard {
	return stateIn(r.e, r.e.memory[r.first:])
}

// stateIn returns the state in a copy of a shard's memory.
func stateIn(e *Engine, memory []uint64) *overcapacity.Shard {
	return (*overcapacity.Shard)(unsafe.Pointer((*[spec.StateBytes / 8]uint64)(memory[e.size-spec.StateBytes/8:])))
}

// isOverCapacity reports whether the shard denies only proven keys: it decides by its table alone.
func (r request) isOverCapacity() bool {
	return r.e.DeniesProven() && r.state().Mode() == overcapacity.Over
}

// sampled reports whether the key is counted exactly as well, see audit.go. Then each of its decisions takes the lock.
func (r request) sampled() bool { return r.e.Audit.Sampled(r.h) }

// cacheDenial keeps in mind that the key has nothing left, and until when: not of one that is to be counted each time.
func (r request) cacheDenial(p rotating.Position, limit int64, v spec.Verdict) {
	if r.sampled() {
		return
	}
	free := r.e.Timeline.Pack(r.e.Timeline.Add(p, v.RetryAfter))
	r.s.denials.Set(r.denialHash(limit), free, r.e.Timeline.UnixNano(p)+int64(v.ResetAfter))
}

// denialHash is the hash by which a key is remembered that is denied at a limit.
func (r request) denialHash(limit int64) uint64 { return r.h ^ uint64(r.e.Limit-limit) }

// draw returns random bits of a shard that may be over capacity: other ones when something has been admitted, and the same ones once it
// has been restored.
func (r request) draw() uint64 {
	return keyhash.Mix(r.state().Admitted(r.s.admitted), rotating.Seed(r.e.turnSeed, r.s.number))
}

// Prefetch begins to fetch from memory what a decision on the key reads in a generation, by its number, and in those kept
// before it unless it is to be alone.
func (e *Engine) Prefetch(h uint64, generation int64, alone bool) {
	e.algorithm.prefetch(e.request(e.Shard(h), h), generation, alone)
}

// prefetchCells fetches the shard and the lines of a key's cells, and two more.
func (r request) prefetchCells(p, q unsafe.Pointer, first int, h uint64) {
	a, b, c, d := r.e.cells.Four(first, h)
	m := r.e.memory
	prefetch.Lines(unsafe.Pointer(r.s), p, q, unsafe.Pointer(&m[a]), unsafe.Pointer(&m[b]), unsafe.Pointer(&m[c]), unsafe.Pointer(&m[d]))
}
