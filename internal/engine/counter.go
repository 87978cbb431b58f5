package engine

import (
	"sync/atomic"
	"unsafe"
)

// Counter counts what many goroutines count at once. Each adds in a cache line that
// few others share, chosen by where its stack lies: a flood of denials on all cores
// must not meet in one word.
//
// The rest of the lines holds what requests have lately been like, twice, see lately.
type Counter [stripes]stripe

type stripe struct {
	n    atomic.Uint64
	rest [lineWords - 1]atomic.Uint64
}

const (
	stripes   = 16
	lineWords = 8
)

// here returns the number of the caller's stripe.
func here() int {
	var stack byte
	return int(uintptr(unsafe.Pointer(&stack)) >> 12 % stripes)
}

// Inc adds one.
func (c *Counter) Inc() { c[here()].n.Add(1) }

// Load returns the sum.
func (c *Counter) Load() (n uint64) {
	for i := range c {
		n += c[i].n.Load()
	}
	return n
}
