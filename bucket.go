package sketchlimit

import (
	"math"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit/cms"
)

// bucket is the arithmetic of [TokenBucket]: a sketch of times.
//
// Of a key it keeps one number, the time at which its bucket is full again (GCRA's
// theoretical arrival time): the greatest that any key of the cell has, and of the key's
// cells the least is read. So a reading is never too early, and an idle key's bucket
// fills by time passing, without anything being cleared.
//
// A cell counts ticks since its generation began, rounded up; 0 is a time that has
// passed. A generation is 1<<tickBits ticks and says nothing of the limit: it is how often
// cells are brought forward, so that 32 bits suffice for ever.
//
// All else is in nanoseconds and whole units, rounded where it must be against the
// request: as long as ticks and a unit's time are whole nanoseconds the answers are
// GCRA's own.
type bucket struct {
	burst int64 // units in a full bucket; 0 if the algorithm is another one
	span  int64 // in which limit units flow, ns
	unit  int64 // in which one unit flows, ns, rounded up
	seed  uint64
	shift uint8 // a tick is 1<<shift ns
}

const (
	tickBits = 30
	// maxAhead is the most ticks that a bucket takes to fill, so that a cell that
	// is set in the last nanosecond of a generation does not overflow.
	maxAhead = 3<<tickBits - 1
	// forgotten is the number of generations after which no cell lies ahead.
	forgotten = 4
)

// bucket returns the arithmetic of a checked Config that asks for it.
func (c *Config) bucket() bucket {
	b := bucket{burst: int64(c.Burst), span: int64(c.Window), unit: ceilDiv(1, int64(c.Window), int64(c.Limit))}
	if b.burst == 0 {
		b.burst = int64(c.Limit)
	}
	// A lower limit of a request's own may allow just one unit in span.
	for longest := max(b.span, c.fills()); longest>>b.shift >= maxAhead; {
		b.shift++
	}
	return b
}

// fills returns the time in which a bucket fills, ns rounded up, or more than maxWindow if
// it is longer than that.
func (c *Config) fills() int64 {
	if c.Burst <= c.Limit {
		return int64(c.Window) // or less
	}
	hi, lo := bits.Mul64(uint64(c.Burst), uint64(c.Window))
	if hi >= uint64(c.Limit) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c.Limit))
	return int64(min(q, maxWindow)) + 1
}

// most returns the units in a full bucket of a limit of 0 … whole, in proportion; one at
// least, unless the limit is 0.
func (b *bucket) most(limit, whole int64) int64 {
	if limit == whole {
		return b.burst
	}
	return max(min(1, limit), b.burst*limit/whole)
}

// ahead returns how much later than a time since the generation began a cell's is, ns.
func (b *bucket) ahead(cell uint32, elapsed time.Duration) int64 {
	return max(0, int64(cell)<<(b.shift&63)-int64(elapsed))
}

// used returns how many units have not flowed yet, rounded up.
func (b *bucket) used(ahead, limit int64) int64 {
	if ahead == 0 {
		return 0
	}
	return ceilDiv(ahead, limit, b.span)
}

// takes returns the time in which n units flow, rounded up.
func (b *bucket) takes(n, limit, whole int64) int64 {
	if n == 1 && limit == whole {
		return b.unit
	}
	return ceilDiv(n, b.span, limit)
}

// retryAfter returns the time until n units are free if nothing else comes.
func (b *bucket) retryAfter(ahead, n, limit, whole int64) time.Duration {
	most := b.most(limit, whole)
	if n < 1 || n > most {
		return Never
	}
	hi, lo := bits.Mul64(uint64(most-n), uint64(b.span))
	room, _ := bits.Div64(hi, lo, uint64(limit))
	return time.Duration(ahead - int64(room))
}

// ceilDiv returns a×b/c rounded up, which must fit an int64.
func ceilDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	if r > 0 {
		q++
	}
	return int64(q)
}

// takeTime is [request.take] for a bucket, in the shard's generation.
func (r request) takeTime(p Position, n, limit int64) verdict {
	b := &r.bucket
	h := mix(r.h, b.seed)
	ahead := b.ahead(r.cells.Estimate(r.memory, r.first, h), p.Elapsed)
	free := b.most(limit, r.limit) - b.used(ahead, limit)
	if n < 1 || n > free {
		v := verdict{
			remaining:  int(max(free, 0)),
			retryAfter: b.retryAfter(ahead, n, limit, r.limit),
			resetAfter: time.Duration(ahead),
		}
		r.s.denied += uint64(max(n, 0))
		if n == 1 && limit > 0 {
			r.remember(p, limit, v)
		}
		return v
	}
	r.s.admitted += uint64(n)
	r.s.last.forget()
	full := int64(p.Elapsed) + ahead + b.takes(n, limit, r.limit)
	cell := (full-1)>>(b.shift&63) + 1
	r.cells.Raise(r.memory, r.first, h, uint32(cell))
	return verdict{allowed: true, remaining: int(free - n), resetAfter: time.Duration(cell<<(b.shift&63) - int64(p.Elapsed))}
}

// peekTime is [request.peek] for a bucket. The position may lie generations ahead of
// the shard's.
func (r request) peekTime(p Position, n, limit int64) verdict {
	b := &r.bucket
	cell := r.cells.Estimate(r.memory, r.first, mix(r.h, b.seed))
	cell -= min(cell, passed(r.s.number, p.Generation))
	ahead := b.ahead(cell, p.Elapsed)
	free := b.most(limit, r.limit) - b.used(ahead, limit)
	v := verdict{allowed: n >= 1 && n <= free, remaining: int(max(free, 0)), resetAfter: time.Duration(ahead)}
	if !v.allowed {
		v.retryAfter = b.retryAfter(ahead, n, limit, r.limit)
	}
	return v
}

// passed returns the ticks from one generation to a later one, as far as cells reach.
func passed(from, to int64) uint32 {
	if to-from >= forgotten {
		return math.MaxUint32
	}
	return uint32(to-from) << tickBits
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
func (b *bucket) beyond(p Position, ns int64) uint32 {
	return uint32((int64(p.Elapsed)+ns)>>b.shift) + 1
}

// falseDenialRate returns the chance that a new key is denied n units now at a limit which the exact algorithm
// admits: that it meets, in every row, a cell whose time lies too far ahead.
func (b *bucket) falseDenialRate(p Position, cells *cms.Sketch, n, limit, whole int64) float64 {
	if n < 1 || n > b.most(limit, whole) {
		return 0
	}
	room := -int64(b.retryAfter(0, n, limit, whole)) // the most ns ahead that leave them
	sum := 0.0
	for lane := range cells.Lanes() {
		chance := 1.0
		for row := range cells.Depth() {
			chance *= cells.Tail(row, lane, b.beyond(p, room))
		}
		sum += chance
	}
	return sum / float64(cells.Lanes())
}
