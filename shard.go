package sketchlimit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// shard is the state of the keys whose hashes begin alike, but for what lies in
// their part of the limiter's memory. It fills one cache line.
type shard struct {
	mu       sync.Mutex
	number   int64 // of the current generation
	peaks    peaks
	admitted uint64 // units
	denied   uint64 // units
	last     denial
}

// peaks are bounds of what doorkeeper and sketch read of any key.
type peaks struct {
	current uint32 // in the current generation; see mark
	before  uint16 // in the one before, in steps of layout.peakStep
	raised  uint16 // what the threshold stands above the plan's in the current generation, see standsOut
}

// unknown are the peaks of a shard whose cells were counted by somebody else.
var unknown = peaks{current: math.MaxUint32, before: math.MaxUint16}

// layout says where things lie in a shard's memory, which is the same in all shards:
// for each generation a doorkeeper and a sketch, then the table of heavy keys. A bucket
// has the sketch alone, and one for all generations.
//
// A key's first unit in a generation is its mark in the doorkeeper, the next ones
// are in the sketch, so that keys which come once never enter it; and once they reach
// the threshold, the key moves into the table.
type layout struct {
	window
	door       bloom.Layout
	cells      cms.Layout // no cells where the limit is 1
	heavy      heavyTable
	cellsFirst int    // word of a generation
	generation int    // words of one generation
	size       int    // words of a shard
	light      int64  // units of a generation that a key has without an entry, at most, by the plan's threshold
	crowded    int64  // the same where the table has no room for one
	peakStep   int64  // of peaks.before: 1, or more where the limit exceeds what that holds
	turnSeed   uint64 // from which the seeds of generations follow
	far        bool   // the memory is more than caches near the processor hold
	hasher
}

// nearBytes is the memory up to which it does not pay to fetch all of a key's cache lines before
// anything else.
const nearBytes = 4 << 20

// newLayout returns the layout of a checked plan.
func newLayout(w window, p Plan, h hasher) (layout, error) {
	l := layout{window: w, hasher: h, turnSeed: h.seed}
	l.bucket.seed = rotating.Seed(h.seed, 0)
	var err error
	if w.bucket.burst == 0 {
		if l.door, err = bloom.NewLayout(p.BloomBytes, p.BloomProbes); err != nil {
			return layout{}, err
		}
	}
	if p.Width > 0 {
		if l.cells, err = cms.NewLayout(p.Depth, p.Width, p.CellBits); err != nil {
			return layout{}, err
		}
	}
	l.heavy.buckets = uint64(p.HeavyEntries / heavyBucket)
	l.heavy.threshold = int64(p.HeavyThreshold)
	l.heavy.bits, _ = heavyBits(int(w.limit))
	l.heavy.shift, l.heavy.above = 2*l.heavy.bits+2, 64-2*l.heavy.bits
	l.crowded = min(w.limit, 1+int64(l.cells.Max()))
	l.light = min(l.crowded, l.heavy.threshold-1)
	l.peakStep = w.limit/math.MaxUint16 + 1
	l.cellsFirst = l.door.Words()
	l.generation = l.cellsFirst + l.cells.Words()
	l.size = w.generations*l.generation + p.HeavyEntries
	if w.bucket.burst > 0 {
		l.size += lastWords
	}
	l.far = w.bucket.burst == 0 && 8*p.Shards*l.size > nearBytes
	return l, nil
}

// request is one key in one shard, whose lock the caller holds.
//
// Its four words, passed by value, stay in registers.
type request struct {
	*Limiter
	s     *shard
	first int // word of the shard's memory
	h     uint64
}

// effort is how much a decision is to find out.
type effort uint8

const (
	brief effort = 1 << iota // whether it admits, and no more
	read                     // if brief: what the previous generation holds; until then the most that it holds of any key
	whole = read             // all there is to tell
)

