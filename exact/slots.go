package exact

import (
	"fmt"
	"time"
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
	keyed[ring]
	slot int64 // length, ns
	m    int64
}

// ring holds the counts of the generations latest−m … latest; a generation's index is
// its number mod m+1. A new key has no counts.
type ring struct {
	latest int64
	counts []int64
}

// NewSlots returns a limiter of limit units, 1 … 1<<31-1, per window, 1ns … 1<<61ns,
// for every key. The window must be a multiple of slots, 1 … 1<<16, in nanoseconds.
func NewSlots(limit int, window time.Duration, slots int) (*Slots, error) {
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
	l := &Slots{slot: int64(slot), m: int64(slots)}
	l.init(l, limit, slot, ring{})
	return l, nil
}

// count returns what the ring holds for a generation.
func (l *Slots) count(s ring, generation int64) int64 {
	if s.counts == nil || generation > s.latest || generation < s.latest-l.m {
		return 0
	}
	return s.counts[mod(generation, l.m+1)]
}

// full returns the counts of the m youngest generations, which are not weighted.
func (l *Slots) full(s ring, generation int64) (sum int64) {
	for g := generation - l.m + 1; g <= generation; g++ {
		sum += l.count(s, g)
	}
	return sum
}

// wait goes through the slots to come. In each, the oldest count decays, and the
// others stay until the next turn, when the oldest of them starts to decay.
func (l *Slots) wait(s ring, t, n int64) time.Duration {
	generation, elapsed := split(t, l.slot)
	free := l.limit - n - l.full(s, generation)
	for turn := int64(0); ; turn++ { // with no full slot left, free = limit − n ≥ 0
		oldest := l.count(s, generation-l.m+turn)
		if turn > 0 {
			free += oldest
		}
		if free >= 0 {
			return time.Duration(max(0, turn*l.slot+decay(oldest, free, l.slot)-elapsed))
		}
	}
}

func (l *Slots) left(s ring, t int64) (int64, time.Duration) {
	generation, elapsed := split(t, l.slot)
	oldest := l.count(s, generation-l.m)
	units := l.limit - l.full(s, generation) - weighted(oldest, elapsed, l.slot)
	for age := range l.m + 1 {
		if l.count(s, generation-age) > 0 {
			return units, time.Duration((l.m+1-age)*l.slot - elapsed)
		}
	}
	return units, 0
}

func (l *Slots) spend(s ring, t, n int64) ring {
	generation, _ := split(t, l.slot)
	if s.counts == nil {
		s = ring{generation, make([]int64, l.m+1)}
	}
	if generation-s.latest > l.m {
		clear(s.counts)
		s.latest = generation
	}
	for s.latest < generation {
		s.latest++
		s.counts[mod(s.latest, l.m+1)] = 0
	}
	c := &s.counts[mod(generation, l.m+1)]
	*c += min(n, maxCount-*c)
	return s
}

func (l *Slots) since(ring) int64 { return -maxTime } // keyed knows the latest generation
