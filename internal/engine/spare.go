package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

const (
	// nearly is the part of the rate from which on a shard looks four times as often: the rate may be ten times as high
	// when a hundredth more has come.
	nearly = 1. / 32
	// trials are how often an entry may be taken over in a generation, on average. So whoever gets one has time to show
	// by its own requests that it is heavier than others; where it were taken over at once, no key would rise.
	trials = 32
	// takeoversOfLimit are those for as many units as the limit is.
	takeoversOfLimit = 4
	// suspects are the generations for which a shard that spares keeps entries, also those of fixed windows: keys that
	// were heavy in one will be so in the next.
	suspects = 2
)

// every returns the units between two looks of a shard: a five-hundredth of what fills its cells.
func every(l *layout) uint64 { return max(64, uint64(l.cells.Width())*uint64(l.Limit)/512) }

// begins reports whether the shard is to begin to spare, which it looks for when it is about to deny n units to a key that
// is not certified to be above its limit.
func (r overCapacity) begins(p rotating.Position) bool {
	s := r.state()
	return p.Generation == r.s.number && r.due(p, s) && r.tooMany(p, s)
}

// uncertified reports whether nothing certifies that the key is above its limit with n units more.
func (r overCapacity) uncertified(p rotating.Position, n, limit int64, entry *uint64) bool {
	return n >= 1 && n <= limit && r.certified(p, n, limit, entry).Allowed
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
	grows := r.e.OverCapacity.CanGrow()
	if rate >= r.e.OverCapacity.Rate && grows {
		r.e.OverCapacity.Grow()
	}
	average := s.average(rate, r.passed(p, s))
	if average >= r.e.OverCapacity.Rate && !grows {
		return true
	}
	s.rate, s.looked, s.now = average, r.s.admitted, s.now%momentUnit+r.moment(p)*momentUnit
	if rate > r.e.OverCapacity.Rate*nearly {
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
	if r.s.number != p.Generation || r.sparing() { // its cells count no more
		return 0
	}
	return sampler{r}.noiseRate(p)
}

// begin makes the shard spare. What it remembers to deny may not be certified.
func (r overCapacity) begin(p rotating.Position) {
	s := r.state()
	if s.mode == exactly {
		s.from = r.s.admitted
	}
	s.mode, s.turns, s.bears, s.rate = sparing, 0, r.lately(p, s), 0
	r.s.last.Clear()
	r.e.OverCapacity.Begin(p.Generation, r.e.Timeline.UnixNano(p), int64(r.e.Ring.Buffers()))
}

// lately returns the units of the last window.
func (r overCapacity) lately(p rotating.Position, s *spareState) int64 {
	return int64(r.s.admitted-s.start) + int64(float64(s.before)*(1-float64(p.Elapsed)/float64(r.e.Timeline.Length())))
}

// rotate is for a shard that is about to rotate to a later generation. It reports whether it ends to spare.
func (r overCapacity) rotate(generation int64) (ends bool) {
	s, turns := r.state(), generation-r.s.number
	units := int64(r.s.admitted - s.start)
	s.start, s.before, s.now = r.s.admitted, units, 0
	if s.mode != exactly {
		r.s.last.Clear() // a key may be read otherwise from now on
	}
	if ends = s.mode == sparing && (turns > 1 || units <= r.bears()/10*9); ends {
		s.mode, s.turns = settling, int32(r.e.Ring.Buffers())
	}
	switch s.mode {
	case sparing:
		r.e.OverCapacity.GoOn(generation)
	case settling:
		if s.turns -= int32(min(turns, int64(s.turns))); s.turns == 0 {
			s.mode = exactly
			r.e.OverCapacity.End(r.s.admitted - s.from)
		}
	}
	return ends
}

// settle is for a shard that has ended to spare and has rotated. Its cells hold what came before it began, and nothing since:
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

// settleAfter makes those shards of a successor, which nobody asks yet, settle whose keys a predecessor spares or has spared.
func settleAfter(next, before *Engine) {
	for i := range before.shards {
		r := before.request(i, 0)
		r.s.mu.Lock()
		spared := r.state().mode != exactly
		r.s.mu.Unlock()
		n, of := len(next.shards), len(before.shards)
		for j := i * n / of; spared && j*of < (i+1)*n; j++ {
			s := next.request(j, 0).state()
			s.mode, s.turns = settling, int32(next.Ring.Buffers())
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
	return v
}

// take is that of a shard that spares, in its generation.
func (r overCapacity) take(p rotating.Position, n, limit int64) Verdict {
	entry := r.find()
	v := r.certified(p, n, limit, entry)
	if !v.Allowed {
		r.e.heavy.SetReference(entry)
		r.s.denied += r.e.Counted(n, limit)
		if n == 1 && limit > 0 {
			r.remember(p, limit, v)
		}
		return v
	}
	r.count(p, n, entry)
	v.Remaining, v.ResetAfter = v.Remaining-int(n), r.e.ResetAfter(p, 0)
	return v
}

// count counts n units of a key in a shard that spares, by its entry if it has one or gets one.
func (r overCapacity) count(p rotating.Position, n int64, entry *uint64) {
	r.s.admitted += uint64(n)
	r.s.last.Clear()
	h := window(r).hashAt(p.Generation)
	if r.e.guarded || h%Sampled == 0 {
		r.e.door.TestAndAdd(r.e.memory, window(r).buffer(0), h)
	}
	if entry != nil {
		window(r).ask(entry, 0, n)
		r.e.heavy.SetReference(entry)
	} else {
		entry = r.compete(p)
	}
	if entry != nil {
		r.e.heavy.Set(entry, min(r.e.heavy.Count(*entry, 0)+n, r.e.Limit))
	}
}

// refuse counts a request that is denied although nothing certifies that. It is not remembered: the key may be spared when
// the shard looks at its cells again.
func (r overCapacity) refuse(p rotating.Position, n, limit int64, entry *uint64) Verdict {
	r.s.denied += uint64(n)
	window(r).wronged(p, n, limit, entry)
	u := window(r).used(p, entry)
	u.free -= r.e.Limit - limit
	return window(r).denied(p, u, entry, n, limit)
}

// buckets returns the two in which the key may have its entry: the usual one, and another one where that is full. Fewer heavy
// keys than places then find room nearly always: of 16 places in one bucket alone, a third would have to be free.
func (r overCapacity) buckets() [2]*heavyhitter.Bucket {
	h := keyhash.Mix(r.h, r.e.turnSeed)
	return [2]*heavyhitter.Bucket{r.entries(), r.e.heavy.Bucket(r.e.memory, r.table(), h)}
}

// find returns the key's entry, or nil.
func (r overCapacity) find() *uint64 {
	for _, b := range r.buckets() {
		if entry := r.e.heavy.Find(b, r.h); entry != nil {
			return entry
		}
	}
	return nil
}

// compete gives a key a new entry, or not. Where there is no room the key takes the place of the oldest in one of its buckets,
// if that yields: randomised admission (Ben Basat, Einziger, Friedman, Kassner, INFOCOM 2017). One that does not is the
// youngest from then on. So an entry is held for a while whoever comes: no flood of keys takes it from one with many units
// of its own, nor keeps a heavy key from having one in the end.
func (r overCapacity) compete(p rotating.Position) *uint64 {
	either := r.buckets()
	for _, b := range either {
		if r.e.heavy.HasRoom(b) {
			return r.e.heavy.Insert(b, r.h, 0)
		}
	}
	s, draw := r.state(), r.draw()
	switch taken, most := s.now%momentUnit, takeovers(r, p, s); {
	case taken > most+1: // the clock has stepped back
		s.now -= taken - most - 1
		return nil
	case taken > most || draw&1 != 0: // by lot, or else keys would win that come as regularly as the count rises
		return nil
	}
	b := either[draw>>1&1]
	oldest, youngest := b[0], &b[heavyhitter.BucketEntries-1]
	copy(b[:], b[1:])
	if !r.yields(p, &oldest, draw) {
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
	byTime := float64(p.Elapsed) / float64(r.e.Timeline.Length()) * float64(trials*r.e.heavy.Words())
	return max(int64(byTime), takeoversOfLimit*int64(r.s.admitted-s.start)/r.e.Limit)
}

// yields reports whether an entry is taken over, by a draw of 64 bits: always while its key has asked for less than a
// twenty-fourth of the limit, and beyond that the more rarely, the more it has asked for. The shard knows whether the key
// has asked since its entry was the oldest before: below half of the limit one that has not is likelier to yield, since who
// sends much at once and then nothing is not heavy. Not at once, since heavy keys may send like that, too.
func (r overCapacity) yields(p rotating.Position, entry *uint64, draw uint64) bool {
	own, few := window(r).asked(p, *entry), max(r.e.Limit/24, 1)
	if own < few {
		return true
	}
	part := float64(few) / float64(own)
	chance := part * part * part / 4
	if !r.e.heavy.TestAndClearReference(entry) && 2*own < r.e.Limit {
		chance = 2 * part
	}
	return float64(draw>>11)*0x1p-53 < chance
}