// take admits and counts n units, or does not. A limit below the window's is a window of
// which some units are held back.
//
// Most keys have no entry in the table, are admitted and get none. For them what is not left
// to the current generation is found out first, so that reading it and counting in it are one
// step. All others go on to takeAny.
func (r request) take(p Position, n, limit int64, e effort) verdict {
	if p.Generation != r.s.number {
		q := r.turn(p)
		return r.take(q, n, limit, e).after(r.span(p, q))
	}
	if r.bucket.burst > 0 {
		return r.takeTime(p, n, limit, e)
	}
	free := int64(0) // units that are not in use, whatever the previous generation holds of the key
	if e == brief && r.generations == 2 {
		free = limit - r.weighted(r.peakBefore(), 1, p.Elapsed)
	}
	if r.far {
		r.prefetch(p.Generation, free > limit/2)
	}
	line := r.line()
	if entry := r.heavy.find(line, r.h); entry != nil {
		return r.takeAny(p, n, limit, e, entry)
	}
	here := limit // units that are not in use elsewhere
	var at place
	if r.beside.Load() {
		share := r.share.Load()
		if share == nil {
			return r.takeAny(p, n, limit, e, nil)
		}
		at = share.place(r.h)
		others := share.bound(at, r.windows.pack(p))
		here -= others
		free -= others
	}
	if free < n {
		e |= read
		free = here
		for age := 1; age < r.generations; age++ {
			first, h := r.buffer(age), r.hashAt(p.Generation-int64(age))
			if r.door.Test(r.memory, first, h) {
				c := 1 + int64(r.cells.Estimate(r.memory, first+r.cellsFirst, h))
				free -= r.weighted(c, age, p.Elapsed)
			}
		}
	}
	most := r.crowded
	if r.heavy.room(line) {
		most = r.light + int64(r.s.peaks.raised)
	}
	most = min(free, most)
	if n < 1 || n > most {
		return r.takeAny(p, n, limit, e, nil)
	}
	h := r.hashAt(p.Generation)
	first := r.buffer(0)
	count := n // with these
	if r.door.Test(r.memory, first, h) {
		c, ok := r.cells.AddBounded(r.memory, first+r.cellsFirst, h, uint32(n), uint32(most-1))
		if !ok && e == brief {
			return r.take(p, n, limit, brief|read)
		}
		if !ok {
			return r.takeAny(p, n, limit, e, nil)
		}
		count = 1 + int64(c)
	} else {
		r.door.TestAndAdd(r.memory, first, h)
		if n > 1 {
			r.cells.Raise(r.memory, first+r.cellsFirst, h, uint32(n-1))
		}
	}
	r.s.peaks.current = max(r.s.peaks.current, uint32(count))
	r.s.admitted += uint64(n)
	r.s.last.forget()
	if at.block != nil {
		r.share.Load().admit(at, count)
	}
	return verdict{allowed: true, remaining: int(free - count), resetAfter: r.resetAfter(p, 0)}
}

// takeAny is take for any key, in the shard's generation, by its entry if it has one.
func (r request) takeAny(p Position, n, limit int64, e effort, entry *uint64) verdict {
	current, h := r.count(p.Generation, entry)
	enough := all
	if e&brief != 0 {
		enough = min(n, limit) + r.limit - limit
	}
	var u usage
	var at place
	if !r.beside.Load() {
		u = r.usage(p, current, entry, enough, false)
	} else {
		u, at = r.usageBeside(p, n, limit, current, entry, enough)
	}
	if free := u.free - (r.limit - limit); n >= 1 && n <= free {
		r.add(entry, h, current, n)
		if at.block != nil {
			r.share.Load().admit(at, current+n)
		}
		return verdict{allowed: true, remaining: int(free - n), resetAfter: r.resetAfter(p, 0)}
	}
	return r.refuse(p, n, limit, enough, entry, u)
}

// usageBeside is usage for a key that has counts elsewhere as well, and tells where in a
// Share, if it is there. The share's bound will do to admit the n units that are asked for.
func (r request) usageBeside(p Position, n, limit, current int64, entry *uint64, enough int64) (usage, place) {
	share := r.share.Load()
	if share == nil {
		return r.usage(p, current+r.former(p.Generation), entry, enough, true), place{}
	}
	at := share.place(r.h)
	u := r.usage(p, current+share.bound(at, r.windows.pack(p)), entry, enough, false)
	if n < 1 || n > u.free-(r.limit-limit) {
		u = r.used(p, entry)
	}
	return u, at
}

