package engine

import (
	"math"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// bucket is the arithmetic of [TokenBucket]: a sketch of times.
//
// Of a key it keeps one number, the time at which its bucket is full again (GCRA's
// theoretical arrival time): the greatest that any key of the cell has, and of the key's
// cells the least is read. So a reading is never too early, and an idle key's bucket
// fills by time passing, without anything being cleared.
//
// A cell counts ticks since its generation began; 0 is a time that has passed. One unit
// flows in a whole number of ticks, so a charge adds to a cell without rounding. Only the
// time at which a full bucket is first drawn from is rounded up to a tick. Generations are
// whole ticks and whole nanoseconds, and say nothing of the limit: at the end of each one
// cells are brought forward, so that 32 bits suffice for ever.
//
// A time between two ticks, or a tier whose unit is no whole number of ticks, would cost a
// bucket the last of its units: for a part of a tick. So each shard remembers, for the key
// that it last rounded up, the time without rounding: see lastRounded.
type bucket struct {
	burst int64    // units in a full bucket; 0 if the algorithm is another one
	span  int64    // in which limit units flow, ns
	unit  int64    // in which one unit flows, ticks
	ticks fraction // of a nanosecond
	nanos fraction // of a tick
	turn  int64    // a generation, ticks
	seed  uint64
}

const (
	// generationTicks is about how many ticks a generation has. The rest of what 32 bits
	// count is for the times that lie ahead when it ends.
	generationTicks = 1 << 30
)

// newBucket returns the arithmetic, and the length of its generations.
func newBucket(limit, burst, span int64) (b bucket, generation time.Duration) {
	b = bucket{burst: burst, span: span}
	b.unit = unitTicks(limit, span, max(b.burst, limit)) // a lower limit of a request's own may allow just one unit in span
	g := gcd(limit*b.unit, span)
	ticks, ns := limit*b.unit/g, span/g // so many ticks are so many ns
	b.ticks, b.nanos = newFraction(ticks, ns), newFraction(ns, ticks)
	n := max(1, min(generationTicks/ticks, MaxWindow/ns))
	b.turn = n * ticks
	return b, time.Duration(n * ns)
}

// unitTicks returns the number of ticks in which a unit flows: as many as leave a cell room
// for so many units, and as many again of debt, beside a generation. Where there is a choice, times of whole microseconds
// or other round figures are whole ticks.
func unitTicks(limit, span, units int64) int64 {
	g := gcd(limit, span)
	limit, span = limit/g, span/g
	reach := math.MaxUint32 - 1 - max(generationTicks, limit)
	room := max(reach/(2*units), min(1, reach/units)) // of the largest limits, less debt fits in a cell
	any := min(room, max(1, generationTicks/limit))
	finest := int64(0) // ns that are whole ticks
	var round [3]int64 // the same, of which microseconds, milliseconds, seconds are multiples
	for fives := int64(1); fives <= span && span%fives == 0; fives *= 5 {
		ns := fives
		for span/ns > room && span%(2*ns) == 0 {
			ns *= 2
		}
		if span/ns > room {
			continue
		}
		if finest == 0 || ns < finest {
			finest = ns
		}
		for i, d := range []time.Duration{time.Microsecond, time.Millisecond, time.Second} {
			if int64(d)%ns == 0 && (round[i] == 0 || ns < round[i]) {
				round[i] = ns
			}
		}
	}
	if finest == 0 || 8*(span/finest) < any {
		return any
	}
	for _, ns := range round {
		if ns > 0 && ns <= 4*finest {
			return span / ns
		}
	}
	return span / finest
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Fills returns the time in which a bucket of burst units fills, of which limit flow in a window: ns
// rounded up, or more than MaxWindow if it is longer than that.
func Fills(limit, burst int, window time.Duration) int64 {
	if burst <= limit {
		return int64(window) // or less
	}
	hi, lo := bits.Mul64(uint64(burst), uint64(window))
	if hi >= uint64(limit) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(limit))
	return int64(min(q, MaxWindow)) + 1
}

// most returns the units in a full bucket of a limit of 0 … whole, in proportion; one at
// least, unless the limit is 0.
func (b *bucket) most(limit, whole int64) int64 {
	if limit == whole {
		return b.burst
	}
	return max(min(1, limit), b.burst*limit/whole)
}

// flows returns the ticks in which n units flow at a limit, rounded down, and whether
// there was anything to round. No n of a bucket is too large for it.
func (b *bucket) flows(n, limit, whole int64) (ticks int64, rounded bool) {
	if limit == whole {
		return n * b.unit, false
	}
	total := uint64(n) * uint64(whole*b.unit)
	return int64(total / uint64(limit)), total%uint64(limit) > 0
}

// charged is flows rounded up.
func (b *bucket) charged(n, limit, whole int64) int64 {
	ticks, rounded := b.flows(n, limit, whole)
	if rounded {
		ticks++
	}
	return ticks
}

// room returns how many ticks ahead the time may lie at which a bucket is full again, so that all units but the
// others are there.
func (b *bucket) room(others, limit, whole int64) int64 {
	ticks, _ := b.flows(others, limit, whole)
	return ticks
}

// even tells whether a unit at a limit is whole ticks.
func (b *bucket) even(limit, whole int64) bool {
	return limit == whole || uint64(whole*b.unit)%uint64(limit) == 0
}

// free returns how many units have flowed in a bucket that is full again so many ticks ahead.
func (b *bucket) free(ahead, limit, whole int64) int64 {
	switch {
	case ahead == 0:
		return b.most(limit, whole)
	case limit == whole:
		return b.burst - int64((uint64(ahead)+uint64(b.unit)-1)/uint64(b.unit))
	}
	return b.most(limit, whole) - CeilDiv(ahead, limit, whole*b.unit)
}

// until returns the time from a position to a tick of its generation, or later, rounded up.
func (b *bucket) until(p rotating.Position, tick int64) time.Duration {
	return time.Duration(b.nanos.up(uint64(tick)) - int64(p.Elapsed))
}

// retryAfter returns the time until n units are free, if nothing else comes, that are not
// now, of a bucket that is full again at a tick.
func (b *bucket) retryAfter(p rotating.Position, tick, n, limit, whole int64) time.Duration {
	most := b.most(limit, whole)
	if n < 1 || n > most {
		return Never
	}
	room, _ := b.flows(most-n, limit, whole)
	return b.until(p, tick-room)
}

// takes returns the time in which n units flow, ns rounded up.
func (b *bucket) takes(n, limit int64) int64 { return CeilDiv(n, b.span, limit) }

// CeilDiv returns a×b/c rounded up, which must fit an int64.
func CeilDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	if r > 0 {
		q++
	}
	return int64(q)
}

