package engine

import (
	"iter"

	"github.com/sketchlimit/sketchlimit/internal/meancost"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Shards are an engine's shards as packages see them that copy, restore and share their memory.
type Shards struct{ e *Engine }

// ShardsOf returns those of an engine.
func ShardsOf(e *Engine) Shards { return Shards{e} }

// Count returns the number of shards.
func (s Shards) Count() int { return len(s.e.shards) }

// Words returns the words of a shard.
func (s Shards) Words() int { return s.e.size }

// Copy copies all words of a shard, and returns the number of its current generation. It holds the shard's lock for no
// longer than that.
func (s Shards) Copy(i int, to []uint64) (number int64) {
	one := &s.e.shards[i]
	one.mu.Lock()
	defer one.mu.Unlock()
	copy(to, s.e.memory[i*s.e.size:])
	s.e.algorithm.save(s.e.request(i, 0), to)
	return one.number
}

// InOrder ranges over the words of a shard whose current generation has a number: those of its generations, the youngest
// first, and then the rest.
func (s Shards) InOrder(words []uint64, number int64) iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		for age := range int64(s.e.Ring.Buffers()) {
			if !yield(words[s.e.buffer(number-age):][:s.e.generation]) {
				return
			}
		}
		yield(words[s.e.Ring.Buffers()*s.e.generation : s.e.size])
	}
}

// CanBegin reports whether a shard may have a generation with this number.
func (s Shards) CanBegin(number int64) bool { return s.e.Timeline.InRange(number) || number == never }

// Fill makes words those of a shard, in the order of [Shards.InOrder]. fill fills them. Nobody else uses the engine
// yet. The error is that of fill.
func (s Shards) Fill(i int, number int64, fill func(words []uint64) error) error {
	s.e.shards[i].number = number
	for words := range s.InOrder(s.e.memory[i*s.e.size:], number) {
		if err := fill(words); err != nil {
			return err
		}
	}
	s.e.algorithm.restored(s.e.request(i, 0))
	return nil
}

// Check returns an error unless the state of a shard is one that there is.
func (s Shards) Check(i int) error {
	if !s.e.DeniesProven() {
		return nil
	}
	return s.e.request(i, 0).state().Check()
}

// LastOverCapacity returns the latest generation in which a shard was over capacity, as far as such a generation counts. It
// is not ok if there is none. Nobody else uses the engine yet.
func (s Shards) LastOverCapacity() (generation int64, ok bool) {
	if !s.e.DeniesProven() {
		return 0, false
	}
	for i := range s.e.shards {
		r := s.e.request(i, 0)
		state, last := r.state(), r.s.number
		switch state.Mode() {
		case overcapacity.Exact:
			continue
		case overcapacity.Settling:
			last -= int64(s.e.Ring.Buffers()) - state.SettlesFor()
		}
		if !ok || last > generation {
			generation, ok = last, true
		}
	}
	return generation, ok
}

// TakeOver makes the counts of another engine those of the engine, which has admitted nothing yet.
func (s Shards) TakeOver(in *Engine) {
	s.e.seed, s.e.turnSeed, s.e.timeSeed = in.seed, in.turnSeed, in.timeSeed
	for i := range s.e.shards { // in place, because Stats may be reading
		one := &s.e.shards[i]
		one.mu.Lock()
		copy(s.e.memory[i*s.e.size:][:s.e.size], in.memory[i*s.e.size:])
		one.number, one.peaks = in.shards[i].number, in.shards[i].peaks
		one.denials.Clear()
		one.mu.Unlock()
	}
}

// Hold rotates a shard to a position, and calls f with the number of its generation while it holds the shard's lock.
func (s Shards) Hold(i int, now rotating.Position, f func(current int64)) {
	r := s.e.request(i, 0)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.rotate(now)
	f(r.s.number)
}

// Current returns the number of a shard's generation. The caller holds its lock, see [Shards.Hold].
func (s Shards) Current(i int) int64 { return s.e.shards[i].number }

// ForgetDenials lets the keys of a shard ask again that were remembered to have nothing left. The caller holds its lock.
func (s Shards) ForgetDenials(i int) { s.e.shards[i].denials.Clear() }

// Units returns what the engine has admitted and denied under its locks.
func (e *Engine) Units() (admitted, denied uint64) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		admitted += s.admitted
		denied += s.denied
		s.mu.Unlock()
	}
	return admitted, denied
}

// MeanCost returns the mean units of the requests admitted lately; 1 if there were none.
func (e *Engine) MeanCost() float64 { return meancost.Mean(e.flooded) }
