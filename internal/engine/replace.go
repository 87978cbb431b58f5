package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Replace returns an engine of other dimensions that decides in the place of e from now on. What e has counted matters to it
// until LetGo.
//
// A decision that holds its shard's lock looks whether its engine has a successor, and begins anew there if so.
// So once a successor has read a shard, under the same lock, nothing is counted there any more.
func (e *Engine) Replace(d spec.Dimensions) (next *Engine, err error) {
	if next, err = e.Empty(d, e.seed); err != nil {
		return nil, err
	}
	if e.DeniesProven() {
		e.OverCapacity.SetFull(false) // so no shard is over capacity from now on
		settleAfter(next, e)
	}
	const page = 4096 / 8
	for i := 0; i < len(next.memory); i += page {
		next.memory[i] = 0 // here, rather than in requests, the system hands it out
	}
	next.SetApart()
	e.ReplaceBy(next, e)
	next.predecessor().seal()
	return next, nil
}

// ReplaceBy makes an engine that nobody uses yet decide in the place of e, with a predecessor if that is not nil.
func (e *Engine) ReplaceBy(next, before *Engine) {
	next.follow(before, e.Others())
	next.Audit = e.Audit
	if invariants.On {
		rankAfter(next, e, before)
	}
	e.next.Store(next)
}

// SetApart gives the engine seeds that its predecessor and its successor, which are of other sizes, do not have:
// two keys that meet in one of them are strangers in the other, and their readings add up as package stats has it.
func (e *Engine) SetApart() { e.turnSeed = keyhash.Mix(e.turnSeed, uint64(len(e.memory))) }

// LetGo ends that the counts of the predecessor matter, in a generation in which they have left the window.
func (e *Engine) LetGo(latest int64) {
	// A decision that was held up since may come with a time of back then. Once its
	// shard has rotated it is taken as of now, where the predecessor does not matter.
	for i := range e.shards {
		ShardsOf(e).Hold(i, rotating.Position{Generation: latest}, func(int64) {})
	}
	// The predecessor's units over capacity join those of past episodes in the step in which the
	// predecessor goes, so no sum counts them twice or not at all.
	if s := e.OverCapacity; s != nil && e.DeniesProven() {
		_, units := overCapacityUnits(e.Before(), rotating.Position{})
		s.EndAll(units, func() { e.follow(nil, e.Others()) })
		return
	}
	e.follow(nil, e.Others())
}

// Seed returns what the hashes of the engine follow from.
func (e *Engine) Seed() uint64 { return e.seed }

// Empty returns an engine of the same rule that has counted nothing, and that counts what is denied without a lock where e
// does.
func (e *Engine) Empty(d spec.Dimensions, seed uint64) (*Engine, error) {
	return New(e.Rule, d, seed, e.flooded)
}
