package audit

import (
	"math"
	"math/bits"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// ancient is before all times.
const ancient = -1 << 61

// window is windows of a limit. A request's lower limit is a window of which some units
// are held back.
type window[S any] struct {
	exactmath.Rule[S]
	limit int64
}

func (w window[S]) used(s *S, at int64) int64 {
	left, _ := w.Left(*s, at)
	return w.limit - left
}

func (w window[S]) gone(s *S, at int64) bool {
	_, reset := w.Left(*s, at)
	return reset == 0
}

func (w window[S]) fits(used, n, limit int64) bool { return n <= limit-used }

func (w window[S]) light(used, limit int64) bool { return 2*used < limit }

func (w window[S]) words() int { return 0 }

func (w window[S]) alike() bool { return false }

func (w window[S]) full(limit int64) int64 { return limit }

func (w window[S]) exhaust(*S, int64) {} // what was used counts no more two windows later

type fixed struct {
	window[exactmath.WindowCount]
}

func (fixed) initial([]int64) exactmath.WindowCount {
	return exactmath.WindowCount{Generation: ancient}
}
func (f fixed) reset(s *exactmath.WindowCount) { *s = f.initial(nil) }

func (f fixed) spend(s *exactmath.WindowCount, at, n, _ int64) { *s = f.Spend(*s, at, n) }

type sliding struct {
	window[exactmath.WindowPair]
}

func (sliding) initial([]int64) exactmath.WindowPair {
	return exactmath.WindowPair{Generation: ancient}
}
func (w sliding) reset(s *exactmath.WindowPair) { *s = w.initial(nil) }

// spend counts at most the limit in a generation, as a limiter does of what is charged.
func (w sliding) spend(s *exactmath.WindowPair, at, n, _ int64) {
	*s = w.Spend(*s, at, n)
	s.Current = min(s.Current, w.limit)
}

// slots is sliding windows of m sub-windows.
type slots struct {
	window[exactmath.Ring]
	m int64
}

func (w slots) initial(counts []int64) exactmath.Ring {
	return exactmath.Ring{Latest: ancient, Counts: counts}
}

func (slots) reset(s *exactmath.Ring) {
	s.Latest = ancient
	clear(s.Counts)
}

func (w slots) words() int { return int(w.m + 1) }

// spend counts at most the limit in a generation.
func (w slots) spend(s *exactmath.Ring, at, n, _ int64) {
	*s = w.Spend(*s, at, n)
	for i, c := range s.Counts {
		s.Counts[i] = min(c, w.limit)
	}
}

// bucket is token buckets. A request's lower limit is a bucket that is smaller, and fills
// slower, in proportion. What is not a whole number of grains is rounded in its favour.
type bucket struct {
	exactmath.GCRA
	limit, burst int64
}

func (b *bucket) initial([]int64) exactmath.Arrival        { return b.Initial() }
func (b *bucket) reset(s *exactmath.Arrival)               { *s = b.Initial() }
func (*bucket) alike() bool                                { return true }
func (*bucket) words() int                                 { return 0 }
func (b *bucket) gone(s *exactmath.Arrival, at int64) bool { return b.Ahead(*s, at) == 0 }

// full returns the units in a full bucket of a limit.
func (b *bucket) full(limit int64) int64 {
	if limit == b.limit {
		return b.burst
	}
	return max(1, b.burst*limit/b.limit)
}

// grains returns those of n units at a limit, rounded down, and whether there was
// anything to round.
func (b *bucket) grains(n, limit int64) (grains int64, rounded bool) {
	hi, lo := bits.Mul64(uint64(n)*uint64(b.Unit()), uint64(b.limit))
	if hi >= uint64(limit) {
		return math.MaxInt64 / 4, false
	}
	q, r := bits.Div64(hi, lo, uint64(limit))
	return int64(min(q, math.MaxInt64/4)), r > 0
}

func (b *bucket) exhaust(s *exactmath.Arrival, at int64) { b.spend(s, at, 2*b.burst, b.limit) }

func (b *bucket) used(s *exactmath.Arrival, at int64) int64 { return b.Ahead(*s, at) }

func (b *bucket) fits(used, n, limit int64) bool {
	most := b.full(limit)
	if n > most {
		return false
	}
	room, rounded := b.grains(most-n, limit)
	if rounded {
		room++
	}
	return used <= room
}

func (b *bucket) light(used, limit int64) bool {
	full, _ := b.grains(b.full(limit), limit)
	return 2*used < full
}

// spend counts a debt of at most a full bucket, as a limiter does of what is charged:
// by the time of the charge, also where that is before the last one.
func (b *bucket) spend(s *exactmath.Arrival, at, n, limit int64) {
	grains, _ := b.grains(min(n, 2*b.full(limit)), limit)
	full, _ := b.grains(b.full(limit), limit)
	room := 2*full - b.Ahead(*s, at)
	if at < s.Last {
		room -= b.Flowed(at, s.Last)
	}
	*s = b.Pour(*s, at, max(0, min(grains, room)))
}