// refuse counts a request that is denied, and remembers its key if that has nothing left.
//
// Where nobody asks until when, which takes longer to find out than to deny, it notes the
// key, for which that is worth while if it is denied twice in a row.
func (r request) refuse(p Position, n, limit, enough int64, entry *uint64, u usage) verdict {
	r.s.denied += uint64(max(n, 0))
	flood := n == 1 && limit > 0
	if enough != all {
		if !flood {
			return verdict{}
		}
		if h := r.flood(limit); !r.s.last.noted(h) {
			r.s.last.note(h)
			return verdict{}
		}
		u = r.used(p, entry)
	}
	u.free -= r.limit - limit
	v := r.denied(p, u, entry, n, limit)
	if flood {
		r.remember(p, limit, v)
	}
	return v
}

// remember keeps in mind that the key has nothing left, and until when.
func (r request) remember(p Position, limit int64, v verdict) {
	free := r.windows.pack(r.after(p, v.retryAfter))
	r.s.last.set(r.flood(limit), free, r.nanos(p)+int64(v.resetAfter))
}

// flood is the hash by which a key is remembered that is denied at a limit.
func (r request) flood(limit int64) uint64 { return r.h ^ uint64(r.limit-limit) }

// peek tells what take would, but for what is left afterwards. It does not turn the shard, and
// reads it as if it had.
func (r request) peek(p Position, n, limit int64) verdict {
	q := r.clamp(p)
	if r.bucket.burst > 0 {
		return r.peekTime(q, n, limit).after(r.span(p, q))
	}
	entry := r.heavy.find(r.line(), r.h)
	if entry != nil && q.Generation > r.s.number && r.heavy.spent(*entry) {
		entry = nil
	}
	return r.peekEntry(q, n, limit, entry).after(r.span(p, q))
}

// peekEntry is peek at a position that is not behind the shard's, by the key's entry if it has one.
func (r request) peekEntry(p Position, n, limit int64, entry *uint64) verdict {
	u := r.used(p, entry)
	u.free -= r.limit - limit
	if n < 1 || n > u.free {
		return r.denied(p, u, entry, n, limit)
	}
	return verdict{allowed: true, remaining: int(u.free), resetAfter: r.resetAfter(p, u.newest)}
}

// denied is the verdict on a request for n units that are not free.
func (r request) denied(p Position, u usage, entry *uint64, n, limit int64) verdict {
	return verdict{
		remaining: int(max(u.free, 0)),
		retryAfter: r.retryAfter(p, n, limit, func(age int) int64 {
			number := p.Generation - int64(age)
			c, _ := r.count(number, entry)
			return c + r.former(number)
		}),
		resetAfter: r.resetAfter(p, u.newest),
	}
}

// turn begins the position's generation unless it is behind, and returns the position
// in what is then the shard's.
func (r request) turn(p Position) Position {
	if r.bucket.burst > 0 {
		return r.turnTime(p)
	}
	from, marked := r.s.number, r.marked()
	turns := rotating.Turns(from, p.Generation, r.generations)
	if turns > 0 {
		r.s.begin(p.Generation, turns, r.peakStep)
	}
	for age := range turns {
		clear(r.memory[r.buffer(age):][:r.generation])
	}
	if share := r.share.Load(); share != nil && turns > 0 {
		share.turn(r, turns)
	}
	if turns > 0 && marked && r.heavy.turn(r.memory[r.table():][:r.size-r.generations*r.generation], turns, r.generations) {
		r.mark()
	}
	return r.clamp(p)
}

// mark is for a shard whose table has entries. A peak one below the threshold, or higher, tells of them, so
// that the tables of most shards, where no key is heavy, need not be passed over when they turn.
func (r request) mark() { r.s.peaks.current = max(r.s.peaks.current, uint32(r.heavy.threshold-1)) }

// marked tells whether the shard's table may have entries.
func (r request) marked() bool { return int64(r.s.peaks.current) >= r.heavy.threshold-1 }

// peakBefore returns what the key has at most in the previous generation, by the shard's peak.
func (r request) peakBefore() int64 { return min(r.limit, int64(r.s.peaks.before)*r.peakStep) }

// begin makes a later generation the current one, so many (at least 1) behind.
func (s *shard) begin(number int64, turns int, peakStep int64) {
	s.number = number
	before := (int64(s.peaks.current) + peakStep - 1) / peakStep
	if turns > 1 {
		before = 0
	}
	s.peaks = peaks{before: uint16(min(before, math.MaxUint16))}
}

