package sketchlimit

import (
	"sync/atomic"
	"unsafe"
)

// counter counts what many goroutines count at once. Each adds in a cache line that
// few others share, chosen by where its stack lies: a flood of denials on all cores
// must not meet in one word.
type counter [stripes]struct {
	n atomic.Uint64
	_ [56]byte
}

const stripes = 16

func (c *counter) inc() {
	var here byte
	c[uintptr(unsafe.Pointer(&here))>>12%stripes].n.Add(1)
}

func (c *counter) load() (n uint64) {
	for i := range c {
		n += c[i].n.Load()
	}
	return n
}
