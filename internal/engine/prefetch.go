package engine

import (
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/prefetch"
)

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