// span returns the time from one position to a later one.
func (r request) span(from, to Position) time.Duration {
	return time.Duration(r.nanos(to) - r.nanos(from))
}

// clamp brings a position to the shard's generation, if a request that came later has
// turned the shard already.
func (r request) clamp(p Position) Position {
	if g := r.s.number; g > p.Generation {
		return Position{g, 0}
	}
	return p
}

// table returns the first word of the table of heavy keys.
func (r request) table() int { return r.first + r.generations*r.generation }

// line returns the key's bucket in the table.
func (r request) line() *line { return r.heavy.line(r.memory, r.table(), r.h) }

// buffer returns the first word of the generation of an age.
func (r request) buffer(age int) int { return r.first + r.layout.buffer(r.s.number-int64(age)) }

// buffer returns the first of a shard's words that hold a generation, by its number.
func (l *layout) buffer(number int64) int {
	return rotating.Buffer(number, l.generations) * l.generation
}

// usage is what a key has used of its quota.
type usage struct {
	free   int64 // units that can be admitted now; below 0 where readings err
	newest int   // age of the youngest generation that has counted the key, or their number
}

// all asks usage for all there is to tell.
const all int64 = math.MaxInt64

// usage reads the key in the generations before the current one, whose count is known,
// until it is clear whether enough units are free, and then tells no more than that.
// The oldest generation can be left out if there are enough whatever that holds, which
// is so for most keys most of the time; so can all if the current one leaves too few. What
// the key has used elsewhere is read as well, or else is in current already.
func (r request) usage(p Position, current int64, entry *uint64, enough int64, elsewhere bool) usage {
	u := usage{free: r.limit - current, newest: r.generations}
	if current > 0 {
		u.newest = 0
	}
	oldest := r.generations - 1
	for age := 1; age <= oldest; age++ {
		if enough != all && (u.free < enough || age == oldest && r.room(p.Elapsed, u.free-enough)) {
			u.free = min(u.free, enough)
			return u
		}
		number := p.Generation - int64(age)
		c, _ := r.count(number, entry)
		if elsewhere {
			c += r.former(number)
		}
		if c > 0 {
			u.newest = min(u.newest, age)
			u.free -= r.weighted(c, age, p.Elapsed)
		}
	}
	return u
}

// used is all there is to tell of what the key has used.
func (r request) used(p Position, entry *uint64) usage {
	current, _ := r.count(p.Generation, entry)
	return r.usage(p, current+r.former(p.Generation), entry, all, true)
}

// count reads the key in a generation, by its number, which may lie ahead of the
// shard's, and returns its hash there unless the key's entry has counted it all.
func (r request) count(number int64, entry *uint64) (count int64, h uint64) {
	age := r.s.number - number
	if uint64(age) >= uint64(r.generations) {
		return 0, 0 // not begun, or gone
	}
	if entry != nil {
		count = r.heavy.count(*entry, int(age))
		if r.heavy.whole(*entry, int(age)) {
			return count, 0
		}
	}
	c, h := r.read(int(age), number)
	return max(count, c), h
}

// read reads the key in the doorkeeper and the sketch of a generation, by age and number.
func (r request) read(age int, number int64) (count int64, h uint64) {
	first, h := r.buffer(age), r.hashAt(number)
	return r.reading(first, h), h
}

// reading reads the doorkeeper and the sketch of the generation whose words begin at first, by a key's hash there.
func (r request) reading(first int, h uint64) int64 {
	if !r.door.Test(r.memory, first, h) {
		return 0
	}
	return 1 + int64(r.cells.Estimate(r.memory, first+r.cellsFirst, h))
}

// hashAt returns the key's hash in a generation, by its number.
func (r request) hashAt(number int64) uint64 { return mix(r.h, rotating.Seed(r.turnSeed, number)) }

// former reads the key in a generation as a predecessor has counted it, if there is one
// whose counts still matter, or as those have that share the limit.
func (r request) former(number int64) int64 {
	if !r.beside.Load() {
		return 0
	}
	if share := r.share.Load(); share != nil {
		return share.count(r, number)
	}
	before := r.before.Load()
	if before == nil {
		return 0
	}
	return before.counted(number, r.h)
}

// counted reads a key in a generation, by its number.
func (l *Limiter) counted(number int64, h uint64) int64 {
	i := l.shard(h)
	r := request{l, &l.shards[i], i * l.size, h}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	entry := r.heavy.find(r.line(), h)
	c, _ := r.count(number, entry)
	return c
}

