package engine

import (
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/meancost"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// windows is the algorithm of windows.
type windows struct{}

func (windows) quota(_ *spec.Rule, limit int64) int64 { return limit }

func (windows) resetAfter(rule *spec.Rule, p rotating.Position, _, _ int64) time.Duration {
	return rule.ResetAfter(p, 0)
}

func (windows) take(r request, p rotating.Position, n, limit int64, e Effort) spec.Verdict {
	if r.isOverCapacity() {
		return overCapacity{r}.take(p, n, limit)
	}
	return window{r}.takeAny(p, n, limit, e, r.e.heavy.Find(r.entries(), r.h))
}

func (windows) peek(r request, p rotating.Position, n, limit int64) spec.Verdict {
	if over := (overCapacity{r}); r.isOverCapacity() {
		return over.certified(p, n, limit, over.find())
	}
	entry := r.e.heavy.Find(r.entries(), r.h)
	if entry != nil && p.Generation > r.s.number && r.e.heavy.Expired(*entry) {
		entry = nil
	}
	return window{r}.peekEntry(p, n, limit, entry)
}

func (windows) charge(r request, p rotating.Position, n, limit int64, asked bool) (free int64) {
	n = min(n, r.e.Limit)
	if asked || r.e.external.Load() != nil || r.e.DeniesProven() {
		return window{r}.charge(p, n, limit)
	}
	window{r}.chargeHeld(p, n)
	return 0
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
		cells, filter := first+r.e.cellsFirst, bucket
		if r.e.filterFirst {
			filter = unsafe.Pointer(&r.e.memory[r.e.filter.Block(first, h)])
		}
		if r.e.cells.Depth() == 0 {
			cells = r.e.filter.Block(first, h)
		}
		r.prefetchCells(bucket, filter, cells, h)
	}
}

// adopt leaves the counts as they are, which are units whatever the limit.
func (windows) adopt(next *Engine, r request, _ int64) {
	r.s.peaks = unknown
	if next.heavy.CountBits() != r.e.heavy.CountBits() {
		next.heavy.Convert(r.e.memory[r.table():][:r.e.heavy.Words()], &r.e.heavy)
	}
}

func (windows) save(r request, to []uint64) {
	if r.e.DeniesProven() {
		stateIn(r.e, to).Save(r.s.admitted)
	}
}

func (windows) restored(r request) { r.s.peaks = unknown }

// takeAny is take for any key, in the shard's generation, by its entry if it has one.
func (r window) takeAny(p rotating.Position, n, limit int64, e Effort, entry *uint64) spec.Verdict {
	current, h := r.count(p.Generation, entry)
	enough := unbounded
	if e == Brief {
		enough = min(n, limit) + r.e.Limit - limit
	}
	u, _ := r.usageOf(p, n, limit, current, entry, enough)
	if free := u.free - (r.e.Limit - limit); n >= 1 && n <= free {
		if invariants.On {
			checkAdmits(r.left(p, limit, entry), n)
		}
		if meancost.Sampled(r.s.admitted) {
			meancost.Note(r.e.flooded, n)
		}
		r.add(entry, h, current, n)
		if x := r.e.external.Load(); x != nil {
			(*x).Admit(r.s.number, r.h, current+n)
		}
		return spec.Verdict{Allowed: true, Remaining: int(free - n), ResetAfter: r.e.ResetAfter(p, 0)}
	}
	if over := overCapacity(r); r.e.DeniesProven() && over.notProven(p, n, limit, entry) {
		if !over.begins(p) {
			return over.refuse(p, n, limit, entry)
		}
		over.begin(p)
		return over.take(p, n, limit)
	}
	return r.refuse(p, n, limit, enough, entry, u)
}

// settleEntry is settle for a key that may have an entry, by which most are admitted. Of the cells it reads what may exceed
// the entry alone.
func (r window) settleEntry(p rotating.Position, n, limit int64, e Effort, entry *uint64) spec.Verdict {
	if r.e.OverCapacity != nil || r.e.external.Load() != nil {
		return r.settle(p, n, limit, e)
	}
	count := r.e.heavy.Count(*entry, 0)
	if count < int64(r.s.peaks.current) {
		count, _ = r.count(p.Generation, entry)
	}
	free := limit - count
	if r.e.Ring.Buffers() > 1 {
		before, complete := r.e.heavy.Count(*entry, 1), r.e.heavy.Complete(*entry, 1)
		if !complete {
			before = max(before, r.peakBefore())
		}
		weight := r.e.Weighted(before, 1, p.Elapsed)
		if !complete && (e != Brief || n > free-weight) {
			before, _ = r.count(p.Generation-1, entry)
			weight = r.e.Weighted(before, 1, p.Elapsed)
		}
		free -= weight
	}
	if n < 1 || n > free {
		return r.settle(p, n, limit, e)
	}
	if invariants.On {
		checkAdmits(r.left(p, limit, entry), n)
	}
	if meancost.Sampled(r.s.admitted) {
		meancost.Note(r.e.flooded, n)
	}
	r.e.heavy.Set(entry, count+n)
	r.s.admitted += uint64(n)
	r.s.denials.Clear()
	v := spec.Verdict{Allowed: true}
	if e != Brief {
		v.Remaining, v.ResetAfter = int(free-n), r.e.ResetAfter(p, 0)
	}
	return unlocked(r.s, v)
}

