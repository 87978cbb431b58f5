package sketchlimit

import (
	"iter"
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
)

// Stats is a picture of a [Limiter].
type Stats struct {
	Admitted  uint64 // units since construction
	Denied    uint64 // units since construction
	TooLow    uint64 // requests with limits from 1 up to below Config.LowestLimit since construction: all denied
	Rotations uint64 // times that a new generation has begun since construction; of buckets, times that cells were brought forward

	// FalseDenialRate is the chance, 0 … 1, that a key which the limiter has
	// never seen is denied its first unit now, at Config.LowestLimit. For other costs and
	// limits see [Limiter.FalseDenialRate]. It is no estimate from samples but
	// follows from what every cell holds, also those of limiters that share the limit.
	// It is no bound for keys that have used some of their limit: they have passed the
	// doorkeeper and meet more.
	FalseDenialRate float64
	// DistinctKeys and PreviousDistinctKeys estimate the keys that were admitted
	// in the current and in the previous generation, to about 1 % until the
	// doorkeepers are full. A fixed window has no previous generation. A bucket
	// does not know: both are 0.
	DistinctKeys         float64
	PreviousDistinctKeys float64
	// BloomFill and SketchFill are the share of bits set in the current
	// generation's doorkeepers, and of cells above 0 in its sketches, 0 … 1. Of
	// buckets they are 0, and the share of cells whose time lies ahead.
	BloomFill  float64
	SketchFill float64
	// OutsidePlan tells that the limiter is not used as it was made for. Any of these is
	// enough. There are more keys, in the current or in the previous generation, than
	// Config.Keys or those of the Plan's Forecast; one that grows makes itself for as many
	// as there are. FalseDenialRate has passed Config.FalseDenialRate, 1e-5 if that is not
	// set, and what the Plan expects. TooLow is above 0.
	OutsidePlan bool
}

// Stats reads the whole limiter; docs/metrics.md says how long that takes. It copies one
// shard at a time: no decision waits for more than the copy of some KiB.
func (l *Limiter) Stats() Stats {
	p := l.windows.Now()
	sum := Stats{Rotations: l.windows.Turns(), Denied: l.flooded.load(), TooLow: l.tooLow.Load()}
	in, before := l.current(&sum)
	in.addTo(&sum, p, before, int64(l.lowest))
	sum.OutsidePlan = sum.TooLow > 0 || sum.FalseDenialRate > l.planned.rate ||
		l.planned.keys > 0 && max(sum.DistinctKeys, sum.PreviousDistinctKeys) > 1.05*l.planned.keys
	return sum
}

// FalseDenialRate returns the chance, 0 … 1, that a key which the limiter has never seen is denied n units now
// at a limit, although the exact algorithm admits them. It is 0 if the exact algorithm denies them as well, and 1
// for limits below Config.LowestLimit; a limit above Config.Limit counts as that. [Stats.FalseDenialRate] is the
// chance for one unit at the lowest limit. It takes as long as Stats does.
func (l *Limiter) FalseDenialRate(n, limit int) (rate float64) {
	if limit < l.lowest {
		return 1
	}
	p := l.windows.Now()
	in, before := l.current(new(Stats))
	for s := range in.pieces(p, before) {
		rate += s.denied(int64(n), min(int64(limit), l.limit)) / float64(s.of)
	}
	return rate
}

// current returns what decides at present and what it has replaced, if that matters still, and adds up the
// units of limiters that are gone. Nothing is locked afterwards: the limiter may go on growing.
func (l *Limiter) current(sum *Stats) (in, before *Limiter) {
	if g := l.growth; g != nil {
		g.mu.Lock() // nothing is replaced meanwhile
		defer g.mu.Unlock()
		sum.Admitted, sum.Denied = g.admitted, sum.Denied+g.denied
	}
	in = l.inUse()
	return in, in.before.Load()
}

// addTo adds up the limiter and what it has replaced.
func (l *Limiter) addTo(sum *Stats, p Position, before *Limiter, lowest int64) {
	for _, one := range []*Limiter{l, before} {
		if one != nil {
			admitted, denied := one.units()
			sum.Admitted += admitted
			sum.Denied += denied
		}
	}
	for s := range l.pieces(p, before) {
		share, former := float64(len(l.shards))/float64(s.of), 0.0
		if before != nil {
			former = float64(len(before.shards)) / float64(s.of)
		}
		sum.DistinctKeys += s.ages[0].distinct()*share + s.former[0].distinct()*former
		if len(s.ages) > 1 {
			sum.PreviousDistinctKeys += s.ages[1].distinct()*share + s.former[1].distinct()*former
		}
		if s.ages[0].door != nil {
			sum.BloomFill += s.ages[0].door.FillRatio() / float64(s.of)
		}
		sum.SketchFill += fill(&s.ages[0].cells, l.counts(s.at)) / float64(s.of)
		sum.FalseDenialRate += s.denied(1, lowest) / float64(s.of) // a new key falls in any alike
	}
}