// add counts n units for the key, whose entry and current count were read just before.
func (r request) add(entry *uint64, h uint64, count, n int64) {
	r.s.admitted += uint64(n)
	r.s.last.forget()
	if entry != nil {
		r.heavy.set(entry, count+n)
		if r.heavy.whole(*entry, 0) {
			return
		}
	}
	first := r.buffer(0)
	if count == 0 {
		r.door.TestAndAdd(r.memory, first, h)
		r.s.peaks.current = max(r.s.peaks.current, 1)
	}
	count += n
	switch {
	case entry != nil:
	case count >= r.threshold() && r.heavy.room(r.line()) && r.standsOut(count):
		r.heavy.insert(r.line(), r.h, count)
		r.mark()
	default:
		r.s.peaks.current = max(r.s.peaks.current, uint32(count))
		if count > 1 {
			r.cells.Raise(r.memory, first+r.cellsFirst, h, uint32(count-1))
		}
	}
}

// threshold is the units of the current generation that make a key heavy, by its reading.
func (r request) threshold() int64 { return r.heavy.threshold + int64(r.s.peaks.raised) }

// Before a key gets an entry, so many readings are taken of keys that nobody has counted, and it must stand out from
// all but one of them. With all of them the threshold would run away from abusers who come together: their own
// counts are in one reading of a hundred until they have entries.
const (
	freshReadings = 32
	highReadings  = 2
)

// standsOut tells whether a reading of the current generation is that of a heavy key: it exceeds what a key
// reads that nobody has counted by more than half of the plan's threshold. Where it does not, others have
// filled the cells, and the table would fill with light keys, until heavy ones that come later find no
// room. The shard's threshold then rises above the reading for the rest of the generation. So there are
// not many such looks: each makes an entry or lifts the threshold.
//
// The threshold only decides where a key is counted from then on. Every reading is an upper bound, so no
// threshold admits too much.
func (r request) standsOut(count int64) bool {
	first, h, high := r.buffer(0), r.h, 0
	for range freshReadings {
		h = mix(h, r.seed)
		if r.reading(first, h)+r.heavy.threshold/2 < count {
			continue
		}
		if high++; high == highReadings {
			r.s.peaks.raised = uint16(min(count+1-r.heavy.threshold, math.MaxUint16))
			return false
		}
	}
	return true
}

// denial remembers a key of the shard that had nothing left (its hash, XOR the units that
// were held back from it), and until when. As long as nothing is counted in the shard the key is
// denied again, in the same words, by reading this alone, without the lock. A flood on one key takes
// three loads and no store.
//
// The three words are read and written one by one; check tells whether they belong
// together and to the key.
type denial struct {
	until atomic.Int64 // word of the position at which a unit comes free
	reset atomic.Int64 // unix time, ns, when the quota is whole
	check atomic.Uint64
}

// note puts down a key that was denied, under the shard's lock.
func (d *denial) note(h uint64) { d.check.Store(d.sum(h) ^ noted) }

// noted tells whether the key is the one put down last.
func (d *denial) noted(h uint64) bool { return d.check.Load() == d.sum(h)^noted }

// noted marks a key as put down and not remembered.
const noted = 1 << 63

// set is called under the shard's lock.
func (d *denial) set(h uint64, until, reset int64) {
	d.until.Store(until)
	d.reset.Store(reset)
	d.check.Store(d.sum(h))
}

func (d *denial) sum(h uint64) uint64 { return h ^ uint64(d.until.Load()) ^ uint64(d.reset.Load()) }

// forget is for counts that have changed, under the shard's lock: a key that was denied may have to wait
// longer now, also because of units of other keys in its cells; or not as long, if it was admitted at
// another limit or the clock has stepped back.
func (d *denial) forget() {
	if d.until.Load() != math.MinInt64 {
		d.until.Store(math.MinInt64)
	}
}

// holds tells whether the key is known to have nothing left at a position's word, and
// until when.
func (d *denial) holds(h uint64, word int64) (until, reset int64, ok bool) {
	until, reset = d.until.Load(), d.reset.Load()
	return until, reset, word < until && d.check.Load() == h^uint64(until)^uint64(reset)
}
