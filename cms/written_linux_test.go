package cms

import (
	"bytes"
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A store that changes nothing takes a cache line from other cores all the same. Rows
// whose cells read enough lie in memory that must not be written.
func TestAddBoundedWritesNoOtherCellThatReadsEnough(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	page := os.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer syscall.Munmap(memory)
	s, err := Over(unsafe.Slice((*uint64)(unsafe.Pointer(&memory[0])), len(memory)/8), 3, 2*page, 4)
	require.NoError(t, err)
	protect := func(row, prot int) { require.NoError(t, syscall.Mprotect(memory[row*page:][:page], prot)) }

	for _, enough := range [][]int{{1}, {2}, {1, 2}} {
		for _, c := range []struct {
			n    uint32
			cell byte
		}{{2, 5 + digits*5}, {20, beyond + 50}} {
			clear(memory)
			for _, row := range enough {
				copy(memory[row*page:][:page], bytes.Repeat([]byte{c.cell}, page))
				protect(row, syscall.PROT_READ)
			}
			for h := range uint64(100) {
				e, ok := s.AddBounded(remix(h), c.n, 100)
				require.True(t, ok)
				require.GreaterOrEqual(t, e, c.n)
			}
			require.Panics(t, func() { s.AddBounded(remix(1), 70, 100) }, "the memory cannot be written")
			for _, row := range enough {
				protect(row, syscall.PROT_READ|syscall.PROT_WRITE)
			}
		}
	}
}
