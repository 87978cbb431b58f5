package engine

import (
	"iter"
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
)

// piece is a copy of what decides on a part of the keys, those of one shard or less.
type piece struct {
	*Engine
	of     int      // pieces there are
	at     Position // that the copy stands for
	ages   []Generation
	former []Generation // the same of a predecessor, or as many that are missing
	table  []uint64     // of heavy keys
	others [][]uint64   // cells of those that share the limit, by age; nil if nobody does
}

// pieces ranges over the engine and what it has replaced. Their shards have the keys in the same order:
// parts of the keys that share a shard of either are looked at one after another.
func (e *Engine) pieces(p Position, before *Engine) iter.Seq[*piece] {
	return func(yield func(*piece) bool) {
		s := &piece{Engine: e, of: len(e.shards), former: make([]Generation, e.generations)}
		memory := make([]uint64, e.size)
		s.table = memory[e.generations*e.generation:]
		var formerMemory []uint64
		if before != nil {
			s.of, formerMemory = max(s.of, len(before.shards)), make([]uint64, before.size)
		}
		if share := e.share.Load(); share != nil {
			s.others = make([][]uint64, e.generations)
			for age := range s.others {
				s.others[age] = make([]uint64, share.PartWords())
			}
		}
		for i := range s.of {
			s.at, s.ages = e.copyShard(i*len(e.shards)/s.of, p, memory, s.others)
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
func aligned(ages []Generation, later int64) []Generation {
	out := make([]Generation, len(ages))
	for age := range ages {
		if earlier := int64(age) - later; earlier >= 0 && earlier < int64(len(ages)) {
			out[age] = ages[earlier]
		}
	}
	return out
}

// Generation is a copy of what a shard holds of one span of time.
type Generation struct {
	Door  *bloom.Filter // nil where it is missing
	Cells cms.Sketch    // no cells where the limit is 1
	heavy int           // keys counted in the heavy table alone
}

// missing is true of a generation that is not kept any more, and of a bucket's.
func (g *Generation) missing() bool { return g.Door == nil }

func (g *Generation) distinct() float64 {
	if g.missing() {
		return 0
	}
	return g.Door.Distinct() + float64(g.heavy)
}

// copyShard copies the i-th shard's memory, and the cells of those that share the limit if these are wanted, and
// returns it by age, with the position that it stands for, which is not before p.
func (e *Engine) copyShard(i int, p Position, memory []uint64, others [][]uint64) (at Position, ages []Generation) {
	s := &e.shards[i]
	s.mu.Lock()
	r := request{e, s, i * e.size, 0}
	at = r.turn(p)
	copy(memory, e.memory[i*e.size:])
	for age := range others {
		copy(others[age], e.share.Load().theirs(r, age))
	}
	number := s.number
	s.mu.Unlock()

	ages = make([]Generation, e.generations)
	for age := range ages {
		words := memory[e.buffer(number-int64(age)):][:e.generation]
		if e.door.Words() > 0 {
			door, err := bloom.Over(words[:e.door.Words()], e.door.Probes())
			if err != nil {
				panic(err) // the plan has been checked
			}
			ages[age].Door = door
		}
		if e.cells.Depth() > 0 {
			cells, err := cms.Over(words[e.door.Words():], e.cells.Depth(), e.cells.Width(), e.cells.CellBits())
			if err != nil {
				panic(err)
			}
			ages[age].Cells = *cells
		}
		ages[age].heavy = e.heavy.held(memory[e.generations*e.generation:], age)
	}
	return at, ages
}

// Shards ranges over all shards: the units from which a key of the shard gets an entry in the heavy table, and
// copies of the generations at a position, by age. The copies are good until the next shard.
func (e *Engine) Shards(p Position) iter.Seq2[int64, []Generation] {
	return func(yield func(int64, []Generation) bool) {
		memory := make([]uint64, e.size)
		for i := range e.shards {
			threshold := e.heavy.threshold
			if s := &e.shards[i]; s.number == p.Generation {
				threshold += int64(s.peaks.raised)
			}
			if _, ages := e.copyShard(i, p, memory, nil); !yield(threshold, ages) {
				return
			}
		}
	}
}

// counts returns the least that a cell holds which weighs anything.
func (w *Rule) counts(p Position) uint32 {
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
