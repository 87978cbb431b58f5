package sketchlimit

import (
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/prefetch"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Prefetch begins to fetch from memory what a decision on the key reads, and does not wait
// for it. It decides and changes nothing. It pays where the memory of limiters leaves the
// processor's caches between two requests, and there is other work before the decision or
// another limiter to ask: all that is waited for is then under way at once.
func (l *Limiter) Prefetch(key []byte) {
	r := l.request(l.hashBytes(key))
	shard := unsafe.Pointer(r.s)
	if r.bucket.burst > 0 {
		prefetch.Lines(shard, shard)
		r.prefetchCells(r.first, mix(r.h, r.bucket.seed))
		return
	}
	if r.heavy.buckets > 0 {
		prefetch.Lines(shard, unsafe.Pointer(&r.memory[r.heavy.bucket(r.table(), r.h)]))
	}
	latest := r.windows.Latest()
	for age := range int64(r.generations) {
		first, h := r.at(latest - age)
		bits := unsafe.Pointer(&r.memory[r.door.Block(first, h)])
		prefetch.Lines(bits, bits)
		r.prefetchCells(first+r.cellsFirst, h)
	}
}

// at returns the first word of a generation, by its number, and the key's hash there. Other
// than buffer it does not look into the shard, which may not be there yet, and which is where
// this says only once it has turned.
func (r request) at(number int64) (first int, h uint64) {
	return r.first + rotating.Buffer(number, r.generations)*r.generation, mix(r.h, rotating.Seed(r.seed, number))
}

func (r request) prefetchCells(first int, h uint64) {
	for row := 0; row < r.cells.Depth(); row += 2 {
		p, q, next := r.cells.Pair(first, h, row)
		prefetch.Lines(unsafe.Pointer(&r.memory[p]), unsafe.Pointer(&r.memory[q]))
		h = next
	}
}
