package engine

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// buffers says what each buffer of a window's ring holds, that of the current generation as those before it: a Bloom
// filter and a count-min sketch. A bucket has one sketch, see bucket.go.
type buffers struct {
	door  bloom.Layout
	cells cms.Layout // no cells where the limit is 1
}

// NewWindow returns the rule of a window that keeps so many generations of a length: 1 for a fixed window,
// one more than its sub-windows for a sliding one.
func NewWindow(limit int, length time.Duration, generations int) Rule {
	return Rule{Window: windowmath.New(length, generations), limit: int64(limit), reach: int64(limit)}
}

// windows is the algorithm of windows.
type windows struct{}

func (windows) check(d *Dimensions, rule *Rule) error {
	limit := int(rule.limit)
	switch {
	case d.BloomBytes < bloom.BlockBytes || d.BloomBytes%bloom.BlockBytes != 0:
		return fmt.Errorf("sketchlimit: Plan.BloomBytes %d, must be a multiple of %d", d.BloomBytes, bloom.BlockBytes)
	case d.BloomProbes < 1 || d.BloomProbes > bloom.MaxProbes:
		return fmt.Errorf("sketchlimit: Plan.BloomProbes %d, must be 1 … %d", d.BloomProbes, bloom.MaxProbes)
	case d.doorsAlone(rule) && d.HeavyEntries != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for Width 0", d.HeavyEntries)
	case d.doorsAlone(rule):
		return nil
	case d.HeavyEntries < 0 || d.HeavyEntries%heavyhitter.BucketEntries != 0:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be a multiple of %d", d.HeavyEntries, heavyhitter.BucketEntries)
	case d.HeavyEntries > 0 && rule.Ring.Buffers() > 2:
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for %d SubWindows", d.HeavyEntries, rule.Ring.Buffers()-1)
	case d.HeavyEntries > 0 && !heavyhitter.Fits(limit):
		return fmt.Errorf("sketchlimit: Plan.HeavyEntries %d, must be 0 for Limit %d", d.HeavyEntries, limit)
	case d.HeavyEntries > 0 && d.HeavyThreshold < 1:
		return fmt.Errorf("sketchlimit: Plan.HeavyThreshold %d, must be at least 1", d.HeavyThreshold)
	case d.CellBits < CellBits(limit):
		return fmt.Errorf("sketchlimit: Plan.CellBits %d, must be at least %d for Limit %d", d.CellBits, CellBits(limit), limit)
	}
	return nil
}

func (windows) quota(_ *Rule, limit int64) int64 { return limit }

func (windows) resetAfter(rule *Rule, p rotating.Position, _, _ int64) time.Duration {
	return rule.ResetAfter(p, 0)
}

func (windows) least(*Rule, rotating.Position) uint32 { return 1 }

func (windows) take(r request, p rotating.Position, n, limit int64, e Effort) Verdict {
	if r.wide() {
		return overCapacity{r}.takeWide(p, n, limit)
	}
	return window{r}.takeAny(p, n, limit, e, r.e.heavy.Find(r.entries(), r.h))
}

func (windows) peek(r request, p rotating.Position, n, limit int64) Verdict {
	if r.wide() {
		return overCapacity{r}.certified(p, n, limit, r.e.heavy.Find(r.bucketOf(), r.h))
	}
	entry := r.e.heavy.Find(r.entries(), r.h)
	if entry != nil && p.Generation > r.s.number && r.e.heavy.Expired(*entry) {
		entry = nil
	}
	return window{r}.peekEntry(p, n, limit, entry)
}

func (windows) charge(r request, p rotating.Position, n, limit int64, asked bool) (free int64) {
	n = min(n, r.e.limit)
	if asked || r.e.external.Load() != nil || r.e.Spares() {
		return window{r}.charge(p, n, limit)
	}
	window{r}.chargeHeld(p, n)
	return 0
}

