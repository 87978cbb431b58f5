// Package striped counts what many goroutines count at once.
package striped

import (
	"sync/atomic"
	"unsafe"
)

// Counter is a sum to which each goroutine adds in a cache line that few others share,
// chosen by where its stack lies: a flood of denials on all cores must not meet in one
// word. The rest of the lines is words for the caller's use, [Lines] times [LineWords].
// Its zero value is 0. It is safe for concurrent use.
type Counter [Lines]line

const (
	Lines     = 16 // of a Counter
	LineWords = 7  // of a line beside the count
)

type line struct {
	n     atomic.Uint64
	words [LineWords]atomic.Uint64
}

// here returns the index of the caller's line.
func here() int {
	var stack byte
	return int(uintptr(unsafe.Pointer(&stack)) >> 12 % Lines)
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

// Word returns a word for the caller's use: the i-th of a line, 0 … LineWords-1.
func (c *Counter) Word(line, i int) *atomic.Uint64 { return &c[line].words[i] }
