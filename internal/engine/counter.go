package engine

import (
	"sync/atomic"
	"unsafe"
)

// Counter counts what many goroutines count at once. Each adds in a cache line that
// few others share, chosen by where its stack lies: a flood of denials on all cores
// must not meet in one word.
type Counter [stripes]struct {
	n atomic.Uint64
	_ [56]byte
}

const stripes = 16

// Inc adds one.
func (c *Counter) Inc() {
	var here byte
	c[uintptr(unsafe.Pointer(&here))>>12%stripes].n.Add(1)
}

// Load returns the sum.
func (c *Counter) Load() (n uint64) {
	for i := range c {
		n += c[i].n.Load()
	}
	return n
}
