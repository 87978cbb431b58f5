package engine

import (
	"iter"
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// piece is a copy of what decides on a part of the keys, those of one shard or less.
type piece struct {
	e      *Engine
	of     int               // pieces there are
	at     rotating.Position // that the copy stands for
	ages   []errorrate.Generation
	former []errorrate.Generation // the same of a predecessor, or as many that are missing
	table  []uint64               // of heavy keys
	others [][]uint64             // cells of those that share the limit, by age; nil if nobody does
	spares bool                   // new keys are not denied
	copy   request                // of no key
}

// pieces ranges over the engine and what it has replaced. Their shards have the keys in the same order:
// parts of the keys that share a shard of either are looked at one after another.
func pieces(e *Engine, p rotating.Position, before *Engine) iter.Seq[*piece] {
	return func(yield func(*piece) bool) {
		c := newCopy(e)
		s := &piece{e: e, of: len(e.shards), former: make([]errorrate.Generation, e.Ring.Buffers())}
		s.copy = c.request(0, 0)
		s.table = c.memory[e.Ring.Buffers()*e.generation:][:e.heavy.Words()]
		var former *shardCopy
		if before != nil {
			s.of, former = max(s.of, len(before.shards)), newCopy(before)
		}
		if share := e.shared(); share != nil {
			s.others = make([][]uint64, e.Ring.Buffers())
			for age := range s.others {
				s.others[age] = make([]uint64, share.PartWords())
			}
		}
		for i := range s.of {
			s.at, s.ages = copyShard(e, i*len(e.shards)/s.of, p, c, s.others)
			s.spares = e.Spares() && c.request(0, 0).state().mode == sparing
			if before != nil {
				last, f := copyShard(before, i*len(before.shards)/s.of, rotating.Position{Generation: math.MinInt64}, former, nil)
				s.former = errorrate.Aligned(f, s.at.Generation-last.Generation)
			}
			if !yield(s) {
				return
			}
		}
	}
}

// shardCopy is an engine of one shard, for copies: they rotate, and the shards do not.
type shardCopy struct{ Engine }

func newCopy(e *Engine) *shardCopy {
	c := &shardCopy{Engine{layout: e.layout, algorithm: e.algorithm, shards: make([]shard, 1), memory: make([]uint64, e.size), audit: none}}
	c.OverCapacity = nil // a copy does not tell the others
	return c
}

// copyShard copies the i-th shard, and the cells of those that share the limit if these are wanted. It returns the
// copy by age, rotated to a position that is not before p; the shard itself stays as it is.
func copyShard(e *Engine, i int, p rotating.Position, to *shardCopy, others [][]uint64) (at rotating.Position, ages []errorrate.Generation) {
	s, r := &e.shards[i], to.request(0, 0)
	s.mu.Lock()
	copy(to.memory, e.memory[i*e.size:])
	r.s.number, r.s.peaks, r.s.admitted = s.number, s.peaks, s.admitted
	for age := range others {
		e.shared().copyTheirs(others[age], e.request(i, 0), max(p.Generation, s.number)-int64(age))
	}
	s.mu.Unlock()

	at = r.rotate(p)
	ages = make([]errorrate.Generation, e.Ring.Buffers())
	for age := range ages {
		ages[age] = r.copied(r.s.number-int64(age), age, e.Spares() && r.state().mode == sparing)
	}
	return at, ages
}

// copied returns a copy's generation, by number and age. Of a shard that spares the Bloom filters alone count.
func (r request) copied(number int64, age int, spares bool) (g errorrate.Generation) {
	var err error
	door := r.first + r.e.layout.buffer(number)
	cells := door + r.e.cellsFirst
	if r.e.door.Words() > 0 {
		if g.Filter, err = bloom.Over(r.e.memory[door:][:r.e.door.Words()], r.e.door.Probes()); err != nil {
			panic(err) // the plan has been checked
		}
	}
	if r.e.cells.Depth() > 0 && !spares {
		over, err := cms.Over(r.e.memory[cells:][:r.e.cells.Words()], r.e.cells.Depth(), r.e.cells.Width(), r.e.cells.CellBits())
		if err != nil {
			panic(err)
		}
		g.Sketch = *over
	}
	g.FilterFirst, g.Sampled = r.e.guarded, Sampled
	if !spares {
		g.Heavy = r.e.heavy.CountComplete(r.e.memory[r.table():][:r.e.heavy.Words()], age)
	}
	return g
}

// Shards ranges over all shards: the units from which a key of the shard gets an entry in the heavy table, and
// copies of the generations at a position, by age. The copies are good until the next shard.
func (e *Engine) Shards(p rotating.Position) iter.Seq2[int64, []errorrate.Generation] {
	return func(yield func(int64, []errorrate.Generation) bool) {
		c := newCopy(e)
		for i := range e.shards {
			_, ages := copyShard(e, i, p, c, nil)
			if threshold := e.promoteAt + int64(c.shards[0].peaks.raised); !yield(threshold, ages) {
				return
			}
		}
	}
}
