package exactmath

import (
	"fmt"
	"time"
)

// rate is limit units per window in lowest terms. It counts in grains: one unit is
// window/gcd of them, and limit/gcd flow in a nanosecond, so that both are whole.
type rate struct {
	unit  int64 // grains a unit
	flow  int64 // grains a nanosecond
	burst int64 // grains a full bucket
}

// maxGrains is where debts saturate. Nothing flows for so long that it would not
// fit an int64: 1<<61 grains take at most 1<<61 ns.
const maxGrains = MaxSpan

func newRate(limit, window, burst int64) (rate, error) {
	g := gcd(limit, window)
	r := rate{unit: window / g, flow: limit / g}
	if most := maxGrains / r.unit; burst > most {
		return rate{}, fmt.Errorf("exact: burst %d, must be 1 … %d for a limit of %d per %v to be counted exactly",
			burst, most, limit, time.Duration(window))
	}
	r.burst = burst * r.unit
	return r, nil
}

// cost returns the grains of n units.
func (r rate) cost(n int64) int64 { return mulCapped(uint64(n), uint64(r.unit), maxGrains) }

// flowed returns the grains that flow between two times, from ≤ to. The difference
// may be beyond int64, never beyond uint64.
func (r rate) flowed(from, to int64) int64 {
	return mulCapped(uint64(to)-uint64(from), uint64(r.flow), maxGrains)
}

// takes returns how long so many grains take to flow, rounded up; 0 if below 0.
func (r rate) takes(grains int64) time.Duration {
	return time.Duration(ceilDiv(max(grains, 0), r.flow))
}