// passed returns the ticks from one generation to a later one, as far as cells reach.
func (b *bucket) passed(from, to int64) uint32 {
	if to == from {
		return 0
	}
	if to-from > math.MaxUint32/b.turn {
		return math.MaxUint32
	}
	return uint32((to - from) * b.turn)
}

// forward brings cells forward by so many ticks: what has passed by then reads 0.
func forward(cells []uint64, ticks uint32) {
	if ticks == math.MaxUint32 {
		clear(cells)
		return
	}
	t := uint64(ticks)
	for i, w := range cells {
		hi, lo := w>>32, w&math.MaxUint32
		cells[i] = (hi-min(hi, t))<<32 | (lo - min(lo, t))
	}
}

// beyond returns the least that a cell holds whose time is more than ns later than a
// position.
func (b *bucket) beyond(p rotating.Position, ns int64) uint32 {
	ticks, _ := b.ticks.times(uint64(int64(p.Elapsed) + ns))
	return uint32(min(ticks+1, math.MaxUint32))
}

// Beyond returns the least that a bucket's cell holds whose time is more than ns later than a position.
func (w *Rule) Beyond(p rotating.Position, ns int64) uint32 { return w.bucket.beyond(p, ns) }

// falseDenialRate returns the chance that a new key is denied n units now at a limit which the exact algorithm
// admits: that it meets, in every row, a cell whose time lies too far ahead.
func (b *bucket) falseDenialRate(p rotating.Position, cells *cms.Sketch, n, limit, whole int64) float64 {
	most := b.most(limit, whole)
	if n < 1 || n > most {
		return 0
	}
	room, _ := b.flows(most-n, limit, whole)
	return b.tail(p, cells, room)
}

// tail returns the chance that a new key's bucket is full again more than so many ticks from now.
func (b *bucket) tail(p rotating.Position, cells *cms.Sketch, ticks int64) float64 {
	least := min(int64(b.beyond(p, 0))+ticks, math.MaxUint32)
	sum := 0.0
	for lane := range cells.Lanes() {
		chance := 1.0
		for row := range cells.Depth() {
			chance *= cells.Tail(row, lane, uint32(least))
		}
		sum += chance
	}
	return sum / float64(cells.Lanes())
}
