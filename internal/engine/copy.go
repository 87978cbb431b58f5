package engine

import (
	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Copy is a copy of a shard, for readers of all its counters. Decisions wait only while their own
// shard is copied. It is not safe for concurrent use.
type Copy struct {
	At           rotating.Position      // that the copy stands for
	Ages         []errorrate.Generation // its generations, by age; of the copy's memory, until the next Read
	OverCapacity bool                   // it denies what is proven alone, and its counters count nothing

	of *Engine
	e  Engine // of one shard: it rotates, and the shard that was copied does not
}

// NewCopy returns memory for copies of shards of the engine.
func (e *Engine) NewCopy() *Copy {
	c := &Copy{of: e, e: Engine{layout: e.layout, algorithm: e.algorithm, shards: make([]shard, 1), memory: make([]uint64, e.size), Audit: audit.None}}
	c.e.OverCapacity = nil // a copy does not tell the others
	return c
}

// Read copies the i-th shard and rotates the copy to a position that is not before p. The shard stays as it is. locked, unless
// it is nil, is called while its lock is held.
func (c *Copy) Read(i int, p rotating.Position, locked func()) {
	s, r := &c.of.shards[i], c.request()
	s.mu.Lock()
	copy(c.e.memory, c.of.memory[i*c.of.size:])
	r.s.number, r.s.peaks, r.s.admitted = s.number, s.peaks, s.admitted
	if locked != nil {
		locked()
	}
	s.mu.Unlock()

	c.At = r.rotate(p)
	c.OverCapacity = c.of.DeniesProven() && r.state().Mode() == overcapacity.Over
	c.Ages = make([]errorrate.Generation, c.of.Ring.Buffers())
	for age := range c.Ages {
		c.Ages[age] = c.generation(r.s.number-int64(age), age)
	}
}

func (c *Copy) request() request { return c.e.request(0, 0) }

// generation returns a generation, by number and age. Of a shard over capacity the Bloom filters alone count.
func (c *Copy) generation(number int64, age int) (g errorrate.Generation) {
	r := c.request()
	var err error
	filterAt := r.e.layout.buffer(number)
	countersAt := filterAt + r.e.cellsFirst
	if r.e.filter.Words() > 0 {
		if g.Filter, err = bloom.Over(r.e.memory[filterAt:][:r.e.filter.Words()], r.e.filter.Probes()); err != nil {
			panic(err) // the plan has been checked
		}
	}
	if r.e.cells.Depth() > 0 && !c.OverCapacity {
		over, err := cms.Over(r.e.memory[countersAt:][:r.e.cells.Words()], r.e.cells.Depth(), r.e.cells.Width(), r.e.cells.CellBits())
		if err != nil {
			panic(err)
		}
		g.Sketch = *over
	}
	g.FilterFirst, g.Sampled = r.e.filterFirst, Sampled
	if !c.OverCapacity {
		g.Heavy = r.e.heavy.CountComplete(c.table(), age)
	}
	return g
}

// table returns the words of the table of heavy hitters.
func (c *Copy) table() []uint64 { return c.e.memory[c.request().table():][:c.e.heavy.Words()] }

// PromoteAt returns the units from which a key of the shard gets an entry in the table of heavy hitters.
func (c *Copy) PromoteAt() int64 { return window{c.request()}.promoteAt() }

// Unseen returns what decides on an unseen key in a window, with the generations of a predecessor as of the same time.
func (c *Copy) Unseen(predecessor []errorrate.Generation) errorrate.Unseen {
	return errorrate.Unseen{Rule: &c.of.Rule, At: c.At, Ages: c.Ages, Former: predecessor, Table: &c.e.heavy, Words: c.table()}
}

// UnseenBucket returns what decides on an unseen key in a token bucket.
func (c *Copy) UnseenBucket() errorrate.UnseenBucket {
	r := bucket{c.request()}
	return errorrate.UnseenBucket{Rule: &c.of.Rule, At: c.At, Times: &c.e.times, Words: r.table(), Floor: r.heads().floor}
}

// Times returns the layout of the tables of a token bucket.
func (e *Engine) Times() *timetable.Layout { return &e.times }

// Use returns how the table of a token bucket is used.
func (c *Copy) Use() timetable.Use {
	ticks, _ := c.of.Bucket.Ticks(c.At.Elapsed)
	return c.e.times.Use(bucket{c.request()}.table(), uint32(ticks), 0)
}
