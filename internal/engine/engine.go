package engine

import (
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/internal/windowmath"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Never is the RetryAfter of a request that no amount of waiting makes admissible.
const Never = windowmath.Never

// Engine decides by one set of dimensions. It is safe for concurrent use.
//
// Its key is a hash; its time is a position, or the word that a [Timeline] packs it in. A limiter that grows has
// one engine after another.
type Engine struct {
	layout
	algorithm algorithm
	shards    []shard
	memory    []uint64 // of all shards, layout.size words each
	dims      Dimensions
	flooded   *striped.Counter // requests for one unit that were denied without the lock, and what others cost

	external atomic.Pointer[external] // where keys have counts as well; nil if nowhere
	next     atomic.Pointer[Engine]   // the successor, which decides in its place
	given    atomic.Pointer[handover] // what a successor of another limit has taken over; nil of any other one
}

// algorithm is what windows and token buckets do each in their own way. The shard of a request is locked, and in the
// generation of the position, where nothing else is said.
type algorithm interface {
	// check refuses dimensions that no engine of the rule can have.
	check(d *Dimensions, rule *Rule) error
	// quota returns the units of a key that has used none, at a limit.
	quota(rule *Rule, limit int64) int64
	// resetAfter returns the time until a quota is whole again that is used up at a position.
	resetAfter(rule *Rule, p rotating.Position, quota, limit int64) time.Duration
	// least returns the least that a cell holds which weighs anything at a position.
	least(rule *Rule, p rotating.Position) uint32

	// take admits and counts n units, or does not.
	take(r request, p rotating.Position, n, limit int64, e Effort) Verdict
	// peek returns what take would, but for what is left afterwards. The position may lie ahead of the shard's.
	peek(r request, p rotating.Position, n, limit int64) Verdict
	// charge counts n units whether they are free or not. It returns how many were, if that is asked for.
	charge(r request, p rotating.Position, n, limit int64, asked bool) (free int64)
	// look takes down a request for n units that is to be admitted.
	look(r request, p rotating.Position, n, limit int64)
	// rotate makes a later generation the shard's.
	rotate(r request, to int64)
	// prefetch fetches what a decision in a generation reads, and in those before unless it is alone. It needs no lock.
	prefetch(r request, number int64, alone bool)
	// adopt makes the shard's counts those of an engine of another limit, as of a unix time in ns.
	adopt(next *Engine, r request, at int64)
	// unknown returns the peaks of a shard whose memory somebody else has filled.
	unknown() peaks
}

// external is where the keys of an engine have counts as well: in its predecessor, or in the counters of others that share
// the limit. Calls hold the lock of the key's shard.
type external interface {
	// count returns the units of a key in a generation, by its number.
	count(number int64, h uint64) int64
	// bound returns what the units of a key weigh at most at a position's word. It is not ok where counts alone say so.
	bound(h uint64, word int64) (units int64, ok bool)
	// admit notes the count that a key has in the current generation once a request is admitted.
	admit(h uint64, count int64)
	// rotate lets generations expire, ≥ 1, once a shard has rotated.
	rotate(r request, expired int)
}

// New returns an engine of checked dimensions that has counted nothing and seen no time. It counts in flooded the
// requests that it denies without a lock, and what a sample of others cost.
func New(rule Rule, d Dimensions, seed uint64, flooded *striped.Counter) (*Engine, error) {
	e := &Engine{algorithm: algorithmOf(&rule), dims: d, shards: make([]shard, d.Shards), flooded: flooded}
	var err error
	if e.layout, err = newLayout(rule, d, seed); err != nil {
		return nil, err
	}
	e.memory = make([]uint64, d.Shards*e.size)
	for i := range e.shards {
		e.shards[i].number = never
	}
	return e, nil
}

// Counted returns the units by which a request for n units that is denied at a limit raises a statistic: 0 … the quota, so
// that no client's cost can ruin the sum. A request whose limit is 0 counts as one unit.
func (e *Engine) Counted(n, limit int64) uint64 {
	return uint64(max(0, min(n, max(1, e.quota(limit)))))
}

// quota returns the units of a key that has used none, at a limit.
func (e *Engine) quota(limit int64) int64 { return e.algorithm.quota(&e.Rule, limit) }

// Dimensions returns what the engine was made of.
func (e *Engine) Dimensions() Dimensions { return e.dims }

// Verdict is a decision in the four words that the compiler keeps in registers. Its durations
// are counted from the position that was asked for.
type Verdict struct {
	Allowed                bool
	Remaining              int
	RetryAfter, ResetAfter time.Duration
}

// After returns the verdict for a caller who counts from a time that is earlier by lag.
func (v Verdict) After(lag time.Duration) Verdict {
	v.RetryAfter, v.ResetAfter = Later(v.RetryAfter, lag), Later(v.ResetAfter, lag)
	return v
}

// Later returns a duration, unless it is 0 or Never, for a caller who counts from a time that is earlier by lag.
func Later(d, lag time.Duration) time.Duration {
	if d == 0 || d == Never {
		return d
	}
	return d + min(lag, Never-1-d)
}

// Remembers tells whether the key, of the i-th shard, is known to have nothing left at the engine's limit. Take finds
// that out as well, in twice the time. The compiler inlines it.
func (e *Engine) Remembers(i int, word int64, h uint64) bool {
	_, _, ok := e.shards[i].last.Lookup(h, word)
	return ok
}

// Take admits n units at a limit of at most the engine's, or not. The key's hash chooses the
// shard, and the shard's lock makes check and count one step.
func (e *Engine) Take(word int64, h uint64, n int, limit int64, effort Effort) Verdict {
	i := e.Shard(h)
	if n == 1 && word < e.shards[i].last.Until() {
		if v, ok := e.remembered(word, e.request(i, h), limit); ok {
			return e.told(v, e.Timeline.Unpack(word), limit)
		}
	}
	return e.told(e.Consume(i, word, h, n, limit, effort), e.Timeline.Unpack(word), limit)
}

// remembered is Take for a key that was the last of its shard to be denied.
func (e *Engine) remembered(word int64, r request, limit int64) (v Verdict, ok bool) {
	until, reset, ok := r.s.last.Lookup(r.flood(limit), word)
	if !ok {
		return Verdict{}, false
	}
	e.flooded.Inc()
	now := e.Timeline.UnixNano(e.Timeline.Unpack(word))
	return Verdict{
		RetryAfter: time.Duration(e.Timeline.UnixNano(e.Timeline.Unpack(until)) - now),
		ResetAfter: time.Duration(reset - now),
	}, true
}

// Peek tells what Take would answer at a position, which may lie generations ahead, and changes nothing.
func (e *Engine) Peek(p rotating.Position, h uint64, n int, limit int64) Verdict {
	r := e.lock(h)
	p, limit = r.from(e, p, limit)
	v := r.peek(p, int64(n), limit)
	r.s.mu.Unlock()
	return r.e.told(v, p, limit)
}

// Reserve is Take for a queue: it also returns the time until all units that were admitted before have flowed.
func (e *Engine) Reserve(p rotating.Position, h uint64, n int, limit int64) (wait time.Duration, v Verdict) {
	r := e.lock(h)
	p, limit = r.from(e, p, limit)
	wait = r.peek(p, int64(n), limit).ResetAfter
	v = r.take(p, int64(n), limit, Whole)
	r.s.mu.Unlock()
	return wait, v
}

// lock locks the key's shard in the engine that decides then: a successor may have read this shard, so nothing
// is counted here any more once there is one.
func (e *Engine) lock(h uint64) request {
	i := e.Shard(h)
	r := e.request(i, h)
	r.s.mu.Lock()
	if e.next.Load() != nil {
		r.s.mu.Unlock()
		return e.heir(i).lock(h)
	}
	return r
}

// request returns the place of a key, or of none in particular, in the i-th shard.
func (e *Engine) request(i int, h uint64) request { return request{e, &e.shards[i], i * e.size, h} }

// Shard returns the index of a key's shard.
func (e *Engine) Shard(h uint64) int { return int(h >> 32 * uint64(len(e.shards)) >> 32) }

// HasEntry reports whether a key has an entry in the heavy table.
func (e *Engine) HasEntry(h uint64) bool {
	r := e.request(e.Shard(h), h)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.e.heavy.Find(r.bucketOf(), h) != nil
}
