package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

const (
	// replacementsPerWindow are how often an entry may be taken over in a generation, on average. So whoever gets one has time to show
	// by its own requests that it is heavier than others; where it were taken over at once, no key would rise.
	replacementsPerWindow = 32
	// replacementsPerLimit are those for as many units as the limit is.
	replacementsPerLimit = 4
	// keptGenerations are the generations for which a shard over capacity keeps entries, also those of fixed windows: keys that
	// were heavy in one will be so in the next.
	keptGenerations = 2
)

// lookInterval returns the units between two looks of a shard: a five-hundredth of what fills its cells.
func lookInterval(l *layout) uint64 { return max(64, uint64(l.cells.Width())*uint64(l.Limit)/512) }

// begins reports whether the shard is to be over capacity, which it looks for when it is about to deny n units to a key that
// is not certified to be above its limit.
func (r overCapacity) begins(p rotating.Position) bool {
	return p.Generation == r.s.number && r.state().Due(r.s.admitted, lookInterval(&r.e.layout), r.moment(p)) && r.tooMany(p)
}

// notProven reports whether nothing certifies that the key is above its limit with n units more.
func (r overCapacity) notProven(p rotating.Position, n, limit int64, entry *uint64) bool {
	return n >= 1 && n <= limit && r.certified(p, n, limit, entry).Allowed
}

// minCapacity returns the units of a window that a shard bears in any case: a quarter of what fills its cells.
func minCapacity(l *layout) int64 { return int64(128 * lookInterval(l)) }

// moment returns the sixty-fourth of a generation that a position is in, from 1 on.
func (r overCapacity) moment(p rotating.Position) int64 {
	return int64(p.Elapsed)/(r.e.Timeline.Length()/overcapacity.Moments+1) + 1
}

// tooMany looks at the cells, and tells whether too many would be denied, on average lately. If not, it is not looked again
// for a while, by whomever: a look takes as long as hundreds of decisions.
func (r overCapacity) tooMany(p rotating.Position) bool {
	rate := sampler(r).noiseRate(p)
	if before := r.e.predecessor(); before != nil {
		rate = max(rate, before.noiseRate(p, r.h)) // a few unseen keys show nothing of what few keys read there
	}
	episodes, grows := r.e.OverCapacity, r.e.OverCapacity.CanGrow()
	if rate >= episodes.Rate && grows {
		episodes.Grow()
	}
	s, moment := r.state(), r.moment(p)
	average := s.Average(rate, s.Passed(r.s.admitted, max(r.windowUnits(p), minCapacity(&r.e.layout)), moment))
	if average >= episodes.Rate && !grows {
		return true
	}
	s.Look(average, rate, episodes.Rate, r.s.admitted, lookInterval(&r.e.layout), moment)
	return false
}

// windowUnits returns the units of the last window.
func (r overCapacity) windowUnits(p rotating.Position) int64 {
	return r.state().LastWindow(r.s.admitted, float64(p.Elapsed)/float64(r.e.Timeline.Length()))
}

// noiseRate is that of a predecessor in the shard that a key is in, 0 if that is in another generation.
func (b *predecessor) noiseRate(p rotating.Position, h uint64) float64 {
	r, locked := b.at(h)
	if locked {
		defer r.s.mu.Unlock()
	}
	if r.s.number != p.Generation || r.isOverCapacity() { // its cells count no more
		return 0
	}
	return sampler{r}.noiseRate(p)
}

// begin makes the shard over capacity. What it remembers to deny may not be certified.
func (r overCapacity) begin(p rotating.Position) {
	r.state().Begin(r.s.admitted, r.windowUnits(p))
	r.s.denials.Clear()
	r.e.OverCapacity.Begin(p.Generation, r.e.Timeline.UnixNano(p), int64(r.e.Ring.Buffers()))
}

