package engine

import (
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/gcra"
)

// lastRounded is the key of a shard whose time was last rounded up to a tick, and its time
// without rounding.
//
// It is what a key needs to get all its units at a time between two ticks, or at a tier
// whose unit is not whole ticks, unless another key of the shard is in need as well.
// The cells hold its time rounded up: the key may be forgotten at any time. While it is
// remembered all its charges are counted here, so its time is never too early.
type lastRounded struct {
	key uint64
	gcra.Time
}

// lastWords are the words of a lastRounded in a shard's memory, after its cells.
const lastWords = int(unsafe.Sizeof(lastRounded{}) / 8)

// lastTag is kept in the shard, which every decision reads, so that other keys need not look further.
func (r request) lastTag() uint32 { return uint32(r.h) | 1 }

// lastRounded returns the shard's lastRounded if it is the request's key, or else nil.
func (r request) lastRounded() *lastRounded {
	if r.s.peaks.current != r.lastTag() {
		return nil
	}
	if last := r.lastWords(); last.key == r.h {
		return last
	}
	return nil
}

func (r request) lastWords() *lastRounded {
	return (*lastRounded)(unsafe.Pointer((*[lastWords]uint64)(r.memory[r.first+r.generation:])))
}