// piece is a copy of what decides on a part of the keys, those of one shard or less.
type piece struct {
	*Limiter
	of     int      // pieces there are
	at     Position // that the copy stands for
	ages   []generation
	former []generation // the same of a predecessor, or as many that are missing
	table  []uint64     // of heavy keys
	others [][]uint64   // cells of those that share the limit, by age; nil if nobody does
}

// pieces ranges over the limiter and what it has replaced. Their shards have the keys in the same order:
// parts of the keys that share a shard of either are looked at one after another.
func (l *Limiter) pieces(p Position, before *Limiter) iter.Seq[*piece] {
	return func(yield func(*piece) bool) {
		s := &piece{Limiter: l, of: len(l.shards), former: make([]generation, l.generations)}
		memory := make([]uint64, l.size)
		s.table = memory[l.generations*l.generation:]
		var formerMemory []uint64
		if before != nil {
			s.of, formerMemory = max(s.of, len(before.shards)), make([]uint64, before.size)
		}
		if share := l.share.Load(); share != nil {
			s.others = make([][]uint64, l.generations)
			for age := range s.others {
				s.others[age] = make([]uint64, share.PartWords())
			}
		}
		for i := range s.of {
			s.at, s.ages = l.copyShard(i*len(l.shards)/s.of, p, memory, s.others)
			if before != nil {
				last, f := before.copyShard(i*len(before.shards)/s.of, Position{Generation: math.MinInt64}, formerMemory, nil)
				s.former = aligned(f, s.at.Generation-last.Generation)
			}
			if !yield(s) {
				return
			}
		}
	}
}

// aligned returns a shard's generations by their age so many generations later. Those that
// are missing are empty ones.
func aligned(ages []generation, later int64) []generation {
	out := make([]generation, len(ages))
	for age := range ages {
		if earlier := int64(age) - later; earlier >= 0 && earlier < int64(len(ages)) {
			out[age] = ages[earlier]
		}
	}
	return out
}

// generation is a copy of what a shard holds of one span of time.
type generation struct {
	door  *bloom.Filter // nil where it is missing
	cells cms.Sketch    // no cells where the limit is 1
	heavy int           // keys counted in the heavy table alone
}

// missing is true of a generation that is not kept any more, and of a bucket's.
func (g *generation) missing() bool { return g.door == nil }

func (g *generation) distinct() float64 {
	if g.missing() {
		return 0
	}
	return g.door.Distinct() + float64(g.heavy)
}

// copyShard copies the i-th shard's memory, and the cells of those that share the limit if these are wanted, and
// returns it by age, with the position that it stands for, which is not before p.
func (l *Limiter) copyShard(i int, p Position, memory []uint64, others [][]uint64) (at Position, ages []generation) {
	s := &l.shards[i]
	s.mu.Lock()
	r := request{l, s, i * l.size, 0}
	at = r.turn(p)
	copy(memory, l.memory[i*l.size:])
	for age := range others {
		copy(others[age], l.share.Load().theirs(r, age))
	}
	number := s.number
	s.mu.Unlock()

	ages = make([]generation, l.generations)
	for age := range ages {
		words := memory[l.buffer(number-int64(age)):][:l.generation]
		if l.door.Words() > 0 {
			door, err := bloom.Over(words[:l.door.Words()], l.door.Probes())
			if err != nil {
				panic(err) // the plan has been checked
			}
			ages[age].door = door
		}
		if l.cells.Depth() > 0 {
			cells, err := cms.Over(words[l.door.Words():], l.cells.Depth(), l.cells.Width(), l.cells.CellBits())
			if err != nil {
				panic(err)
			}
			ages[age].cells = *cells
		}
		ages[age].heavy = l.heavy.held(memory[l.generations*l.generation:], age)
	}
	return at, ages
}

// counts returns the least that a cell holds which weighs anything.
func (w *window) counts(p Position) uint32 {
	if w.bucket.burst > 0 {
		return w.bucket.beyond(p, 0)
	}
	return 1
}

// fill returns the share of cells that hold c or more.
func fill(k *cms.Sketch, c uint32) float64 {
	if k.Depth() == 0 {
		return 0
	}
	sum := 0.0
	for r := range k.Depth() {
		for lane := range k.Lanes() {
			sum += k.Tail(r, lane, c)
		}
	}
	return sum / float64(k.Depth()*k.Lanes())
}
