package sketchlimit

import (
	"math"
	"math/bits"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/cms"
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

// fraction is whole + part/of, where part < of ≤ 1<<62.
type fraction struct {
	whole, part, of uint64
	inverse         uint64 // part/of × 1<<64, rounded down
}

func newFraction(a, b int64) fraction {
	r := fraction{whole: uint64(a / b), part: uint64(a % b), of: uint64(b)}
	r.inverse, _ = bits.Div64(r.part, 0, r.of)
	return r
}

// times returns n×r rounded down, for n below 1<<63, and whether there was anything to round.
func (r *fraction) times(n uint64) (q uint64, rounded bool) {
	if r.part == 0 {
		return n * r.whole, false
	}
	q, _ = bits.Mul64(n, r.inverse)
	rest := n*r.part - q*r.of // below 2×r.of
	if rest >= r.of {
		q, rest = q+1, rest-r.of
	}
	return n*r.whole + q, rest > 0
}

// up is times rounded up.
func (r *fraction) up(n uint64) int64 {
	q, rounded := r.times(n)
	if rounded {
		q++
	}
	return int64(q)
}

// bucket returns the arithmetic of a checked Config that asks for it, and the length of its generations.
func (c *Config) bucket() (b bucket, generation time.Duration) {
	limit, span := int64(c.Limit), int64(c.Window)
	b = bucket{burst: int64(c.Burst), span: span}
	if b.burst == 0 {
		b.burst = limit
	}
	b.unit = unitTicks(limit, span, max(b.burst, limit)) // a lower limit of a request's own may allow just one unit in span
	g := gcd(limit*b.unit, span)
	ticks, ns := limit*b.unit/g, span/g // so many ticks are so many ns
	b.ticks, b.nanos = newFraction(ticks, ns), newFraction(ns, ticks)
	n := max(1, min(generationTicks/ticks, maxWindow/ns))
	b.turn = n * ticks
	return b, time.Duration(n * ns)
}

// unitTicks returns the number of ticks in which a unit flows: as many as leave a cell room
// for so many units beside a generation. Where there is a choice, times of whole microseconds
// or other round figures are whole ticks.
func unitTicks(limit, span, units int64) int64 {
	g := gcd(limit, span)
	limit, span = limit/g, span/g
	room := (math.MaxUint32 - 1 - max(generationTicks, limit)) / units
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

// grid returns the ns that times are to be multiples of to be whole ticks, if milliseconds are
// such times, or else 1; also for a window.
func (b *bucket) grid() int64 {
	if b.burst > 0 && int64(Resolution)%int64(b.ticks.of) == 0 {
		return int64(b.ticks.of)
	}
	return 1
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
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

// flows returns the ticks in which n units flow at a limit, rounded down, and whether
// there was anything to round. No n of a bucket is too large for it.
func (b *bucket) flows(n, limit, whole int64) (ticks int64, rounded bool) {
	if limit == whole {
		return n * b.unit, false
	}
	total := uint64(n) * uint64(whole*b.unit)
	return int64(total / uint64(limit)), total%uint64(limit) > 0
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
	return b.most(limit, whole) - ceilDiv(ahead, limit, whole*b.unit)
}

// until returns the time from a position to a tick of its generation, or later, rounded up.
func (b *bucket) until(p Position, tick int64) time.Duration {
	return time.Duration(b.nanos.up(uint64(tick)) - int64(p.Elapsed))
}

// retryAfter returns the time until n units are free, if nothing else comes, that are not
// now, of a bucket that is full again at a tick.
func (b *bucket) retryAfter(p Position, tick, n, limit, whole int64) time.Duration {
	most := b.most(limit, whole)
	if n < 1 || n > most {
		return Never
	}
	room, _ := b.flows(most-n, limit, whole)
	return b.until(p, tick-room)
}

// takes returns the time in which n units flow, ns rounded up.
func (b *bucket) takes(n, limit int64) int64 { return ceilDiv(n, b.span, limit) }

// ceilDiv returns a×b/c rounded up, which must fit an int64.
func ceilDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	if r > 0 {
		q++
	}
	return int64(q)
}

// lastRounded is the key of a shard whose time was last rounded up to a tick, and its time
// without rounding: its bucket is full again at unix time ns + part/of nanoseconds.
//
// It is what a key needs to get all its units at a time between two ticks, or at a tier
// whose unit is not whole ticks, unless another key of the shard is in need as well.
// The cells hold its time rounded up: the key may be forgotten at any time. While it is
// remembered all its charges are counted here, so its time is never too early.
type lastRounded struct {
	key      uint64
	ns       int64
	part, of uint64
}

// lastWords are the words of a lastRounded in a shard's memory, after its cells.
const lastWords = int(unsafe.Sizeof(lastRounded{}) / 8)

// lastTag is kept in the shard, which every decision reads, so that other keys need not look further.
func (r request) lastTag() uint32 { return uint32(r.h) | 1 }

// lastRounded returns the shard's lastRounded if it is the request's key, or else nil.
func (r request) lastRounded() *lastRounded {
	if r.s.peaks.current != r.lastTag() {
		return nil
	}
	if last := r.lastWords(); last.key == r.h {
		return last
	}
	return nil
}

func (r request) lastWords() *lastRounded {
	return (*lastRounded)(unsafe.Pointer((*[lastWords]uint64)(r.memory[r.first+r.generation:])))
}

// at returns the time for a limit and at unix time now or later.
func (t lastRounded) at(now, limit int64) lastRounded {
	if t.of != uint64(limit) {
		t.part = uint64(ceilDiv(int64(t.part), limit, int64(t.of)))
		t.of = uint64(limit)
		if t.part == t.of {
			t.ns, t.part = t.ns+1, 0
		}
	}
	if t.ns < now {
		t.ns, t.part = now, 0
	}
	return t
}

// add returns the time by which n units more have flowed.
func (t lastRounded) add(b *bucket, n int64) lastRounded {
	hi, lo := bits.Mul64(uint64(n), uint64(b.span))
	lo, carry := bits.Add64(lo, t.part, 0)
	q, rest := bits.Div64(hi+carry, lo, t.of)
	t.ns, t.part = t.ns+int64(q), rest
	return t
}

// up returns the time rounded up, unix ns.
func (t *lastRounded) up() int64 {
	if t.part > 0 {
		return t.ns + 1
	}
	return t.ns
}

// free returns how many of a number of units have flowed at unix time now, ns or earlier.
func (t *lastRounded) free(b *bucket, now, most int64) int64 {
	hi, lo := bits.Mul64(uint64(t.ns-now), t.of)
	lo, carry := bits.Add64(lo, t.part, 0)
	q, rest := bits.Div64(hi+carry, lo, uint64(b.span))
	if rest > 0 {
		q++
	}
	return most - int64(q)
}

// retryAfter is that of bucket.
func (t *lastRounded) retryAfter(b *bucket, now, n, most int64) time.Duration {
	if n < 1 || n > most {
		return Never
	}
	hi, lo := bits.Mul64(uint64(most-n), uint64(b.span))
	lo, borrow := bits.Sub64(lo, t.part, 0)
	if hi < borrow { // the bucket is to be full
		return time.Duration(t.ns + 1 - now)
	}
	room, _ := bits.Div64(hi-borrow, lo, t.of)
	return time.Duration(t.ns - int64(room) - now)
}

// takeTime is [request.take] for a bucket, in the shard's generation.
func (r request) takeTime(p Position, n, limit int64, e effort) verdict {
	b := &r.bucket
	if last := r.lastRounded(); last != nil && limit > 0 {
		return r.takeLast(last, p, n, limit)
	}
	h := mix(r.h, b.seed)
	ticks, between := b.ticks.times(uint64(p.Elapsed))
	now, full := int64(ticks), int64(r.cells.Estimate(r.memory, r.first, h))
	ahead, most := max(0, full-now), b.most(limit, r.limit)
	if n < 1 || n > most || ahead > b.room(most-n, limit, r.limit) { // free would take a division to tell
		return r.refuseTime(p, n, limit, r.deniedTime(p, full, ahead, b.free(ahead, limit, r.limit), n, limit))
	}
	if ahead == 0 {
		if between || !b.even(limit, r.limit) {
			return r.takeLast(r.setLastRounded(p, limit), p, n, limit)
		}
		full = now
	}
	r.s.admitted += uint64(n)
	r.s.last.forget()
	if limit == r.limit {
		full += n * b.unit
	} else {
		takes, rounded := b.flows(n, limit, r.limit)
		if rounded {
			takes++
		}
		full += takes
	}
	r.cells.Raise(r.memory, r.first, h, uint32(full))
	if e == brief {
		return verdict{allowed: true}
	}
	if ahead > 0 {
		most = b.free(ahead, limit, r.limit)
	}
	return verdict{allowed: true, remaining: int(most - n), resetAfter: b.until(p, full)}
}

// setLastRounded makes the key, whose bucket is full, the shard's lastRounded.
func (r request) setLastRounded(p Position, limit int64) *lastRounded {
	last := r.lastWords()
	*last = lastRounded{key: r.h, ns: r.window.nanos(p), of: uint64(limit)}
	r.s.peaks.current = r.lastTag()
	return last
}

// takeLast is takeTime for the shard's lastRounded.
func (r request) takeLast(last *lastRounded, p Position, n, limit int64) verdict {
	b, now := &r.bucket, r.window.nanos(p)
	t := last.at(now, limit)
	most := b.most(limit, r.limit)
	free := t.free(b, now, most)
	if n < 1 || n > free {
		return r.refuseTime(p, n, limit, verdict{
			remaining:  int(max(free, 0)),
			retryAfter: t.retryAfter(b, now, n, most),
			resetAfter: time.Duration(t.up() - now),
		})
	}
	r.s.admitted += uint64(n)
	r.s.last.forget()
	t = t.add(b, n)
	*last = t
	full := b.ticks.up(uint64(t.up() - now + int64(p.Elapsed)))
	r.cells.Raise(r.memory, r.first, mix(r.h, b.seed), uint32(min(full, math.MaxUint32)))
	return verdict{allowed: true, remaining: int(free - n), resetAfter: time.Duration(t.up() - now)}
}

// refuseTime counts a request that is denied, and remembers its key if that has nothing left.
func (r request) refuseTime(p Position, n, limit int64, v verdict) verdict {
	r.s.denied += uint64(max(n, 0))
	if n == 1 && limit > 0 {
		r.remember(p, limit, v)
	}
	return v
}

// deniedTime is the verdict on a request for n units that are not free.
func (r request) deniedTime(p Position, full, ahead, free, n, limit int64) verdict {
	v := verdict{remaining: int(max(free, 0)), retryAfter: r.bucket.retryAfter(p, full, n, limit, r.limit)}
	if ahead > 0 {
		v.resetAfter = r.bucket.until(p, full)
	}
	return v
}

// peekTime is [request.peek] for a bucket. The position may lie generations ahead of
// the shard's.
func (r request) peekTime(p Position, n, limit int64) verdict {
	b := &r.bucket
	if last := r.lastRounded(); last != nil && limit > 0 {
		now, most := r.window.nanos(p), b.most(limit, r.limit)
		t := last.at(now, limit)
		v := verdict{resetAfter: time.Duration(t.up() - now)}
		free := t.free(b, now, most)
		if v.allowed, v.remaining = n >= 1 && n <= free, int(max(free, 0)); !v.allowed {
			v.retryAfter = t.retryAfter(b, now, n, most)
		}
		return v
	}
	cell := r.cells.Estimate(r.memory, r.first, mix(r.h, b.seed))
	cell -= min(cell, b.passed(r.s.number, p.Generation))
	now, _ := b.ticks.times(uint64(p.Elapsed))
	full := int64(cell)
	ahead := max(0, full-int64(now))
	free := b.free(ahead, limit, r.limit)
	v := r.deniedTime(p, full, ahead, free, n, limit)
	if v.allowed = n >= 1 && n <= free; v.allowed {
		v.retryAfter = 0
	}
	return v
}

// turnTime is [request.turn] for a bucket.
func (r request) turnTime(p Position) Position {
	if p.Generation > r.s.number {
		forward(r.memory[r.first:][:r.generation], r.bucket.passed(r.s.number, p.Generation))
		r.s.number = p.Generation
	}
	return r.clamp(p)
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
func (b *bucket) beyond(p Position, ns int64) uint32 {
	ticks, _ := b.ticks.times(uint64(int64(p.Elapsed) + ns))
	return uint32(min(ticks+1, math.MaxUint32))
}

// falseDenialRate returns the chance that a new key is denied n units now at a limit which the exact algorithm
// admits: that it meets, in every row, a cell whose time lies too far ahead.
func (b *bucket) falseDenialRate(p Position, cells *cms.Sketch, n, limit, whole int64) float64 {
	most := b.most(limit, whole)
	if n < 1 || n > most {
		return 0
	}
	room, _ := b.flows(most-n, limit, whole)
	least := min(int64(b.beyond(p, 0))+room, math.MaxUint32)
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
