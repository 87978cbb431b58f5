// Package testkit is what tests of several packages share.
package testkit

import (
	"math"
	"runtime"
)

// Heap returns the bytes of the heap that are in use, once it shrinks no more.
func Heap() int {
	var m runtime.MemStats
	for last := uint64(math.MaxUint64); ; last = m.HeapAlloc {
		runtime.GC()
		runtime.Gosched()
		runtime.ReadMemStats(&m)
		if m.HeapAlloc+512 >= last {
			return int(m.HeapAlloc)
		}
	}
}

// MostFalseDenials returns how many false denials of light keys n requests may
// show if the rate is at most p. Denials of one key come together, at most about
// five in a window of these workloads, so there are a fifth as many independent
// events, Poisson-distributed. A sound limiter passes the bound with a chance below
// 1e-6.
func MostFalseDenials(n uint64, p float64) uint64 {
	const together = 5
	mean := float64(n) * p / together
	chance, most := math.Exp(-mean), 0
	for left := 1 - chance; left > 1e-6; left -= chance {
		most++
		chance *= mean / float64(most)
	}
	return uint64(together * most)
}
