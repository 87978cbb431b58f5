package engine

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/spec"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Share is an engine's part in a limit that several hold together, see package sharing. Beside what the engine
// counts in, it keeps for every generation a sketch of cells of what the engine has admitted, its
// own cells, and one of what all others have. Requests are held against the sum of both.
type Share struct {
	engine *Engine
	blocks uint64 // of a shard
	all    uint64 // of all shards
	lane   uint64 // the bits of a hash that choose a lane: where in a word a cell begins
	max    uint64 // all bits of a cell
	hash   uint64 // of shareText

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

// ShareText is hashed to tell one hash or key from another.
const ShareText = "sketchlimit: the hash of a share"

// Share makes the engine, of a window, one of several that hold their limit together, for keys under a hash that gives
// ShareText this sum. Called again, it returns the same Share.
func (e *Engine) Share(hash uint64) *Share {
	s := &Share{engine: e, hash: hash, blocks: uint64(max(1, e.generation/blockWords))}
	s.all = uint64(len(e.shards)) * s.blocks
	bits := 8
	for 1<<bits-1 < 2*e.Limit { // so that a sum does not stop at the limit itself
		bits *= 2
	}
	s.lane, s.max = 64-uint64(bits), 1<<bits-1
	s.hot = make([]uint64, len(e.shards)*int(s.blocks)*blockWords)
	s.cold = make([]uint64, len(e.shards)*e.Ring.Buffers()*2*s.PartWords())
	x := external(s)
	e.external.CompareAndSwap(nil, &x)
	return e.shared()
}

// shared returns the engine's part in a limit that several hold together, or nil.
func (e *Engine) shared() *Share {
	if x := e.external.Load(); x != nil {
		s, _ := (*x).(*Share)
		return s
	}
	return nil
}

// Layout describes all that two Shares must have in common to read each other's cells.
func (s *Share) Layout() string {
	e := s.engine
	return fmt.Sprintf("%d per %v in %d generations, %d parts of %d words each, %d bits a cell, hash %08x, seed %08x",
		e.Limit, e.Span(), e.Ring.Buffers(), s.Parts(), s.PartWords(), s.CellBits(), uint32(s.hash>>32), uint32(keyhash.Derive(e.seed, "name of a share")))
}

// Parts returns the number of parts: the engine's shards.
func (s *Share) Parts() int { return len(s.engine.shards) }

// PartWords returns the number of words of one part, in one generation.
func (s *Share) PartWords() int { return int(s.blocks) * halfWords }

// CellBits returns the number of bits of a cell: 8, 16 or 32.
func (s *Share) CellBits() int { return 64 - int(s.lane) }

// Generations returns how many generations are kept.
func (s *Share) Generations() int { return s.engine.Ring.Buffers() }

// Bytes returns the memory that sharing takes beside the engine.
func (s *Share) Bytes() int {
	return int(unsafe.Sizeof(*s)) + spec.HeapBytes(8*len(s.hot)) + spec.HeapBytes(8*len(s.cold))
}

// Own copies a part's own cells of a generation, by its number, to PartWords words, at a position. It
// returns false if the generation is not kept.
func (s *Share) Own(now rotating.Position, part int, generation int64, to []uint64) bool {
	r, age, ok := s.lock(now, part, generation)
	defer r.s.mu.Unlock()
	if !ok {
		return false
	}
	if age > 0 {
		copy(to, s.own(r, age))
		return true
	}
	for hot := s.part(r); len(hot) > 0; hot, to = hot[blockWords:], to[halfWords:] {
		copy(to[:halfWords], hot)
	}
	return true
}

// CellCount is the count of a cell, by its index in a part.
type CellCount struct {
	Cell  int
	Count uint32
}

// AddOthers adds a few counts to the others' cells of a part, in a generation, under the shard's lock. It
// returns false if the generation is not kept.
func (s *Share) AddOthers(now rotating.Position, part int, generation int64, counts []CellCount) bool {
	r, age, ok := s.lock(now, part, generation)
	defer r.s.mu.Unlock()
	if !ok {
		return false
	}
	r.s.last.Clear()
	cold, hot := s.theirs(r, age), s.part(r)
	lanes := 64 / s.CellBits()
	for _, c := range counts {
		w, lane := c.Cell/lanes, uint64(c.Cell%lanes*s.CellBits())
		cold[w] = s.add(cold[w], lane, uint64(c.Count))
		w = w/halfWords*blockWords + halfWords + w%halfWords
		hot[w] = s.add(hot[w], lane, uint64(c.Count))
	}
	return true
}

// SetOthers replaces the others' cells of a part, in a generation, by those in PartWords
// words. It returns false if the generation is not kept.
func (s *Share) SetOthers(now rotating.Position, part int, generation int64, words []uint64) bool {
	r, age, ok := s.lock(now, part, generation)
	defer r.s.mu.Unlock()
	if ok {
		copy(s.theirs(r, age), words)
		// Decisions at any time from weighed on use these weights, also at times before the
		// clock's.
		s.weigh(r, s.engine.Timeline.Unpack(s.weighed.Load()))
		r.s.last.Clear()
	}
	return ok
}

// Weigh brings up to date what the others' cells weigh, at a position. Until the next Weigh, a decision uses
// these weights; if they leave too few units, it reads the cells of all generations.
func (s *Share) Weigh(now rotating.Position) {
	word := s.engine.Timeline.Pack(now)
	for w := s.weighed.Load(); w < word && !s.weighed.CompareAndSwap(w, word); w = s.weighed.Load() {
	}
	p := s.engine.Timeline.Unpack(max(word, s.weighed.Load())) // a clock that stepped back is not trusted with less
	for part := range s.engine.shards {
		r, _, _ := s.lock(now, part, p.Generation)
		s.weigh(r, p)
		r.s.mu.Unlock()
	}
}

// weigh is Weigh for the shard whose lock the caller holds.
func (s *Share) weigh(r request, p rotating.Position) {
	if p.Generation != r.s.number {
		p = r.clamp(p)
	}
	hot := s.part(r)
	for w := range s.PartWords() {
		var sum uint64
		for age := range r.e.Ring.Buffers() {
			cells := s.theirs(r, age)[w]
			for lane := uint64(0); cells>>lane != 0 && lane < 64; lane += uint64(s.CellBits()) {
				if c := cells >> lane & s.max; c < s.max { // or more, for all that is known
					sum = s.add(sum, lane, uint64(r.e.Weighted(int64(c), age, p.Elapsed)))
				} else {
					sum = s.add(sum, lane, c)
				}
			}
		}
		hot[w/halfWords*blockWords+halfWords+w%halfWords] = sum
	}
}

// add adds n to one cell of a word.
func (s *Share) add(word, lane, n uint64) uint64 {
	cell := s.max << lane
	return word&^cell | min(word&cell>>lane+n, s.max)<<lane
}

// lock locks a part's shard, rotates it to the position's generation, and returns the age of
// another one, and whether it is kept.
func (s *Share) lock(now rotating.Position, part int, generation int64) (r request, age int, ok bool) {
	r = s.engine.request(part, 0)
	r.s.mu.Lock()
	r.rotate(now)
	back := r.s.number - generation
	return r, int(back), uint64(back) < uint64(r.e.Ring.Buffers())
}

// part returns the hot words of the request's shard.
func (s *Share) part(r request) []uint64 {
	n := int(s.blocks) * blockWords
	return s.hot[r.first/r.e.size*n:][:n]
}

// own returns the own cells of an age above 0.
func (s *Share) own(r request, age int) []uint64 { return s.cells(r, age, 0) }

// theirs returns the others' cells of an age.
func (s *Share) theirs(r request, age int) []uint64 { return s.cells(r, age, 1) }

// copyTheirs copies the others' cells of a generation, by its number; those of one that is not kept are 0.
func (s *Share) copyTheirs(to []uint64, r request, number int64) {
	if age := r.s.number - number; uint64(age) < uint64(r.e.Ring.Buffers()) {
		copy(to, s.theirs(r, int(age)))
	} else {
		clear(to)
	}
}

func (s *Share) cells(r request, age, whose int) []uint64 {
	n, i := s.PartWords(), 2*r.e.Ring.Buffer(r.s.number-int64(age))+whose
	return s.cold[(r.first/r.e.size*2*r.e.Ring.Buffers()+i)*n:][:n]
}

// rotate lets generations expire, ≥ 1, after the shard has rotated. What others have weighed bounds what they weigh now,
// unless all of that has expired.
func (s *Share) rotate(r request, expired int) {
	if expired < r.e.Ring.Buffers() {
		own := s.own(r, expired)
		for hot := s.part(r); len(own) > 0; hot, own = hot[blockWords:], own[halfWords:] {
			copy(own[:halfWords], hot)
			clear(hot[:halfWords])
		}
	} else {
		clear(s.part(r))
	}
	for age := range expired {
		clear(s.own(r, age))
		clear(s.theirs(r, age))
	}
}

// block returns the number of a key's block among those of all shards, which is in the
// key's own shard: the two are chosen alike.
func (s *Share) block(key uint64) uint64 {
	return key >> 32 * s.all >> 32
}

// place returns the block of a key's cells. Its hash has their lanes, six bits a row.
func (s *Share) place(key uint64) *[blockWords]uint64 {
	return (*[blockWords]uint64)(s.hot[s.block(key)*blockWords:])
}

// bound returns what the others' units of a key weigh at most, at a position's word.
func (s *Share) bound(key uint64, word int64) (units int64, ok bool) {
	if word < s.weighed.Load() {
		return int64(s.max), true // they were weighed for a later time
	}
	return int64(s.least(s.place(key)[halfWords:], key)), true
}

// count reads what the others have admitted of a key in a generation, by its number.
func (s *Share) count(number int64, key uint64) int64 {
	r := s.engine.request(s.engine.Shard(key), key)
	age := r.s.number - number
	if uint64(age) >= uint64(r.e.Ring.Buffers()) {
		return 0 // not begun, or gone
	}
	c := s.least(s.theirs(r, int(age))[s.block(r.h)%s.blocks*halfWords:], r.h)
	if c == s.max {
		return 1 << 40 // or more than a cell can hold
	}
	return int64(c)
}

// least returns the least of a key's cells.
func (s *Share) least(half []uint64, lanes uint64) uint64 {
	_ = half[halfWords-1]
	return min(
		half[0]>>(lanes&s.lane&63)&s.max,
		half[1]>>(lanes>>6&s.lane&63)&s.max,
		half[2]>>(lanes>>12&s.lane&63)&s.max,
		half[3]>>(lanes>>18&s.lane&63)&s.max)
}

// admit raises a key's own cells to its count in the current generation. The count is what
// the limiter reads, all but the key's own: no cell rises further
// than the largest count among its keys.
func (s *Share) admit(key uint64, count int64) {
	half := s.place(key)
	s.raise(&half[0], key&s.lane&63, uint64(count))
	s.raise(&half[1], key>>6&s.lane&63, uint64(count))
	s.raise(&half[2], key>>12&s.lane&63, uint64(count))
	s.raise(&half[3], key>>18&s.lane&63, uint64(count))
}

func (s *Share) raise(word *uint64, lane, least uint64) {
	old := *word
	cell := old >> lane & s.max
	*word = old + (max(cell, least)-cell)<<lane
}
