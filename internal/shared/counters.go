// Package shared keeps the counters of a limit that several engines hold together: what
// each has admitted, and what the others have. Package sharing is what users see of it.
package shared

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Counters are an engine's part in a limit that several hold together, see package
// sharing. Beside what the engine counts in, they keep for every generation a sketch of
// cells of what the engine has admitted, its own cells, and one of what all others
// have. Requests are held against the sum of both.
//
// Their parts are the shards that the engine has at first, and turn with them, under
// their locks. Where the engine may be replaced by one of other shards, parts have
// locks of their own, and turn when they are next used in a later generation.
type Counters struct {
	rule   spec.Rule
	seed   uint64
	latest func() *engine.Engine
	shards engine.Shards // with which the parts turn
	parts  []part        // that do not turn with shards, or nil
	blocks uint64        // of a shard
	all    uint64        // of all shards
	lane   uint64        // the bits of a hash that choose a lane: where in a word a cell begins
	max    uint64        // all bits of a cell
	hash   uint64        // of shareText

	// hot is what decisions look at: blocks of one cache line, of which the first half
	// is own cells of the current generation. The second half is the others' cells, all
	// generations in one: what they weighed when they were last weighed, which
	// bounds what they weigh now, because a generation's weight only falls. So a
	// decision takes one cache line more, whatever the number of generations. For
	// that, a key has the same cells in all of them.
	hot []uint64
	// cold is, for each generation of a shard, the own cells (but for the current
	// generation's) and those of the others.
	cold    []uint64
	weighed atomic.Int64 // a position's word; hot bounds what the others' cells weigh from there on; never lowered
}

const (
	blockWords = 8
	halfWords  = blockWords / 2 // and rows: a key has a cell in each word of a half
)

// part is the state of a part that does not turn with a shard. Its lock is the last
// that a goroutine takes.
type part struct {
	mu     sync.Mutex
	number int64 // of the current generation
	_      [48]byte
}

// Text is hashed to tell one hash or key from another.
const Text = "sketchlimit: the hash of a share"

// Shape is how many parts there are, and what a generation of an engine's shard takes:
// those of the first engine of a limiter, which are the same in all that share a limit.
type Shape struct{ Parts, GenerationWords int }

// ShapeOf returns that of a first engine.
func ShapeOf(e *engine.Engine) Shape { return Shape{engine.ShardsOf(e).Count(), e.GenerationWords()} }

// New makes an engine, of a window, one of several that hold their limit together, for
// keys under a hash that gives Text this sum. Called again, it returns the same
// Counters.
func New(e *engine.Engine, hash uint64) *Counters {
	s := newCounters(e, ShapeOf(e), hash)
	s.shards, s.latest = engine.ShardsOf(e), func() *engine.Engine { return e }
	e.SetOthers(s)
	return Of(e)
}

// NewGrowing is New for the latest engine of a limiter that grows, which is not
// replaced meanwhile.
func NewGrowing(latest func() *engine.Engine, first Shape, hash uint64) *Counters {
	e := latest()
	s := newCounters(e, first, hash)
	s.latest, s.parts = latest, make([]part, first.Parts)
	for i := range s.parts {
		s.parts[i].number = math.MinInt64 / 2 // before all others
	}
	e.SetOthers(s)
	return Of(e)
}

func newCounters(e *engine.Engine, first Shape, hash uint64) *Counters {
	s := &Counters{rule: e.Rule, seed: e.Seed(), hash: hash, blocks: uint64(max(1, first.GenerationWords/blockWords))}
	s.all = uint64(first.Parts) * s.blocks
	bits := 8
	for 1<<bits-1 < 2*e.Limit { // so that a sum does not stop at the limit itself
		bits *= 2
	}
	s.lane, s.max = 64-uint64(bits), 1<<bits-1
	s.hot = make([]uint64, first.Parts*int(s.blocks)*blockWords)
	s.cold = make([]uint64, first.Parts*e.Ring.Buffers()*2*s.PartWords())
	return s
}

// Of returns an engine's part in a limit that several hold together, or nil.
func Of(e *engine.Engine) *Counters {
	s, _ := e.Others().(*Counters)
	return s
}