func (windows) look(r request, p rotating.Position, n, limit int64) {
	entry := r.e.heavy.Find(r.entries(), r.h)
	current, _ := window{r}.count(p.Generation, entry)
	sampler{r}.look(p, n, limit, current, entry)
}

func (windows) rotate(r request, to int64) { window{r}.rotateWindow(to) }

func (windows) prefetch(r request, number int64, alone bool) {
	bucket := unsafe.Pointer(r.s)
	if r.e.heavy.Buckets() > 0 {
		bucket = unsafe.Pointer(&r.e.memory[r.e.heavy.Index(r.table(), r.h)])
	}
	generations := r.e.Ring.Buffers()
	if alone {
		generations = 1
	}
	for age := range int64(generations) {
		first, h := window{r}.at(number - age)
		cells, door := first+r.e.cellsFirst, bucket
		if r.e.guarded {
			door = unsafe.Pointer(&r.e.memory[r.e.door.Block(first, h)])
		}
		if r.e.cells.Depth() == 0 {
			cells = r.e.door.Block(first, h)
		}
		r.prefetchCells(bucket, door, cells, h)
	}
}

// adopt leaves the counts as they are, which are units whatever the limit.
func (windows) adopt(next *Engine, r request, _ int64) {
	r.s.peaks = windows{}.unknown()
	if next.heavy.CountBits() != r.e.heavy.CountBits() {
		next.heavy.Convert(r.e.memory[r.table():][:r.e.heavy.Words()], &r.e.heavy)
	}
}

func (windows) unknown() peaks { return peaks{current: math.MaxUint32, before: math.MaxUint16} }

// takeAny is take for any key, in the shard's generation, by its entry if it has one.
func (r window) takeAny(p rotating.Position, n, limit int64, e Effort, entry *uint64) Verdict {
	current, h := r.count(p.Generation, entry)
	enough := all
	if e&Brief != 0 {
		enough = min(n, limit) + r.e.limit - limit
	}
	u, _ := r.usageOf(p, n, limit, current, entry, enough)
	over := overCapacity{r.request}
	if free := u.free - (r.e.limit - limit); n >= 1 && n <= free {
		if invariants.On {
			checkAdmits(r.left(p, limit, entry), n)
		}
		if r.looked() {
			sampler{r.request}.look(p, n, limit, current, entry)
		}
		if r.e.Spares() {
			entry = over.joins(p, entry, current+n)
		}
		r.add(p, entry, h, current, n)
		if x := r.e.external.Load(); x != nil {
			(*x).admit(r.h, current+n)
		}
		return Verdict{Allowed: true, Remaining: int(free - n), ResetAfter: r.e.ResetAfter(p, 0)}
	}
	if r.e.Spares() {
		switch v, ok := over.spared(p, n, limit, entry); {
		case ok && v.Allowed:
			over.admitSpared(p, entry, h, current, n)
			v.Remaining, v.ResetAfter = v.Remaining-int(n), r.e.ResetAfter(p, 0)
			return v
		case ok:
			return over.refuseCertified(p, n, limit, v)
		case v.Allowed:
			return over.refuseUncertified(p, n, limit, entry)
		}
	}
	return r.refuse(p, n, limit, enough, entry, u)
}

// usageOf is usage for a key that is asked for n units, with its units elsewhere. What these weigh at most will do to admit
// the units. It also returns what a predecessor has counted of the key in the current generation.
func (r window) usageOf(p rotating.Position, n, limit, current int64, entry *uint64, enough int64) (u usage, former int64) {
	x := r.e.external.Load()
	if x == nil {
		return r.usage(p, current, entry, enough, false), 0
	}
	others, ok := (*x).bound(r.h, r.e.Timeline.Pack(p))
	if !ok {
		former = (*x).count(p.Generation, r.h)
		return r.usage(p, current+former, entry, enough, true), former
	}
	u = r.usage(p, current+others, entry, enough, false)
	if n < 1 || n > u.free-(r.e.limit-limit) {
		u = r.used(p, entry)
	}
	return u, 0
}

