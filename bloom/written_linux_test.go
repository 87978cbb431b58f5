package bloom

import (
	"math/rand/v2"
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A store that changes nothing takes a cache line from other cores all the same. The
// filter lies in memory that must not be written once it has the keys.
func TestTestAndAddWritesNothingForKnownKeys(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, probes := range []int{1, 3, 9} {
		memory, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		require.NoError(t, err)
		defer syscall.Munmap(memory)
		f, err := Over(unsafe.Slice((*uint64)(unsafe.Pointer(&memory[0])), len(memory)/8), probes)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(1, 2))
		known := make([]uint64, 100)
		for i := range known {
			known[i] = r.Uint64()
			f.Add(known[i])
		}
		require.NoError(t, syscall.Mprotect(memory, syscall.PROT_READ))
		for _, h := range known {
			require.True(t, f.TestAndAdd(h))
		}
		require.Panics(t, func() {
			for range 100 {
				f.Add(r.Uint64())
			}
		}, "the memory cannot be written")
	}
}
