package exactmath

import "time"

// Slots is the sliding window in m slots. It admits n units while
// count(0) + … + count(m−1) + count(m) × (1 − elapsed/length) + n ≤ limit, where
// count(i) is that of the slot i before the current one.
type Slots struct {
	limit int64
	slot  int64 // length, ns
	m     int64
}

// Ring holds the counts of the generations Latest−m … Latest; a generation's index is
// its number mod m+1. A new key has no counts, and the first units make them. A caller
// with memory of its own gives m+1 zeros instead, and a Latest before any time.
type Ring struct {
	Latest int64
	Counts []int64
}

// NewSlots returns the rule of limit units per m slots of so many nanoseconds.
func NewSlots(limit, slot, m int64) Slots { return Slots{limit, slot, m} }

// count returns what the ring holds for a generation.
func (l *Slots) count(s Ring, generation int64) int64 {
	if s.Counts == nil || generation > s.Latest || generation < s.Latest-l.m {
		return 0
	}
	return s.Counts[mod(generation, l.m+1)]
}

// full returns the counts of the m youngest generations, which are not weighted.
func (l *Slots) full(s Ring, generation int64) (sum int64) {
	for g := generation - l.m + 1; g <= generation; g++ {
		sum += l.count(s, g)
	}
	return sum
}

// Wait implements [Rule]. It goes through the slots to come. In each, the oldest count
// decays, and the others stay until the next turn, when the oldest of them starts to
// decay.
func (l *Slots) Wait(s Ring, t, n int64) time.Duration {
	generation, elapsed := Split(t, l.slot)
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

// Left implements [Rule].
func (l *Slots) Left(s Ring, t int64) (int64, time.Duration) {
	generation, elapsed := Split(t, l.slot)
	oldest := l.count(s, generation-l.m)
	units := l.limit - l.full(s, generation) - weighted(oldest, elapsed, l.slot)
	for age := range l.m + 1 {
		if l.count(s, generation-age) > 0 {
			return units, time.Duration((l.m+1-age)*l.slot - elapsed)
		}
	}
	return units, 0
}

// Spend implements [Rule]. It counts in the memory of s.
func (l *Slots) Spend(s Ring, t, n int64) Ring {
	generation, _ := Split(t, l.slot)
	if s.Counts == nil {
		s = Ring{generation, make([]int64, l.m+1)}
	}
	if s.Latest < generation-l.m { // their difference may be beyond int64
		clear(s.Counts)
		s.Latest = generation
	}
	for s.Latest < generation {
		s.Latest++
		s.Counts[mod(s.Latest, l.m+1)] = 0
	}
	c := &s.Counts[mod(generation, l.m+1)]
	*c += min(n, maxCount-*c)
	return s
}

// Since implements [Rule]. The caller knows the latest generation.
func (l *Slots) Since(Ring) int64 { return -MaxTime }
