package engine

import (
	"errors"
	"fmt"

	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Succeed returns an engine of another limit that decides in the place of e, from a unix time in ns on. It takes over the
// memory and the locks of e, and so all that e has counted: what a window has counted are units, whatever the limit, and
// what of a bucket's units has not flowed back by then is as many units of the new one. The rule may differ in limit and
// burst alone. The error tells why cells of e cannot count for it.
//
// Decisions go on meanwhile: e passes them on, at the lower of both limits, once their shard has been handed over. All
// shards have been when Succeed returns.
func (e *Engine) Succeed(rule spec.Rule, at int64) (*Engine, error) {
	rule.Reach = max(rule.Reach, e.Reach)
	if err := fits(e, &rule); err != nil {
		return nil, err
	}
	next := &Engine{algorithm: e.algorithm, dims: e.dims, shards: e.shards, memory: e.memory, flooded: e.flooded, Audit: audit.Of(&rule, e.Audit.Bytes())}
	var err error
	if next.layout, err = newLayout(rule, e.dims, e.seed); err != nil {
		return nil, err
	}
	if e.dims.HeavyEntries > 0 && next.heavy.FingerprintBits() > e.heavy.FingerprintBits() {
		return nil, fmt.Errorf("limit %d leaves entries of heavy keys more room for fingerprints than they have", rule.Limit)
	}
	if !e.given.CompareAndSwap(nil, &handover{shards: make([]bool, len(e.shards)), at: at}) {
		return nil, errors.New("another limit has taken over already")
	}
	next.Audit.Follow(e.Audit)
	e.next.Store(next)
	for i := range e.shards {
		e.heir(i)
	}
	return next, nil
}

// fits returns an error if the memory of e cannot count for a rule.
func fits(e *Engine, rule *spec.Rule) error {
	switch {
	case algorithmOf(rule) != e.algorithm || rule.Ring.Buffers() != e.Ring.Buffers() || rule.Span() != e.Span():
		return errors.New("it is of another algorithm or window")
	case rule.OverCapacity != nil || e.OverCapacity != nil:
		return errors.New("entries of a limiter that denies proven keys are of one limit")
	case e.Before() != nil:
		return errors.New("it grows")
	case e.external.Load() != nil:
		return errors.New("it is shared, and others have the limit of before")
	case e.dims.HeavyEntries > 0 && !heavyhitter.Fits(int(rule.Reach)):
		return fmt.Errorf("entries of heavy keys count up to less than %d", rule.Reach)
	}
	return e.dims.Check(rule)
}

// replaced returns the successor of an engine that has grown, which has other locks, or nil.
func (e *Engine) replaced() *Engine {
	if next := e.next.Load(); next != nil && e.given.Load() == nil {
		return next
	}
	return nil
}

// heir returns the engine that decides in the place of e on the i-th shard, which is ready for it.
func (e *Engine) heir(i int) *Engine {
	if e.given.Load() != nil {
		s := &e.shards[i]
		s.mu.Lock()
		e.give(i)
		s.mu.Unlock()
	}
	return e.next.Load()
}

// give hands the i-th shard over, unless it has been. The caller holds its lock.
func (e *Engine) give(i int) {
	given := e.given.Load()
	if given.shards[i] {
		return
	}
	given.shards[i] = true
	next, r := e.next.Load(), e.request(i, 0)
	r.s.denials.Clear()
	if r.s.number != never {
		e.algorithm.adopt(next, r, given.at)
	}
}

// forward is Consume for the engine that decides in the place of e.
func (e *Engine) forward(word int64, h uint64, units int, limit int64, effort Effort) spec.Verdict {
	next := e.heir(e.Shard(h))
	if next.Timeline.Length() != e.Timeline.Length() {
		word = next.Timeline.Pack(next.Timeline.Position(e.Timeline.UnixNano(e.Timeline.Unpack(word))))
	}
	return next.Consume(next.Shard(h), word, h, units, min(limit, next.Limit), effort)
}

// from returns what a position and a limit that e was asked for are in the request's engine, which may be its heir.
func (r request) from(e *Engine, p rotating.Position, limit int64) (rotating.Position, int64) {
	if r.e == e {
		return p, limit
	}
	if r.e.Timeline.Length() != e.Timeline.Length() {
		p = r.e.Timeline.Position(e.Timeline.UnixNano(p))
	}
	return p, min(limit, r.e.Limit)
}