// Layout describes all that two Counters must have in common to read each other's cells.
func (s *Counters) Layout() string {
	r := &s.rule
	return fmt.Sprintf("%d per %v in %d generations, %d parts of %d words each, %d bits a cell, hash %08x, seed %08x",
		r.Limit, r.Span(), s.Generations(), s.Parts(), s.PartWords(), s.CellBits(), uint32(s.hash>>32), uint32(keyhash.Derive(s.seed, "name of a share")))
}

// Parts returns the number of parts.
func (s *Counters) Parts() int { return int(s.all / s.blocks) }

// PartWords returns the number of words of one part, in one generation.
func (s *Counters) PartWords() int { return int(s.blocks) * halfWords }

// CellBits returns the number of bits of a cell: 8, 16 or 32.
func (s *Counters) CellBits() int { return 64 - int(s.lane) }

// Generations returns how many generations are kept.
func (s *Counters) Generations() int { return s.rule.Ring.Buffers() }

// Bytes returns the memory that sharing takes beside the engine.
func (s *Counters) Bytes() int {
	return int(unsafe.Sizeof(*s)) + spec.HeapBytes(int(unsafe.Sizeof(part{}))*len(s.parts)) + spec.HeapBytes(8*len(s.hot)) + spec.HeapBytes(8*len(s.cold))
}

// Own copies a part's own cells of a generation, by its number, to PartWords words, at
// a position. It returns false if the generation is not kept.
func (s *Counters) Own(now rotating.Position, part int, generation int64, to []uint64) (ok bool) {
	s.hold(part, now, func(current int64) {
		switch age := current - generation; {
		case age == 0:
			for hot := s.part(part); len(hot) > 0; hot, to = hot[blockWords:], to[halfWords:] {
				copy(to[:halfWords], hot)
			}
			ok = true
		case s.kept(age):
			copy(to, s.cells(part, generation, own))
			ok = true
		}
	})
	return ok
}

// CellCount is the count of a cell, by its index in a part.
type CellCount struct {
	Cell  int
	Count uint32
}

// AddOthers adds a few counts to the others' cells of a part, in a generation, under
// the shard's lock. It returns false if the generation is not kept.
func (s *Counters) AddOthers(now rotating.Position, part int, generation int64, counts []CellCount) (ok bool) {
	s.hold(part, now, func(current int64) {
		if ok = s.kept(current - generation); !ok {
			return
		}
		cold, hot := s.cells(part, generation, others), s.part(part)
		lanes := 64 / s.CellBits()
		for _, c := range counts {
			w, lane := c.Cell/lanes, uint64(c.Cell%lanes*s.CellBits())
			cold[w] = s.add(cold[w], lane, uint64(c.Count))
			w = w/halfWords*blockWords + halfWords + w%halfWords
			hot[w] = s.add(hot[w], lane, uint64(c.Count))
		}
	})
	s.forgetDenials(now, part)
	return ok
}

// SetOthers replaces the others' cells of a part, in a generation, by those in PartWords
// words. It returns false if the generation is not kept.
func (s *Counters) SetOthers(now rotating.Position, part int, generation int64, words []uint64) (ok bool) {
	s.hold(part, now, func(current int64) {
		if ok = s.kept(current - generation); !ok {
			return
		}
		copy(s.cells(part, generation, others), words)
		// Decisions at any time from weighed on use these weights, also at times before
		// the clock's.
		s.weigh(part, current, s.rule.Timeline.Unpack(s.weighed.Load()))
	})
	s.forgetDenials(now, part)
	return ok
}

// Weigh brings up to date what the others' cells weigh, at a position. Until the next
// Weigh, a decision uses these weights; if they leave too few units, it reads the cells
// of all generations.
func (s *Counters) Weigh(now rotating.Position) {
	word := s.rule.Timeline.Pack(now)
	for w := s.weighed.Load(); w < word && !s.weighed.CompareAndSwap(w, word); w = s.weighed.Load() {
	}
	p := s.rule.Timeline.Unpack(max(word, s.weighed.Load())) // a clock that stepped back is not trusted with less
	for part := range s.Parts() {
		s.hold(part, now, func(current int64) { s.weigh(part, current, p) })
	}
}

