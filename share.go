package sketchlimit

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/rotating"
)

// Share is a limiter's part in a limit that several limiters hold together, on several
// machines say. Beside the doorkeepers, sketches and heavy keys that the limiter counts
// in, it keeps for every generation a sketch of cells of what the limiter has admitted, its
// own cells, and one of what all others have, which whoever carries counts between the
// limiters puts there. Requests are held against the sum of both.
//
// The limiters' own cells, added up one by one, are a sketch of all their traffic: the least
// of a key's cells is no less than what all of them have admitted of it. Doorkeepers do not
// add up, so the cells hold first units, too.
//
// Cells come in parts, the limiter's shards, of [Share.PartWords] words each; a word holds
// 64 / [Share.CellBits] of them, the first in its lowest bits. A count that a cell cannot
// hold stays at its largest value.
//
// The cells take as much as half of the limiter's own generations, and hold more: first units, which
// doorkeepers keep out of sketches, and all of heavy keys. A limiter that is to be one of several
// needs three times the Config.Keys to be about as good as one alone.
//
// It is made by [Limiter.Share]; package redislimit carries the counts through Redis. A
// Share is safe for concurrent use; so is what it adds to the limiter's decisions.
type Share struct {
	limiter *Limiter
	blocks  uint64 // of a shard
	all     uint64 // of all shards
	lane    uint64 // the bits of a hash that choose a lane: where in a word a cell begins
	max     uint64 // all bits of a cell

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

// Share makes the limiter one of several that hold their limit together. All of them must
// be built from the same Config with the same Seed; [Share.Layout] tells whether they were.
// What the limiter has admitted before stays unknown to the others. TokenBucket is
// refused, because times do not add up, and so is Overload Grow, with an error that is
// [errors.ErrUnsupported]. Called again, it returns the same Share.
func (l *Limiter) Share() (*Share, error) {
	switch {
	case l.bucket.burst > 0:
		return nil, fmt.Errorf("sketchlimit: Share with Algorithm %v, must be a window: %w", TokenBucket, errors.ErrUnsupported)
	case l.growth != nil:
		return nil, fmt.Errorf("sketchlimit: Share with Overload %v, must be %v: %w", Grow, Deny, errors.ErrUnsupported)
	}
	s := &Share{limiter: l, blocks: uint64(max(1, l.generation/blockWords))}
	s.all = uint64(len(l.shards)) * s.blocks
	bits := 8
	for 1<<bits-1 < 2*l.limit { // so that a sum does not stop at the limit itself
		bits *= 2
	}
	s.lane, s.max = 64-uint64(bits), 1<<bits-1
	s.hot = make([]uint64, len(l.shards)*int(s.blocks)*blockWords)
	s.cold = make([]uint64, len(l.shards)*l.generations*2*s.PartWords())
	l.share.CompareAndSwap(nil, s)
	l.beside.Store(true) // by whoever comes second as well: his decisions count from here on
	return l.share.Load(), nil
}

// Layout describes all that two Shares must have in common to read each other's cells: the
// Config, and without telling it the Seed.
func (s *Share) Layout() string {
	l := s.limiter
	return fmt.Sprintf("%d per %v in %d generations, %d parts of %d words each, %d bits a cell, seed %08x",
		l.limit, l.Window(), l.generations, s.Parts(), s.PartWords(), s.CellBits(), uint32(mix(l.seed, 1)))
}

// Parts returns the number of parts.
func (s *Share) Parts() int { return len(s.limiter.shards) }

// PartWords returns the number of words of one part, in one generation.
func (s *Share) PartWords() int { return int(s.blocks) * halfWords }

// CellBits returns the number of bits of a cell: 8, 16 or 32.
func (s *Share) CellBits() int { return 64 - int(s.lane) }

// Generations returns the number of the current generation, and how many are kept:
// that one and those before it.
func (s *Share) Generations() (current int64, kept int) {
	return s.limiter.windows.Now().Generation, s.limiter.generations
}

// MemoryBytes returns the memory that sharing takes beside [Limiter.MemoryBytes].
func (s *Share) MemoryBytes() int {
	return int(unsafe.Sizeof(*s)) + heapBytes(8*len(s.hot)) + heapBytes(8*len(s.cold))
}

// Own copies a part's own cells of a generation, by its number, to PartWords words. It
// returns false if the generation is not kept.
func (s *Share) Own(part int, generation int64, to []uint64) bool {
	r, age, ok := s.lock(part, generation)
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

// AddOthers adds counts to the others' cells of a part, in a generation. Each count comes
// with the index of its cell in the part. It returns false if the generation is not kept,
// and then does not range over counts. It also returns false if the generation passes
// meanwhile, and then ranges no further.
//
// Counts are added some dozens at a time. No lock is held while counts is ranged over, so
// counts may use the limiter and the Share.
func (s *Share) AddOthers(part int, generation int64, counts iter.Seq2[int, uint32]) bool {
	var few [64]cellCount
	if !s.addOthers(part, generation, nil) {
		return false
	}
	n := 0
	for cell, count := range counts {
		few[n] = cellCount{cell, count}
		if n++; n < len(few) {
			continue
		}
		if !s.addOthers(part, generation, few[:n]) {
			return false
		}
		n = 0
	}
	return s.addOthers(part, generation, few[:n])
}

// cellCount is the count of a cell, by its index in a part.
type cellCount struct {
	cell  int
	count uint32
}

// addOthers is AddOthers, of a few counts, under the shard's lock.
func (s *Share) addOthers(part int, generation int64, counts []cellCount) bool {
	r, age, ok := s.lock(part, generation)
	defer r.s.mu.Unlock()
	if !ok {
		return false
	}
	r.s.last.forget()
	cold, hot := s.theirs(r, age), s.part(r)
	lanes := 64 / s.CellBits()
	for _, c := range counts {
		w, lane := c.cell/lanes, uint64(c.cell%lanes*s.CellBits())
		cold[w] = s.add(cold[w], lane, uint64(c.count))
		w = w/halfWords*blockWords + halfWords + w%halfWords
		hot[w] = s.add(hot[w], lane, uint64(c.count))
	}
	return true
}

// SetOthers replaces the others' cells of a part, in a generation, by those in PartWords
// words. It returns false if the generation is not kept.
func (s *Share) SetOthers(part int, generation int64, words []uint64) bool {
	r, age, ok := s.lock(part, generation)
	defer r.s.mu.Unlock()
	if ok {
		copy(s.theirs(r, age), words)
		// Decisions at any time from weighed on use these weights, also at times before the
		// clock's.
		s.weigh(r, s.limiter.windows.unpack(s.weighed.Load()))
		r.s.last.forget()
	}
	return ok
}

// Weigh brings up to date what the others' cells weigh. Until the next Weigh, a decision uses
// these weights; if they leave too few units, it reads the cells of all generations. Weigh
// takes a millisecond or two for each MiB of cells, one part after another.
func (s *Share) Weigh() {
	word := s.limiter.windows.nowWord()
	for w := s.weighed.Load(); w < word && !s.weighed.CompareAndSwap(w, word); w = s.weighed.Load() {
	}
	p := s.limiter.windows.unpack(max(word, s.weighed.Load())) // a clock that stepped back is not trusted with less
	for part := range s.limiter.shards {
		r, _, _ := s.lock(part, p.Generation)
		s.weigh(r, p)
		r.s.mu.Unlock()
	}
}

// weigh is Weigh for the shard whose lock the caller holds.
func (s *Share) weigh(r request, p Position) {
	if p.Generation != r.s.number {
		p = r.clamp(p)
	}
	hot := s.part(r)
	for w := range s.PartWords() {
		var sum uint64
		for age := range r.generations {
			cells := s.theirs(r, age)[w]
			for lane := uint64(0); cells>>lane != 0 && lane < 64; lane += uint64(s.CellBits()) {
				if c := cells >> lane & s.max; c < s.max { // or more, for all that is known
					sum = s.add(sum, lane, uint64(r.weighted(int64(c), age, p.Elapsed)))
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

// lock locks a part's shard, turns it to the current generation, and returns the age of
// another one, and whether it is kept.
func (s *Share) lock(part int, generation int64) (r request, age int, ok bool) {
	p := s.limiter.windows.Now()
	r = request{s.limiter, &s.limiter.shards[part], part * s.limiter.size, 0}
	r.s.mu.Lock()
	r.turn(p)
	back := r.s.number - generation
	return r, int(back), uint64(back) < uint64(r.generations)
}

// part returns the hot words of the request's shard.
func (s *Share) part(r request) []uint64 {
	n := int(s.blocks) * blockWords
	return s.hot[r.first/r.size*n:][:n]
}

// own returns the own cells of an age above 0.
func (s *Share) own(r request, age int) []uint64 { return s.cells(r, age, 0) }

// theirs returns the others' cells of an age.
func (s *Share) theirs(r request, age int) []uint64 { return s.cells(r, age, 1) }

func (s *Share) cells(r request, age, whose int) []uint64 {
	n, i := s.PartWords(), 2*rotating.Buffer(r.s.number-int64(age), r.generations)+whose
	return s.cold[(r.first/r.size*2*r.generations+i)*n:][:n]
}

// turn begins so many generations (at least 1), after the shard has. What others have
// weighed bounds what they weigh now, unless all of that has passed.
func (s *Share) turn(r request, turns int) {
	if turns < r.generations {
		own := s.own(r, turns)
		for hot := s.part(r); len(own) > 0; hot, own = hot[blockWords:], own[halfWords:] {
			copy(own[:halfWords], hot)
			clear(hot[:halfWords])
		}
	} else {
		clear(s.part(r))
	}
	for age := range turns {
		clear(s.own(r, age))
		clear(s.theirs(r, age))
	}
}

// place is where the request's key has its cells.
type place struct {
	block *[blockWords]uint64
	lanes uint64 // six bits a row
}

// block returns the number of a key's block among those of all shards, which is in the
// key's own shard: the two are chosen alike.
func (s *Share) block(key uint64) uint64 {
	return key >> 32 * s.all >> 32
}

func (s *Share) place(key uint64) place {
	return place{(*[blockWords]uint64)(s.hot[s.block(key)*blockWords:]), key}
}

// bound returns what the others' units of a key weigh at most, at a position's word.
func (s *Share) bound(at place, word int64) int64 {
	if word < s.weighed.Load() {
		return int64(s.max) // they were weighed for a later time
	}
	return int64(s.least(at.block[halfWords:], at.lanes))
}

// count reads what the others have admitted of the request's key in a generation, by its number.
func (s *Share) count(r request, number int64) int64 {
	age := r.s.number - number
	if uint64(age) >= uint64(r.generations) {
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
// the limiter reads in its three storeys, all but the key's own: no cell rises further
// than the largest count among its keys.
func (s *Share) admit(at place, count int64) {
	half := at.block
	s.raise(&half[0], at.lanes&s.lane&63, uint64(count))
	s.raise(&half[1], at.lanes>>6&s.lane&63, uint64(count))
	s.raise(&half[2], at.lanes>>12&s.lane&63, uint64(count))
	s.raise(&half[3], at.lanes>>18&s.lane&63, uint64(count))
}

func (s *Share) raise(word *uint64, lane, least uint64) {
	old := *word
	cell := old >> lane & s.max
	*word = old + (max(cell, least)-cell)<<lane
}
