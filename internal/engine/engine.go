package engine

import (
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Engine decides by one set of dimensions. It is safe for concurrent use.
//
// Its key is a hash; its time is a position, or the word that a [Timeline] packs it in. A limiter that grows has
// one engine after another.
type Engine struct {
	layout
	algorithm algorithm
	shards    []shard
	memory    []uint64 // of all shards, layout.size words each
	dims      spec.Dimensions
	flooded   *striped.Counter // requests for one unit that were denied without the lock, and what others cost

	Audit *audit.Audit // counts some keys exactly as well; set before the first decision

	external atomic.Pointer[External] // where keys have counts as well; nil if nowhere
	next     atomic.Pointer[Engine]   // the successor, which decides in its place
	given    atomic.Pointer[handover] // what a successor of another limit has taken over; nil of any other one
}

// algorithm is what windows and token buckets do each in their own way. The shard of a request is locked, and in the
// generation of the position, where nothing else is said.
type algorithm interface {
	// quota returns the units of a key that has used none, at a limit.
	quota(rule *spec.Rule, limit int64) int64
	// resetAfter returns the time until a quota is whole again that is used up at a position.
	resetAfter(rule *spec.Rule, p rotating.Position, quota, limit int64) time.Duration

	// take admits and counts n units, or does not.
	take(r request, p rotating.Position, n, limit int64, e Effort) spec.Verdict
	// peek returns what take would, but for what is left afterwards. The position may lie ahead of the shard's.
	peek(r request, p rotating.Position, n, limit int64) spec.Verdict
	// charge counts n units whether they are free or not. It returns how many were, if that is asked for.
	charge(r request, p rotating.Position, n, limit int64, asked bool) (free int64)
	// rotate makes a later generation the shard's.
	rotate(r request, to int64)
	// prefetch fetches what a decision in a generation reads, and in those before unless it is alone. It needs no lock.
	prefetch(r request, number int64, alone bool)
	// adopt makes the shard's counts those of an engine of another limit, as of a unix time in ns.
	adopt(next *Engine, r request, at int64)
	// save completes a copy of the shard's memory for a snapshot.
	save(r request, to []uint64)
	// restored is for a shard whose memory somebody else has filled.
	restored(r request)
}

// External is where the keys of an engine have counts as well: in its predecessor, or in the counters of others that share
// the limit. Calls hold the lock of the key's shard.
type External interface {
	// Count returns the units of a key in a generation, by its number.
	Count(number int64, h uint64) int64
	// Bound returns what the units of a key weigh at most at a position's word, without reading each generation. It is not
	// ok if there is no such bound.
	Bound(h uint64, word int64) (units int64, ok bool)
	// Admit notes the count that a key has in the current generation, by its number, once a request is admitted.
	Admit(number int64, h uint64, count int64)
	// Rotate lets generations expire, ≥ 1, once the i-th shard has rotated to one with a number.
	Rotate(i int, number int64, expired int)
}

// Counted returns the units by which a request for n units that is denied at a limit raises a statistic: 0 … the quota, so
// that no client's cost can ruin the sum. A request whose limit is 0 counts as one unit.
func (e *Engine) Counted(n, limit int64) uint64 {
	return uint64(max(0, min(n, max(1, e.Quota(limit)))))
}

// Quota returns the units of a key that has used none, at a limit.
func (e *Engine) Quota(limit int64) int64 { return e.algorithm.quota(&e.Rule, limit) }

// Dimensions returns what the engine was made of.
func (e *Engine) Dimensions() spec.Dimensions { return e.dims }

// request returns the place of a key, or of none in particular, in the i-th shard.
func (e *Engine) request(i int, h uint64) request { return request{e, &e.shards[i], i * e.size, h} }

// Shard returns the index of a key's shard.
func (e *Engine) Shard(h uint64) int { return int(h >> 32 * uint64(len(e.shards)) >> 32) }

// request is one key in one shard, whose lock the caller holds.
//
// Its four words, passed by value, stay in registers.
type request struct {
	e     *Engine
	s     *shard
	first int // word of the shard's memory
	h     uint64
}

// What a request does depends on what limits it. These are requests as well.
type (
	window       struct{ request } // to a window
	bucket       struct{ request } // to a token bucket
	overCapacity struct{ request } // to a window's shard that may be over capacity, and then denies what is proven alone
	sampler      struct{ request } // that reads some cells for keys that the shard has not seen
)

// Effort is how much a decision is to find out.
type Effort uint8

const (
	Whole Effort = iota // all there is to tell
	Brief               // whether it admits, and no more
)

// handover is which shards a successor has taken over, each by its own lock, and as of when.
type handover struct {
	shards []bool
	at     int64 // unix ns
}
