package exact

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

const maxSlots = 1 << 16

// Slots is the sliding window in m slots of length window/m, which begin at multiples
// of their length since the Unix epoch. The window reaches back over the current
// slot, the m−1 before it and a part of the one before those, so a ring of m+1
// counts is kept, and only the oldest is weighted, by the part of its slot that
// still lies in the window:
//
//	count(0) + … + count(m−1) + count(m) × (1 − elapsed/length) + n ≤ limit
//
// compared without rounding. One slot is [SlidingWindow]; the more there are, the
// closer it comes to [SlidingLog], because the assumption of an even spread concerns
// 1/m of the window. Charges are counted up to 1<<46 units a slot. Memory:
// 8×(m+1) + 32 bytes a key and the map around them; a decision takes time in
// proportion to m.
type Slots struct {
	keyed[exactmath.Ring]
}

// NewSlots returns a limiter of limit units, 1 … 1<<31-1, per window, 1ns … 1<<61ns,
// for every key. The window must be a multiple of slots, 1 … 1<<16, in nanoseconds.
func NewSlots(limit int, window time.Duration, slots int, options ...Option) (*Slots, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	if slots < 1 || slots > maxSlots {
		return nil, fmt.Errorf("exact: slots %d, must be 1 … %d", slots, maxSlots)
	}
	slot := window / time.Duration(slots)
	if rest := window % time.Duration(slots); rest != 0 {
		return nil, fmt.Errorf("exact: window %v, must be a multiple of %d slots: %v is left over", window, slots, rest)
	}
	l, r := new(Slots), exactmath.NewSlots(int64(limit), int64(slot), int64(slots))
	return orNil(l, l.init(&r, ofWindow(limit, window, slot), exactmath.Ring{}, options))
}