// rotate is for a shard that is about to rotate to a later generation. It reports whether it ends to be over capacity.
func (r overCapacity) rotate(generation int64) (ends bool) {
	s := r.state()
	if s.Mode() != overcapacity.Exact {
		r.s.denials.Clear() // a key may be read otherwise from now on
	}
	units := s.Counted(r.s.admitted)
	ends, exact := s.Rotate(r.s.admitted, generation-r.s.number, int64(r.e.Ring.Buffers()), minCapacity(&r.e.layout))
	if r.isOverCapacity() {
		r.e.OverCapacity.GoOn(generation)
	}
	if exact {
		r.e.OverCapacity.End(units)
	}
	return ends
}

// settle is for a shard that is over capacity no more and has rotated. Its cells hold what came before it began, and nothing since:
// they begin anew, and so do the counts of entries, with what is certain.
func (r overCapacity) settle() {
	for first := r.first; first < r.table(); first += r.e.generation {
		clear(r.e.memory[first:][r.e.cellsFirst:r.e.generation])
	}
	table := r.e.memory[r.table():][:r.e.heavy.Words()]
	for i, e := range table {
		table[i] = r.e.heavy.LowerBounds(e)
	}
	r.s.peaks = unknown
}

// settleAfter puts those shards of a successor into mode Settling whose keys a predecessor admits, or has admitted, over
// capacity. Nobody asks the successor yet.
func settleAfter(next, before *Engine) {
	for i := range before.shards {
		r := before.request(i, 0)
		r.s.mu.Lock()
		over := r.state().Mode() != overcapacity.Exact
		r.s.mu.Unlock()
		n, of := len(next.shards), len(before.shards)
		for j := i * n / of; over && j*of < (i+1)*n; j++ {
			next.request(j, 0).state().Settle(int64(next.Ring.Buffers()))
		}
	}
}

// own returns the units that the key has beyond doubt used in a generation, by its number: those that its entry has
// counted.
func (r overCapacity) own(number int64, entry *uint64) (units int64) {
	if age := r.s.number - number; entry != nil && uint64(age) < uint64(r.e.Ring.Buffers()) {
		units = r.e.heavy.LowerBound(*entry, int(age))
	}
	if before := r.e.predecessor(); before != nil {
		units += before.own(number, r.h)
	}
	return units
}

// own is the same of a predecessor.
func (b *predecessor) own(number int64, h uint64) int64 {
	r, locked := b.at(h)
	if locked {
		defer r.s.mu.Unlock()
	}
	return overCapacity{r}.own(number, overCapacity{r}.find())
}

// certified is the Verdict on a request for n units by what the key has beyond doubt used.
func (r overCapacity) certified(p rotating.Position, n, limit int64, entry *uint64) spec.Verdict {
	own := func(age int) int64 { return r.own(p.Generation-int64(age), entry) }
	free, newest := limit, r.e.Ring.Buffers()
	for age := range r.e.Ring.Buffers() {
		if units := own(age); units > 0 {
			free, newest = free-r.e.Weighted(units, age, p.Elapsed), min(newest, age)
		}
	}
	v := spec.Verdict{Allowed: n >= 1 && n <= free, Remaining: int(max(free, 0)), ResetAfter: r.e.ResetAfter(p, newest)}
	if !v.Allowed {
		v.RetryAfter = r.e.RetryAfter(p, n, limit, own)
	}
	return v
}

// take is that of a shard over capacity, in its generation.
func (r overCapacity) take(p rotating.Position, n, limit int64) spec.Verdict {
	entry := r.find()
	v := r.certified(p, n, limit, entry)
	if !v.Allowed {
		r.e.heavy.SetReference(entry)
		r.s.denied += r.e.Counted(n, limit)
		if n == 1 && limit > 0 {
			r.cacheDenial(p, limit, v)
		}
		return v
	}
	r.count(p, n, entry)
	v.Remaining, v.ResetAfter = v.Remaining-int(n), r.e.ResetAfter(p, 0)
	return v
}

