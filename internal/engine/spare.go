package engine

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/rotating"
)

const (
	// calmRate is the part of the rate below which a shard need not spare.
	calmRate = 0.1
	// nearly is the part of the rate from which on a shard looks four times as often: the rate may be ten times as high
	// when a hundredth more has come.
	nearly = 1. / 32
	// uselessRate is that from which on a shard becomes wide at once, which it looks at every so many usual looks.
	uselessRate = 0.5
	usefulLooks = 8
	// trials are how often an entry may be taken over in a generation, on average. So whoever gets one has time to show
	// by its own requests that it is heavier than others; where it were taken over at once, no key would rise.
	trials = 32
	// takeoversOfLimit are those for as many units as the limit is.
	takeoversOfLimit = 4
)

// every returns the units between two looks of a shard: a five-hundredth of what fills its cells.
func every(l *layout) uint64 { return max(64, uint64(l.cells.Width())*uint64(l.limit)/512) }

// sparing tells whether the shard spares the key at a position, or a request would find that it is time to begin.
func (r overCapacity) sparing(p rotating.Position) bool {
	s := r.state()
	switch ahead := p.Generation - r.number(); {
	case s.mode == sparing && ahead == 0:
		return true
	case s.mode == sparing:
		return ahead == 1 && r.goesOn(s)
	case ahead != 0:
		return false
	}
	if r.formerSpares(p) {
		return true // what is read there counts here as well
	}
	return r.due(p, s) && r.tooMany(p, s)
}

// bears returns the units of a window that the shard bears without sparing: what it had when it began to, and a quarter of
// what fills its cells in any case, since it may have begun because of a predecessor.
func (r overCapacity) bears() int64 { return max(r.state().bears, int64(128*every(&r.e.layout))) }

// due tells whether it is time for a look: enough has been admitted since the last one, or a sixty-fourth of the generation
// has passed, because a shard that denies everybody is to look, too.
func (r overCapacity) due(p rotating.Position, s *spareState) bool {
	return r.s.admitted-s.looked >= every(&r.e.layout) || r.moment(p) > s.now/momentUnit
}

// moment returns the sixty-fourth of a generation that a position is in, from 1 on.
func (r overCapacity) moment(p rotating.Position) int64 {
	return int64(p.Elapsed)/(r.e.Timeline.Length()/64+1) + 1
}

// tooMany looks at the cells, and tells whether too many would be denied, on average lately. If not, it is not looked again
// for a while, by whomever: a look takes as long as hundreds of decisions.
func (r overCapacity) tooMany(p rotating.Position, s *spareState) bool {
	rate := sampler(r).noiseRate(p)
	if before := r.e.predecessor(); before != nil {
		rate = max(rate, before.noiseRate(p, r.h)) // a few strangers show nothing of what few keys read there
	}
	grows := r.e.spare.Grow != nil && !r.e.spare.full.Load()
	if rate >= r.e.spare.Rate && grows {
		r.e.spare.Grow()
	}
	average := s.average(rate, r.passed(p, s))
	if average >= r.e.spare.Rate && !grows {
		return true
	}
	s.rate, s.looked, s.now = average, r.s.admitted, s.now%momentUnit+r.moment(p)*momentUnit
	if rate > r.e.spare.Rate*nearly {
		s.looked -= every(&r.e.layout) / 4 * 3
	}
	return false
}

// passed returns the part of a window since the last look, by what was admitted. Where nothing is, time tells.
func (r overCapacity) passed(p rotating.Position, s *spareState) float64 {
	units := float64(r.s.admitted-s.looked) / float64(max(r.lately(p, s), int64(128*every(&r.e.layout))))
	return max(units, float64(r.moment(p)-s.now/momentUnit)/64)
}

// noiseRate is that of a predecessor in the shard that a key is in, 0 if that is in another generation.
func (b *predecessor) noiseRate(p rotating.Position, h uint64) float64 {
	r, locked := b.at(h)
	if locked {
		defer r.s.mu.Unlock()
	}
	if r.s.number != p.Generation {
		return 0
	}
	return sampler{r}.noiseRate(p)
}

// begins is for a key that is spared, or that is so by a predecessor: the shard begins to spare, unless it has.
func (r overCapacity) begins(p rotating.Position) {
	s := r.state()
	if s.mode == sparing {
		return
	}
	if s.mode == exactly {
		s.from = r.s.admitted
	}
	s.mode, s.turns, s.bears, s.rate = sparing, 1, r.lately(p, s), 0
	s.looked = r.s.admitted
	r.e.spare.begin(p, &r.e.Rule)
}

// lately returns the units of the last window.
func (r overCapacity) lately(p rotating.Position, s *spareState) int64 {
	return int64(r.s.admitted-s.start) + int64(float64(s.before)*(1-float64(p.Elapsed)/float64(r.e.Timeline.Length())))
}

// formerSpares tells whether a predecessor spares the key and still matters.
func (r overCapacity) formerSpares(p rotating.Position) bool {
	before := r.e.predecessor()
	return before != nil && before.sparesKey(p.Generation, r.h)
}