// peekEntry is peek at a position that is not behind the shard's, by the key's entry if it has one.
func (r window) peekEntry(p rotating.Position, n, limit int64, entry *uint64) Verdict {
	u := r.used(p, entry)
	u.free -= r.e.limit - limit
	if n < 1 || n > u.free {
		if r.e.Spares() {
			if v, ok := (overCapacity{r.request}).spared(p, n, limit, entry); ok {
				return v
			}
		}
		return r.denied(p, u, entry, n, limit)
	}
	return Verdict{Allowed: true, Remaining: int(u.free), ResetAfter: r.e.ResetAfter(p, u.newest)}
}

// denied is the Verdict on a request for n units that are not free.
func (r window) denied(p rotating.Position, u usage, entry *uint64, n, limit int64) Verdict {
	return Verdict{
		Remaining: int(max(u.free, 0)),
		RetryAfter: r.e.RetryAfter(p, n, limit, func(age int) int64 {
			number := p.Generation - int64(age)
			c, _ := r.count(number, entry)
			return c + r.former(number)
		}),
		ResetAfter: r.e.ResetAfter(p, u.newest),
	}
}

// charge is Charge for a window. It returns what was free.
func (r window) charge(p rotating.Position, n, limit int64) (free int64) {
	entry, over := r.e.heavy.Find(r.bucketOf(), r.h), overCapacity{r.request}
	if r.wide() {
		free = int64(over.certified(p, 1, limit, entry).Remaining)
		over.countWide(p, n, entry)
		return free
	}
	current, h := r.count(p.Generation, entry)
	room := r.e.limit - current
	u, former := r.usageOf(p, n, limit, current, entry, all)
	room -= former
	free = u.free - (r.e.limit - limit)
	if n > free && r.e.Spares() {
		if v, ok := over.spared(p, min(n, limit), limit, entry); ok {
			over.admitSpared(p, entry, h, current, n)
			return int64(v.Remaining)
		}
	}
	counted := max(0, min(n, room))
	r.s.admitted += uint64(n - counted)
	if counted == 0 {
		return free
	}
	if r.e.Spares() {
		entry = over.joins(p, entry, current+counted)
	}
	r.add(p, entry, h, current, counted)
	if x := r.e.external.Load(); x != nil {
		(*x).admit(r.h, current+counted)
	}
	return free
}

// chargeHeld is Charge for a window, of units that were held. It reads the current generation only.
func (r window) chargeHeld(p rotating.Position, n int64) {
	entry := r.e.heavy.Find(r.entries(), r.h)
	current, h := r.count(p.Generation, entry)
	counted := max(0, min(n, r.e.limit-current))
	if r.s.admitted += uint64(n - counted); counted > 0 {
		r.add(p, entry, h, current, counted)
	}
}

// rotateWindow is rotate to a later generation for a window.
func (r window) rotateWindow(to int64) {
	wide, marked, kept := r.wide(), r.wide() || r.marked(), r.e.Ring.Buffers()
	from, first, size := r.s.number, r.first, r.e.generation
	if wide {
		from, size = r.state().number, r.e.cellsFirst
	}
	over := overCapacity{r.request}
	widen := r.e.Spares() && over.rotateSpare(to)
	if r.e.Spares() && (wide || r.state().on > 0) {
		kept = suspects
	}
	expired := r.e.Ring.Rotate(from, to, func(buffer int) { clear(r.e.memory[first+buffer*size:][:size]) })
	if wide {
		r.state().number = to
	} else {
		r.s.begin(to, expired, r.e.peakStep)
	}
	if x := r.e.external.Load(); x != nil {
		(*x).rotate(r.request, expired)
	}
	if marked && r.e.heavy.Rotate(r.tableMemory(), expired, kept) && !wide {
		r.markTable()
	}
	switch {
	case widen:
		over.widen()
	case wide:
		over.endWide()
	}
}

