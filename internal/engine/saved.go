package engine

import (
	"fmt"
	"iter"

	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// What package savestate writes and restores of an engine.

// Seed returns what the hashes of the engine follow from.
func (e *Engine) Seed() uint64 { return e.seed }

// Empty returns an engine of the same rule that has counted nothing, and that counts what is denied without a lock where e
// does.
func (e *Engine) Empty(d spec.Dimensions, seed uint64) (*Engine, error) {
	return New(e.Rule, d, seed, e.flooded)
}

// ShardCount returns the number of shards.
func (e *Engine) ShardCount() int { return len(e.shards) }

// ShardWords returns the words of a shard.
func (e *Engine) ShardWords() int { return e.size }

// CopyShard copies all words of a shard, and returns the number of its current generation. It holds the shard's lock for no
// longer than that.
func (e *Engine) CopyShard(i int, to []uint64) (number int64) {
	s := &e.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(to, e.memory[i*e.size:])
	e.algorithm.save(e.request(i, 0), to)
	return s.number
}

// InOrder ranges over the words of a shard whose current generation has a number: those of its generations, the youngest
// first, and then the rest.
func (e *Engine) InOrder(words []uint64, number int64) iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		for age := range int64(e.Ring.Buffers()) {
			if !yield(words[e.buffer(number-age):][:e.generation]) {
				return
			}
		}
		yield(words[e.Ring.Buffers()*e.generation : e.size])
	}
}

// CanBegin reports whether a shard may have a generation with this number.
func (e *Engine) CanBegin(number int64) bool { return e.Timeline.InRange(number) || number == never }

// FillShard makes words those of a shard, in the order of [Engine.InOrder]. fill fills them. Nobody else uses the engine
// yet. The error is that of fill.
func (e *Engine) FillShard(i int, number int64, fill func(words []uint64) error) error {
	e.shards[i].number = number
	for words := range e.InOrder(e.memory[i*e.size:], number) {
		if err := fill(words); err != nil {
			return err
		}
	}
	e.algorithm.restored(e.request(i, 0))
	return nil
}

// CheckShard returns an error unless the state of a shard is one that there is.
func (e *Engine) CheckShard(i int) error {
	if !e.Spares() {
		return nil
	}
	state := e.request(i, 0).state()
	if state.mode < exactly || state.mode > settling || (state.mode == settling) != (state.turns > 0) || state.turns < 0 {
		return fmt.Errorf("mode %d, %d generations", state.mode, state.turns)
	}
	return nil
}

// LastOverCapacity returns the latest generation in which a shard was over capacity, as far as such a generation counts. It
// is not ok if there is none. Nobody else uses the engine yet.
func (e *Engine) LastOverCapacity() (generation int64, ok bool) {
	if !e.Spares() {
		return 0, false
	}
	for i := range e.shards {
		r := e.request(i, 0)
		state, last := r.state(), r.s.number
		switch state.mode {
		case exactly:
			continue
		case settling:
			last -= int64(e.Ring.Buffers()) - int64(state.turns)
		}
		if !ok || last > generation {
			generation, ok = last, true
		}
	}
	return generation, ok
}

// TakeOver makes the counts of another engine those of e, which has admitted nothing yet.
func (e *Engine) TakeOver(in *Engine) {
	e.seed, e.turnSeed, e.timeSeed = in.seed, in.turnSeed, in.timeSeed
	for i := range e.shards { // in place, because Stats may be reading
		s := &e.shards[i]
		s.mu.Lock()
		copy(e.memory[i*e.size:][:e.size], in.memory[i*e.size:])
		s.number, s.peaks = in.shards[i].number, in.shards[i].peaks
		s.last.Clear()
		s.mu.Unlock()
	}
}