// peekEntry is peek at a position that is not behind the shard's, by the key's entry if it has one.
func (r window) peekEntry(p rotating.Position, n, limit int64, entry *uint64) spec.Verdict {
	u := r.used(p, entry)
	u.free -= r.e.Limit - limit
	if n < 1 || n > u.free {
		if over := overCapacity(r); r.e.DeniesProven() && over.notProven(p, n, limit, entry) && over.begins(p) {
			return over.certified(p, n, limit, entry)
		}
		return r.denied(p, u, entry, n, limit)
	}
	return spec.Verdict{Allowed: true, Remaining: int(u.free), ResetAfter: r.e.ResetAfter(p, u.newest)}
}

// charge is Charge for a window. It returns what was free.
func (r window) charge(p rotating.Position, n, limit int64) (free int64) {
	over := overCapacity(r)
	if r.isOverCapacity() {
		entry := over.find()
		free = int64(over.certified(p, 1, limit, entry).Remaining)
		over.count(p, n, entry)
		return free
	}
	entry := r.e.heavy.Find(r.entries(), r.h)
	current, h := r.count(p.Generation, entry)
	room := r.e.Limit - current
	u, external := r.usageOf(p, n, limit, current, entry, unbounded)
	room -= external
	free = u.free - (r.e.Limit - limit)
	if n > free && r.e.DeniesProven() && over.notProven(p, min(n, limit), limit, entry) && over.begins(p) {
		over.begin(p)
		return r.charge(p, n, limit)
	}
	counted := max(0, min(n, room))
	r.s.admitted += uint64(n - counted)
	if counted == 0 {
		return free
	}
	r.add(entry, h, current, counted)
	if x := r.e.external.Load(); x != nil {
		(*x).Admit(r.s.number, r.h, current+counted)
	}
	return free
}

// chargeHeld is Charge for a window, of units that were held. It reads the current generation only.
func (r window) chargeHeld(p rotating.Position, n int64) {
	entry := r.e.heavy.Find(r.entries(), r.h)
	current, h := r.count(p.Generation, entry)
	counted := max(0, min(n, r.e.Limit-current))
	if r.s.admitted += uint64(n - counted); counted > 0 {
		r.add(entry, h, current, counted)
	}
}

// rotateWindow is rotate to a later generation for a window.
func (r window) rotateWindow(to int64) {
	kept, mayHaveEntries, ends := r.e.Ring.Buffers(), r.mayHaveEntries(), false
	if r.e.DeniesProven() {
		if r.isOverCapacity() {
			kept, mayHaveEntries = keptGenerations, true
		}
		ends = overCapacity(r).rotate(to)
	}
	expired := r.e.Ring.Rotate(r.s.number, to, func(buffer int) {
		clear(r.e.memory[r.first+buffer*r.e.generation:][:r.e.generation])
	})
	r.s.begin(to, expired, r.e.peakStep)
	if x := r.e.external.Load(); x != nil {
		(*x).Rotate(r.first/r.e.size, to, expired)
	}
	if mayHaveEntries && r.e.heavy.Rotate(r.e.memory[r.table():][:r.e.heavy.Words()], expired, kept) {
		r.noteEntry()
	}
	if ends {
		overCapacity(r).settle()
	}
}

// filter and sketch are what each buffer of the ring holds, the current one and those before. The sketch has no counters
// where the limit is 1.
func (r window) filter() *bloom.Layout { return &r.e.filter }
func (r window) sketch() *cms.Layout   { return &r.e.cells }

// addGuarded counts n units (1 … most) for a key without an entry in the current generation, unless it would then read
// more than most, and returns its count. The Bloom filter tells whether the key was there before.
func (r window) addGuarded(first int, h uint64, n, most int64) (count uint32, ok bool) {
	if !r.filter().TestAndAdd(r.e.memory, first, h) {
		r.sketch().Raise(r.e.memory, first+r.e.cellsFirst, h, uint32(n))
		return uint32(n), true
	}
	if r.sketch().Depth() == 0 {
		return 1, false
	}
	return r.sketch().AddBounded(r.e.memory, first+r.e.cellsFirst, h, uint32(n), uint32(most))
}

// refuse counts a request that is denied, and remembers its key if that has nothing left.
//
// The denial cache needs the time until a unit comes free, which takes longer to compute than
// to deny. Where the caller does not need it (Brief), the first denial only marks the key, and
// the second in a row computes it.
func (r window) refuse(p rotating.Position, n, limit, enough int64, entry *uint64, u usage) spec.Verdict {
	r.s.denied += r.e.Counted(n, limit)
	r.offerDenied(p, n, limit, entry)
	flood := n == 1 && limit > 0
	if enough != unbounded {
		if !flood {
			return spec.Verdict{}
		}
		if h := r.denialHash(limit); !r.s.denials.Marked(h) {
			r.s.denials.Mark(h)
			return spec.Verdict{}
		}
		u = r.used(p, entry)
	}
	u.free -= r.e.Limit - limit
	v := r.denied(p, u, entry, n, limit)
	if flood {
		r.cacheDenial(p, limit, v)
	}
	return v
}