// count counts n units of a key in a shard over capacity, by its entry if it has one or gets one.
func (r overCapacity) count(p rotating.Position, n int64, entry *uint64) {
	r.s.admitted += uint64(n)
	r.s.denials.Clear()
	h := window(r).hashAt(p.Generation)
	if r.e.filterFirst || h%Sampled == 0 {
		r.e.filter.TestAndAdd(r.e.memory, window(r).buffer(0), h)
	}
	if entry != nil {
		window(r).offer(entry, 0, n)
		r.e.heavy.SetReference(entry)
	} else {
		entry = r.compete(p)
	}
	if entry != nil {
		r.e.heavy.Set(entry, min(r.e.heavy.Count(*entry, 0)+n, r.e.Limit))
	}
}

// refuse counts a request that is denied although nothing certifies that. It is not remembered: the key may be admitted when
// the shard looks at its cells again.
func (r overCapacity) refuse(p rotating.Position, n, limit int64, entry *uint64) spec.Verdict {
	r.s.denied += uint64(n)
	window(r).offerDenied(p, n, limit, entry)
	u := window(r).used(p, entry)
	u.free -= r.e.Limit - limit
	return window(r).denied(p, u, entry, n, limit)
}

// either returns the buckets in which the key may have its entry.
func (r overCapacity) either() [2]*heavyhitter.Bucket {
	return r.e.heavy.Either(r.e.memory, r.table(), r.h, keyhash.Mix(r.h, r.e.turnSeed))
}

// find returns the key's entry, or nil.
func (r overCapacity) find() *uint64 { return r.e.heavy.FindEither(r.either(), r.h) }

// compete gives a key a new entry, or not. Where there is no room the key takes the place of the oldest in one of its buckets,
// if that yields. One that does not is the youngest from then on. So an entry is held for a while whoever comes: no flood of
// keys takes it from one with many units of its own, nor keeps a heavy key from having one in the end.
func (r overCapacity) compete(p rotating.Position) *uint64 {
	either := r.either()
	if entry := r.e.heavy.InsertEither(either, r.h); entry != nil {
		return entry
	}
	s, draw := r.state(), r.draw()
	if !s.MayTakeOver(r.takeovers(p)) || draw&1 != 0 { // by lot, or else keys would win that come as regularly as the count rises
		return nil
	}
	b := either[draw>>1&1]
	if !r.e.heavy.Yields(b.Oldest(), window(r).offered(p, *b.Oldest()), r.e.Limit, draw) {
		b.Renew()
		return nil
	}
	s.TookOver()
	b.DropOldest()
	return r.e.heavy.Insert(b, r.h, 0)
}

// takeovers returns how many entries may have been taken over by a position in the generation: by the time that has passed, or,
// where the clock is coarser than requests come, by what was admitted.
func (r overCapacity) takeovers(p rotating.Position) int64 {
	byTime := float64(p.Elapsed) / float64(r.e.Timeline.Length()) * float64(replacementsPerWindow*r.e.heavy.Words())
	return max(int64(byTime), replacementsPerLimit*int64(r.state().Admitted(r.s.admitted))/r.e.Limit)
}

// Episode returns the last time that the limiter was over capacity, at a position or later.
func (e *Engine) Episode(p rotating.Position) overcapacity.Episode {
	switch {
	case e.OverCapacity == nil:
		return overcapacity.Episode{}
	case e.Evicts():
		return e.OverCapacity.LastEvicted(e.Timeline.UnixNano(p), e.Fills())
	}
	active := func() (on bool, units uint64) {
		for one := e; one != nil; one = one.Before() {
			active, more := overCapacityUnits(one, p)
			on, units = on || active, units+more
		}
		return on, units
	}
	return e.OverCapacity.Last(active, func(generation int64) int64 {
		return e.Timeline.UnixNano(rotating.Position{Generation: generation + int64(e.Ring.Buffers())})
	})
}

// overCapacityUnits reports whether a shard is over capacity that a request would not find to have ended, at a position or
// later, and returns the units of all shards.
func overCapacityUnits(e *Engine, p rotating.Position) (on bool, units uint64) {
	for i := range e.shards {
		r := e.request(i, 0)
		r.s.mu.Lock()
		on = on || r.isOverCapacity() && r.s.number+1 >= p.Generation
		units += r.state().Counted(r.s.admitted)
		r.s.mu.Unlock()
	}
	return on, units
}
