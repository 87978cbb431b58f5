package gcra

import (
	"math"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Bucket is the arithmetic of a token bucket. Of a key it needs one number, the time at
// which its bucket is full again: GCRA's theoretical arrival time.
//
// Times are ticks since a generation began; 0 is a time that has passed. One unit flows
// in a whole number of ticks, so a charge adds to a time without rounding. Only the
// time at which a full bucket is first drawn from is rounded up to a tick. Generations
// are whole ticks and whole nanoseconds, and say nothing of the limit: at the end of
// each one times are brought forward, so that 32 bits suffice for ever.
//
// Most methods take a limit of the request's own, 0 … whole, and whole, the limit of
// the bucket. A lower limit is a bucket that is smaller, and fills slower, in
// proportion.
//
// A time between two ticks, or a limit whose unit is no whole number of ticks, would
// cost a bucket the last of its units, for a part of a tick. [Time] is without
// rounding.
//
// A Bucket is immutable. Its zero value is none.
type Bucket struct {
	Burst  int64 // units in a full bucket; 0 of no bucket
	Span   int64 // time in which limit units flow, ns
	Unit   int64 // time in which one unit flows, ticks
	Length int64 // of a generation, ticks

	ticks fraction // of a nanosecond
	nanos fraction // of a tick
}

const (
	// generationTicks is about the number of ticks in a generation. The other three
	// quarters of 32 bits are for times that still lie ahead when it ends.
	generationTicks = 1 << 30
)

// New returns the arithmetic of a bucket of burst units, of which limit flow back in a
// span of ns, and the length of its generations.
func New(limit, burst, span int64) (b Bucket, generation time.Duration) {
	b = Bucket{Burst: burst, Span: span}
	b.Unit = unitTicks(limit, span, max(b.Burst, limit)) // a lower limit of a request's own may allow just one unit in span
	g := gcd(limit*b.Unit, span)
	ticks, ns := limit*b.Unit/g, span/g // so many ticks are so many ns
	b.ticks, b.nanos = newFraction(ticks, ns), newFraction(ns, ticks)
	n := max(1, min(generationTicks/ticks, windowmath.MaxWindow/ns))
	b.Length = n * ticks
	return b, time.Duration(n * ns)
}

// unitTicks returns the number of ticks in which a unit flows: as many as leave 32 bits
// room for so many units, and as many again of debt, beside a generation. Where there
// is a choice, times of whole microseconds or other round figures are whole ticks.
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

// Fills returns the time in which a bucket of burst units fills, of which limit flow in
// a window: ns rounded up, or more than windowmath.MaxWindow if it is longer than that.
func Fills(limit, burst int, window time.Duration) int64 {
	if burst <= limit {
		return int64(window) // or less
	}
	hi, lo := bits.Mul64(uint64(burst), uint64(window))
	if hi >= uint64(limit) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(limit))
	return int64(min(q, windowmath.MaxWindow)) + 1
}

// Most returns the units in a full bucket of a limit of 0 … whole, in proportion; one
// at least, unless the limit is 0.
func (b *Bucket) Most(limit, whole int64) int64 {
	if limit == whole {
		return b.Burst
	}
	return max(min(1, limit), b.Burst*limit/whole)
}

// flows returns the ticks in which n units flow at a limit, rounded down, and whether
// there was anything to round. No n of a bucket is too large for it.
func (b *Bucket) flows(n, limit, whole int64) (ticks int64, rounded bool) {
	if limit == whole {
		return n * b.Unit, false
	}
	total := uint64(n) * uint64(whole*b.Unit)
	return int64(total / uint64(limit)), total%uint64(limit) > 0
}

// Charged returns the ticks in which n units flow at a limit, rounded up.
func (b *Bucket) Charged(n, limit, whole int64) int64 {
	ticks, rounded := b.flows(n, limit, whole)
	if rounded {
		ticks++
	}
	return ticks
}

// Flows returns the ticks in which n units flow at a limit, rounded down: how far ahead
// the time may lie at which a bucket is full again if all units but n are to be free.
func (b *Bucket) Flows(n, limit, whole int64) int64 {
	ticks, _ := b.flows(n, limit, whole)
	return ticks
}

// Even reports whether a unit at a limit is a whole number of ticks.
func (b *Bucket) Even(limit, whole int64) bool {
	return limit == whole || uint64(whole*b.Unit)%uint64(limit) == 0
}

// Free returns how many units have flowed in a bucket that is full again so many ticks
// ahead.
func (b *Bucket) Free(ahead, limit, whole int64) int64 {
	switch {
	case ahead == 0:
		return b.Most(limit, whole)
	case limit == whole:
		return b.Burst - int64((uint64(ahead)+uint64(b.Unit)-1)/uint64(b.Unit))
	}
	return b.Most(limit, whole) - CeilDiv(ahead, limit, whole*b.Unit)
}

// Until returns the time from a moment of a generation, elapsed since it began, to one
// of its ticks or later, rounded up.
func (b *Bucket) Until(elapsed time.Duration, tick int64) time.Duration {
	return time.Duration(b.nanos.up(uint64(tick)) - int64(elapsed))
}

// RetryAfter returns the time from a moment of a generation until n units are free, if
// nothing else comes, that are not now, of a bucket that is full again at a tick.
func (b *Bucket) RetryAfter(elapsed time.Duration, tick, n, limit, whole int64) time.Duration {
	most := b.Most(limit, whole)
	if n < 1 || n > most {
		return windowmath.Never
	}
	room, _ := b.flows(most-n, limit, whole)
	return b.Until(elapsed, tick-room)
}

// Takes returns the time in which n units flow, ns rounded up.
func (b *Bucket) Takes(n, limit int64) int64 { return CeilDiv(n, b.Span, limit) }

// CeilDiv returns a×b/c rounded up, which must fit an int64.
func CeilDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	if r > 0 {
		q++
	}
	return int64(q)
}

// Passed returns the ticks from one generation to a later one, as far as cells reach.
func (b *Bucket) Passed(from, to int64) uint32 {
	if to == from {
		return 0
	}
	if to-from > math.MaxUint32/b.Length {
		return math.MaxUint32
	}
	return uint32((to - from) * b.Length)
}

// Ticks returns the ticks since a generation began, rounded down, and whether there was
// anything to round.
func (b *Bucket) Ticks(elapsed time.Duration) (ticks uint64, between bool) {
	return b.ticks.times(uint64(elapsed))
}

// TicksUp is Ticks rounded up.
func (b *Bucket) TicksUp(elapsed time.Duration) int64 { return b.ticks.up(uint64(elapsed)) }

// Grid returns the ns of which times are to be multiples to be whole ticks.
func (b *Bucket) Grid() int64 { return int64(b.ticks.of) }