// sparesKey tells whether the key's shard spares, or has in a generation that is kept at a later one.
func (b *predecessor) sparesKey(generation int64, h uint64) bool {
	r, locked := b.at(h)
	if locked {
		defer r.s.mu.Unlock()
	}
	return r.state().mode != exactly && generation < r.number()+int64(r.e.Ring.Buffers())
}

// goesOn tells whether a shard that spares does so in the next generation, too: until as many have ended one after
// another in which it need not have as are kept.
func (r overCapacity) goesOn(s *spareState) bool {
	return r.wide() || !r.calm() || int(s.turns) < r.e.Ring.Buffers()
}

// calm tells whether the shard need not have spared in its generation.
func (r overCapacity) calm() bool {
	return sampler(r).noiseRate(rotating.Position{Generation: r.s.number, Elapsed: time.Duration(r.e.Timeline.Length() - 1)}) < calmRate*r.e.spare.Rate
}

// rotateSpare is for a shard that may spare and is about to rotate to a later generation. It reports whether the shard, if
// it is not wide, is to become so.
func (r overCapacity) rotateSpare(generation int64) (widen bool) {
	s := r.state()
	units := int64(r.s.admitted - s.start)
	s.start, s.before, s.now = r.s.admitted, units, 0
	if s.mode != exactly {
		r.s.last.Clear() // a key may be read otherwise from now on
	}
	turns := generation - r.number()
	switch {
	case s.mode == sparing && (turns > 1 || r.wide() && units <= r.bears()/4*3): // the rate falls by powers of ten with a quarter less
		s.settle(r.e.Ring.Buffers())
	case s.mode == sparing && !r.wide() && !r.calm():
		s.turns, widen = 1, true
		s.bears = min(s.bears, units-units/10)
	case s.mode == sparing && !r.wide():
		if s.turns++; int(s.turns) > r.e.Ring.Buffers() {
			s.settle(r.e.Ring.Buffers())
		}
	}
	switch s.mode {
	case sparing:
		r.e.spare.goOn(generation)
	case settling:
		if s.turns -= int32(min(turns, int64(s.turns))); s.turns == 0 {
			s.mode = exactly
			r.e.spare.ended(r.s.admitted - s.from)
		}
	}
	return widen
}