// weigh is Weigh for a shard whose lock the caller holds and whose generation has a
// number.
func (s *Counters) weigh(part int, current int64, p rotating.Position) {
	if current > p.Generation { // a request that came later has rotated it
		p = rotating.Position{Generation: current}
	}
	hot := s.part(part)
	for w := range s.PartWords() {
		var sum uint64
		for age := range s.Generations() {
			cells := s.cells(part, current-int64(age), others)[w]
			for lane := uint64(0); cells>>lane != 0 && lane < 64; lane += uint64(s.CellBits()) {
				if c := cells >> lane & s.max; c < s.max { // or more, for all that is known
					sum = s.add(sum, lane, uint64(s.rule.Weighted(int64(c), age, p.Elapsed)))
				} else {
					sum = s.add(sum, lane, c)
				}
			}
		}
		hot[w/halfWords*blockWords+halfWords+w%halfWords] = sum
	}
}

// add adds n to one cell of a word.
func (s *Counters) add(word, lane, n uint64) uint64 {
	cell := s.max << lane
	return word&^cell | min(word&cell>>lane+n, s.max)<<lane
}

// hold calls f with the number of a part's generation while nobody else uses the part,
// which turns to a position before.
func (s *Counters) hold(part int, now rotating.Position, f func(current int64)) {
	if s.parts == nil {
		s.shards.Hold(part, now, f)
		return
	}
	p := s.lock(part, now.Generation)
	defer p.mu.Unlock()
	f(p.number)
}

// notLater is no later generation than any part's.
const notLater = math.MinInt64

// lock locks a part that does not turn with a shard, and turns it to a generation if
// that is later.
func (s *Counters) lock(part int, number int64) *part {
	p := &s.parts[part]
	p.mu.Lock()
	if number > p.number {
		s.turn(part, number, s.rule.Ring.Expired(p.number, number))
		p.number = number
	}
	return p
}

// forgetDenials lets the keys of a part ask again that have been remembered to have
// nothing left.
func (s *Counters) forgetDenials(now rotating.Position, part int) {
	shards := engine.ShardsOf(s.latest())
	first, end := part*shards.Count()/s.Parts(), ((part+1)*shards.Count()+s.Parts()-1)/s.Parts()
	for i := first; i < end; i++ {
		shards.Hold(i, now, func(int64) { shards.ForgetDenials(i) })
	}
}

// kept reports whether a generation of an age is kept.
func (s *Counters) kept(age int64) bool { return uint64(age) < uint64(s.Generations()) }

// part returns the hot words of a part.
func (s *Counters) part(part int) []uint64 {
	n := int(s.blocks) * blockWords
	return s.hot[part*n:][:n]
}

// Whose cells are meant: a generation has both.
const (
	own    = iota // of one that is not the current one
	others        // of all others that hold the limit
)

// cells returns the cells of a part in a generation that is kept, by its number.
func (s *Counters) cells(part int, generation int64, whose int) []uint64 {
	n, i := s.PartWords(), 2*s.rule.Ring.Buffer(generation)+whose
	return s.cold[(part*2*s.Generations()+i)*n:][:n]
}

// CopyOthers copies the others' cells of a part, of all generations by age, as of one
// by its number or a later one; those of generations that have not begun are 0. The
// caller holds the shard's lock.
func (s *Counters) CopyOthers(to [][]uint64, part int, number int64) {
	var current int64
	if s.parts == nil {
		current = s.shards.Current(part)
	} else {
		p := s.lock(part, notLater)
		defer p.mu.Unlock()
		current = p.number
	}
	for age := range to {
		if generation := max(number, current) - int64(age); s.kept(current - generation) {
			copy(to[age], s.cells(part, generation, others))
		} else {
			clear(to[age])
		}
	}
}

// Blocks returns the blocks of a part: a key has all its cells in one of them.
func (s *Counters) Blocks() int { return int(s.blocks) }