// begin makes a later generation the current one, with which others expire, ≥ 1.
func (s *shard) begin(number int64, expired int, peakStep int64) {
	s.number = number
	before := (int64(s.peaks.current) + peakStep - 1) / peakStep
	if expired > 1 {
		before = 0
	}
	s.peaks = peaks{before: uint16(min(before, math.MaxUint16))}
}

// peakBefore returns what the key has at most in the previous generation, by the shard's peak.
func (r window) peakBefore() int64 { return min(r.e.reach, int64(r.s.peaks.before)*r.e.peakStep) }

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
//
// With enough units asked for it returns at most as many as free, and never more than it would with all: so whatever it
// leaves out, a request that it admits would be admitted by all readings. Consume relies on that.
func (r window) usage(p rotating.Position, current int64, entry *uint64, enough int64, elsewhere bool) usage {
	u := usage{free: r.e.limit - current, newest: r.e.Ring.Buffers()}
	if current > 0 {
		u.newest = 0
	}
	oldest := r.e.Ring.Buffers() - 1
	for age := 1; age <= oldest; age++ {
		if enough != all && (u.free < enough || age == oldest && r.e.WeighsAtMost(r.e.reach, p.Elapsed, u.free-enough)) {
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
			u.free -= r.e.Weighted(c, age, p.Elapsed)
		}
	}
	return u
}

// used is all there is to tell of what the key has used.
func (r window) used(p rotating.Position, entry *uint64) usage {
	current, _ := r.count(p.Generation, entry)
	return r.usage(p, current+r.former(p.Generation), entry, all, true)
}

// count reads the key in a generation, by its number, which may lie ahead of the
// shard's, and returns its hash there unless the key's entry has counted it all.
func (r window) count(number int64, entry *uint64) (count int64, h uint64) {
	age := r.s.number - number
	if uint64(age) >= uint64(r.e.Ring.Buffers()) {
		return 0, 0 // not begun, or gone
	}
	if entry != nil {
		count = r.e.heavy.Count(*entry, int(age))
		if r.e.heavy.Complete(*entry, int(age)) {
			return count, 0
		}
	}
	c, h := r.read(int(age), number)
	return max(count, c), h
}

// read reads the key in the sketch of a generation, by age and number.
func (r window) read(age int, number int64) (count int64, h uint64) {
	first, h := r.buffer(age), r.hashAt(number)
	return r.reading(first, h), h
}

// reading reads the generation whose words begin at first, by a key's hash there.
func (r window) reading(first int, h uint64) int64 {
	switch {
	case r.e.guarded && !r.e.door.Test(r.e.memory, first, h):
		return 0
	case r.e.cells.Depth() == 0:
		return 1
	}
	return int64(r.e.cells.Estimate(r.e.memory, first+r.e.cellsFirst, h))
}

// addGuarded counts n units (1 … most) for a key without an entry in the current generation, unless it would then read
// more than most, and returns its count. The doorkeeper tells whether the key was there before.
func (r window) addGuarded(first int, h uint64, n, most int64) (count uint32, ok bool) {
	if !r.e.door.TestAndAdd(r.e.memory, first, h) {
		r.e.cells.Raise(r.e.memory, first+r.e.cellsFirst, h, uint32(n))
		return uint32(n), true
	}
	if r.e.cells.Depth() == 0 {
		return 1, false
	}
	return r.e.cells.AddBounded(r.e.memory, first+r.e.cellsFirst, h, uint32(n), uint32(most))
}

// buffer returns the first word of the generation of an age.
func (r window) buffer(age int) int { return r.first + r.e.layout.buffer(r.s.number-int64(age)) }

// buffer returns the first of a shard's words that hold a generation, by its number.
func (l *layout) buffer(number int64) int {
	return l.Ring.Buffer(number) * l.generation
}

// hashAt returns the key's hash in a generation, by its number.
func (r window) hashAt(number int64) uint64 {
	return keyhash.Mix(r.h, rotating.Seed(r.e.turnSeed, number))
}