// own returns the units that the key has beyond doubt used in a generation, by its number: those that its entry has
// counted.
func (r overCapacity) own(number int64, entry *uint64) (units int64) {
	if age := r.number() - number; entry != nil && uint64(age) < uint64(r.e.Ring.Buffers()) {
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
	return overCapacity{r}.own(number, r.e.heavy.Find(r.bucketOf(), h))
}

// certified is the Verdict on a request for n units by what the key has beyond doubt used.
func (r overCapacity) certified(p rotating.Position, n, limit int64, entry *uint64) Verdict {
	own := func(age int) int64 { return r.own(p.Generation-int64(age), entry) }
	free, newest := limit, r.e.Ring.Buffers()
	for age := range r.e.Ring.Buffers() {
		if units := own(age); units > 0 {
			free, newest = free-r.e.Weighted(units, age, p.Elapsed), min(newest, age)
		}
	}
	v := Verdict{Allowed: n >= 1 && n <= free, Remaining: int(max(free, 0)), ResetAfter: r.e.ResetAfter(p, newest)}
	if !v.Allowed {
		v.RetryAfter = r.e.RetryAfter(p, n, limit, own)
	}
	if newest < r.e.Ring.Buffers() && p.Generation == r.s.number { // in the next one the key may be read again
		u := window(r).used(p, entry)
		v.ResetAfter = r.e.ResetAfter(p, u.newest)
		if !v.Allowed && int64(p.Elapsed+v.RetryAfter) >= r.e.Timeline.Length() {
			v.RetryAfter = window(r).denied(p, u, entry, n, limit).RetryAfter
		}
	}
	return v
}

// spared is the Verdict on a request for n units that are not free by the key's readings, by what is certified. Where the
// shard does not spare, ok is false.
func (r overCapacity) spared(p rotating.Position, n, limit int64, entry *uint64) (v Verdict, ok bool) {
	if n < 1 || n > limit {
		return Verdict{}, false
	}
	v = r.certified(p, n, limit, entry)
	return v, (v.Allowed || r.state().mode == sparing) && r.sparing(p)
}

// refuseCertified counts a request of a key that is certified to be above its limit, and remembers the key if that has
// nothing left.
func (r overCapacity) refuseCertified(p rotating.Position, n, limit int64, v Verdict) Verdict {
	r.s.denied += r.e.Counted(n, limit)
	if n == 1 && limit > 0 {
		r.remember(p, limit, v)
	}
	return v
}

// refuseUncertified counts a request that is denied although nothing certifies that. It is not remembered: the key may be
// spared when the shard looks at its cells again.
func (r overCapacity) refuseUncertified(p rotating.Position, n, limit int64, entry *uint64) Verdict {
	r.s.denied += uint64(n)
	window(r).wronged(p, n, limit, entry)
	u := window(r).used(p, entry)
	u.free -= r.e.limit - limit
	return window(r).denied(p, u, entry, n, limit)
}

// admitSpared counts n units of a key although its readings deny them.
func (r overCapacity) admitSpared(p rotating.Position, entry *uint64, h uint64, current, n int64) {
	r.begins(p)
	r.s.admitted += uint64(n)
	r.s.last.Clear()
	count := min(current+n, r.e.limit)
	if entry != nil {
		window(r).ask(entry, 0, n)
	} else if count >= r.e.promoteAt {
		entry = r.compete(p, r.entries())
	}
	if entry != nil {
		r.e.heavy.Set(entry, count)
		if r.e.heavy.Complete(*entry, 0) {
			return
		}
	}
	first := window(r).buffer(0)
	if r.e.guarded || h%Sampled == 0 {
		r.e.door.TestAndAdd(r.e.memory, first, h)
	}
	if entry == nil && r.useless(p) {
		r.widen()
	} else if entry == nil {
		r.s.peaks.current = max(r.s.peaks.current, uint32(count))
		r.e.cells.Raise(r.e.memory, first+r.e.cellsFirst, h, uint32(count))
	}
}

// useless tells now and then, in a shard that spares, whether its cells would deny most innocent keys: then they tell
// nothing any more, and need not be kept until the next rotation.
func (r overCapacity) useless(p rotating.Position) bool {
	s := r.state()
	if r.s.admitted-s.looked < usefulLooks*every(&r.e.layout) {
		return false
	}
	s.looked = r.s.admitted
	return sampler(r).noiseRate(p) > uselessRate
}

// joins is for a key that is about to be counted in the current generation. It returns the entry that it then has.
func (r overCapacity) joins(p rotating.Position, entry *uint64, count int64) *uint64 {
	if entry == nil {
		entry = r.competeFull(p, count)
	}
	if r.formerSpares(p) { // which may have lost units of the key
		r.begins(p)
	}
	return entry
}

// competeFull is compete for a key that is admitted, in a shard that spares and has no room for one that becomes heavy.
func (r overCapacity) competeFull(p rotating.Position, count int64) *uint64 {
	if r.state().mode != sparing || count < window(r).threshold() || r.e.heavy.HasRoom(r.entries()) {
		return nil
	}
	return r.compete(p, r.entries())
}

// compete gives a key a new entry in its bucket, or not. Where there is no room the key takes the place of the oldest, if
// that yields: randomised admission (Ben Basat, Einziger, Friedman, Kassner, INFOCOM 2017). One that does not is the
// youngest from then on. So an entry is held for a while whoever comes: no flood of keys takes it from one with many units
// of its own, nor keeps a heavy key from having one in the end.
func (r overCapacity) compete(p rotating.Position, b *heavyhitter.Bucket) *uint64 {
	if r.e.heavy.HasRoom(b) {
		r.markTable()
		return r.e.heavy.Insert(b, r.h, 0)
	}
	s := r.state()
	switch taken, most := s.now%momentUnit, takeovers(r, p, s); {
	case taken > most+1: // the clock has stepped back
		s.now -= taken - most - 1
		return nil
	case taken > most:
		return nil
	}
	oldest, youngest := b[0], &b[heavyhitter.BucketEntries-1]
	copy(b[:], b[1:])
	if !r.yields(p, &oldest, r.draw()) {
		*youngest = oldest
		return nil
	}
	s.now++
	*youngest = 0
	return r.e.heavy.Insert(b, r.h, 0)
}

// takeovers returns how many entries may have been taken over by a position in the generation: by the time that has passed, or,
// where the clock is coarser than requests come, by what was admitted.
func takeovers(r overCapacity, p rotating.Position, s *spareState) int64 {
	byTime := float64(p.Elapsed) / float64(r.e.Timeline.Length()) * float64(trials*r.tableWords())
	return max(int64(byTime), takeoversOfLimit*int64(r.s.admitted-s.start)/r.e.limit)
}

// yields tells whether an entry is taken over, by a draw of 64 bits: always while its key has asked for less than a
// twenty-fourth of the limit, and beyond that the more rarely, the more it has asked for. A wide shard knows whether the key
// has asked since its entry was the oldest before: below half of the limit one that has not is likelier to yield, since who
// sends much at once and then nothing is not heavy. Not at once, since heavy keys may send like that, too.
func (r overCapacity) yields(p rotating.Position, entry *uint64, draw uint64) bool {
	own, few := window(r).asked(p, *entry), max(r.e.limit/24, 1)
	if own < few {
		return true
	}
	part := float64(few) / float64(own)
	chance := part * part * part / 4
	if r.wide() && !r.e.heavy.TestAndClearReference(entry) && 2*own < r.e.limit {
		chance = 2 * part
	}
	return float64(draw>>11)*0x1p-53 < chance
}