// Rotate implements engine.External.
func (s *Counters) Rotate(part int, number int64, expired int) {
	if s.parts == nil {
		s.turn(part, number, expired)
	}
}

// turn lets generations of a part expire. What others have weighed bounds what they
// weigh now, unless all of that has expired.
func (s *Counters) turn(part int, number int64, expired int) {
	hot := s.part(part)
	if expired < s.Generations() {
		for last := s.cells(part, number-int64(expired), own); len(last) > 0; hot, last = hot[blockWords:], last[halfWords:] {
			copy(last[:halfWords], hot)
			clear(hot[:halfWords])
		}
	} else {
		clear(hot)
	}
	for age := range int64(expired) {
		clear(s.cells(part, number-age, own))
		clear(s.cells(part, number-age, others))
	}
}

// block returns the number of a key's block among those of all shards, which is in the
// key's own shard: the two are chosen alike.
func (s *Counters) block(key uint64) uint64 {
	return key >> 32 * s.all >> 32
}

// partOf returns the part of a key.
func (s *Counters) partOf(key uint64) int { return int(s.block(key) / s.blocks) }

// place returns the block of a key's cells. Its hash has their lanes, six bits a row.
func (s *Counters) place(key uint64) *[blockWords]uint64 {
	return (*[blockWords]uint64)(s.hot[s.block(key)*blockWords:])
}

// Bound implements engine.External: what the others' units of a key weigh at most.
func (s *Counters) Bound(key uint64, word int64) (units int64, ok bool) {
	if word < s.weighed.Load() {
		return int64(s.max), true // they were weighed for a later time
	}
	if s.parts != nil {
		p := s.lock(s.partOf(key), notLater)
		defer p.mu.Unlock()
	}
	return int64(s.least(s.place(key)[halfWords:], key)), true
}

// Count implements engine.External: what the others have admitted of a key.
func (s *Counters) Count(number int64, key uint64) int64 {
	part, none, current := s.partOf(key), int64(0), int64(0)
	if s.parts == nil {
		current = s.shards.Current(part)
	} else { // it does not turn: whoever looks ahead asks as well
		p := s.lock(part, notLater)
		defer p.mu.Unlock()
		if current = p.number; number < current {
			none = unknown
		}
	}
	if !s.kept(current - number) {
		return none // not begun, or gone
	}
	c := s.least(s.cells(part, number, others)[s.block(key)%s.blocks*halfWords:], key)
	if c == s.max {
		return unknown
	}
	return int64(c)
}

// unknown is a count of more than a cell can hold, or of a generation that a part has
// left behind and a shard has not.
const unknown = 1 << 40

// least returns the least of a key's cells.
func (s *Counters) least(half []uint64, lanes uint64) uint64 {
	_ = half[halfWords-1]
	return min(
		half[0]>>(lanes&s.lane&63)&s.max,
		half[1]>>(lanes>>6&s.lane&63)&s.max,
		half[2]>>(lanes>>12&s.lane&63)&s.max,
		half[3]>>(lanes>>18&s.lane&63)&s.max)
}

// Admit implements engine.External: it raises a key's own cells to its count in a
// generation. The count is what the limiter reads, all but the key's own: no cell rises
// further than the largest count among its keys.
func (s *Counters) Admit(number int64, key uint64, count int64) {
	half := s.place(key)[:halfWords]
	if s.parts != nil {
		part := s.partOf(key)
		p := s.lock(part, number)
		defer p.mu.Unlock()
		if age := p.number - number; age > 0 { // of a time that the part has left behind
			if !s.kept(age) {
				return
			}
			half = s.cells(part, number, own)[s.block(key)%s.blocks*halfWords:][:halfWords]
		}
	}
	s.raise(&half[0], key&s.lane&63, uint64(count))
	s.raise(&half[1], key>>6&s.lane&63, uint64(count))
	s.raise(&half[2], key>>12&s.lane&63, uint64(count))
	s.raise(&half[3], key>>18&s.lane&63, uint64(count))
}

func (s *Counters) raise(word *uint64, lane, least uint64) {
	old := *word
	cell := old >> lane & s.max
	*word = old + (max(cell, least)-cell)<<lane
}
