package whatif

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// sample follows keys that are drawn by hash, as drawn does, for what keys use in each
// window.
type sample struct {
	zeros int
	most  int
	exact bool // percentiles, too
	users map[uint64]*user
	uses  [][]histogram // of each window and step
}

// user is a key of the sample.
type user struct {
	uses []span
}

// span is what a user has used in the newest generation it was seen in.
type span struct {
	generation int64
	step       int // in which the generation began for it
	units      uint64
}

func newSample(most, windows int) sample {
	return sample{most: most, users: make(map[uint64]*user), uses: make([][]histogram, windows)}
}

// user returns the key's user, or nil if it is not in the sample.
func (s *sample) user(h uint64) *user {
	if !ends(h, s.zeros) {
		return nil
	}
	u := s.users[h]
	if u == nil {
		u = &user{uses: make([]span, len(s.uses))}
		s.users[h] = u
		for len(s.users) > s.most {
			s.narrow()
		}
		if !ends(h, s.zeros) {
			return nil
		}
	}
	return u
}

// narrow drops half of the keys, and what they use at the moment with them.
func (s *sample) narrow() {
	s.zeros++
	maps.DeleteFunc(s.users, func(h uint64, _ *user) bool { return !ends(h, s.zeros) })
}

// weight is how many keys each key of the sample stands for.
func (s *sample) weight() uint64 { return 1 << s.zeros }

// add counts a request of a user, by the generations of the windows that it falls in.
func (s *sample) add(u *user, generations []int64, step int, cost uint32) {
	for w := range u.uses {
		p := &u.uses[w]
		if p.generation != generations[w] || p.units == 0 {
			s.record(w, *p)
			*p = span{generation: generations[w], step: step}
		}
		p.units += uint64(cost)
	}
}

// record counts what a user has used in one window.
func (s *sample) record(w int, p span) {
	if p.units > 0 {
		h := stepOf(&s.uses[w], p.step)
		if s.exact && h.exact == nil {
			h.exact = make(map[uint64]uint64)
		}
		h.add(p.units, s.weight())
	}
}

// widen joins steps.
func (s *sample) widen(moved func(int) int) {
	for w := range s.uses {
		s.uses[w] = joined(s.uses[w], moved, (*histogram).merge)
	}
	for _, u := range s.users {
		for w := range u.uses {
			u.uses[w].step = moved(u.uses[w].step)
		}
	}
}

// histogram counts numbers above 0, exactly below 32 and in bins of 1/16 of their value
// above; or each one, if it is exact.
type histogram struct {
	exact   map[uint64]uint64
	bins    []uint64
	counted uint64 // numbers, without their weights
	max     uint64
}

func (h *histogram) add(v, weight uint64) {
	if h.exact != nil {
		h.exact[v] += weight
	} else {
		*stepOf(&h.bins, bin(v)) += weight
	}
	h.counted++
	h.max = max(h.max, v)
}

func (h *histogram) merge(other histogram) {
	for i, n := range other.bins {
		*stepOf(&h.bins, i) += n
	}
	if h.exact == nil && other.exact != nil {
		h.exact = make(map[uint64]uint64)
	}
	for v, n := range other.exact {
		h.exact[v] += n
	}
	h.counted += other.counted
	h.max = max(h.max, other.max)
}

// bin returns the bin of a number; binEnd the greatest number in it.
func bin(v uint64) int {
	e := max(bits.Len64(v)-5, 0)
	return e<<4 + int(v>>e)
}

func binEnd(i int) uint64 {
	e := max(i>>4-1, 0)
	return uint64(i-e<<4+1)<<e - 1
}

// use returns the percentiles.
func (h *histogram) use() Use {
	total, u := uint64(0), Use{Counted: h.counted, Max: h.max}
	numbers := h.numbers()
	for _, v := range numbers {
		total += v.times
	}
	below := uint64(0)
	for _, v := range numbers {
		below += v.times
		for _, p := range []struct {
			to    *uint64
			share float64
		}{{&u.P50, 0.5}, {&u.P90, 0.9}, {&u.P99, 0.99}, {&u.P999, 0.999}} {
			if *p.to == 0 && float64(below) >= p.share*float64(total) {
				*p.to = min(v.number, h.max)
			}
		}
	}
	return u
}

// counted is a number, and how often it was counted.
type counted struct{ number, times uint64 }

// numbers are what was counted, by size; of a bin its greatest number.
func (h *histogram) numbers() (all []counted) {
	for i, n := range h.bins {
		if n > 0 {
			all = append(all, counted{binEnd(i), n})
		}
	}
	for v, n := range h.exact {
		all = append(all, counted{v, n})
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Compare(a.number, b.number) })
	return all
}
