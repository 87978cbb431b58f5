package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/inside"
)

func init() {
	inside.Locked = func(limiter any) any {
		if l, ok := limiter.(interface{ grouped() any }); ok {
			return l.grouped()
		}
		return nil
	}
}

// grouped is a limiter as a Group uses it. A Group locks the shards of several limiters
// before it asks them.
type grouped[S any] struct{ k *keyed[S] }

func (k *keyed[S]) grouped() any {
	if k == nil {
		return nil
	}
	return grouped[S]{k}
}

// Number orders the limiters.
func (g grouped[S]) Number() uint64 { return g.k.number }

// Place returns where the request's key is, and the request's time.
func (g grouped[S]) Place(r sketchlimit.Request) (hash uint64, shard int, at time.Time) {
	var text [16]byte
	hash = g.k.hash(keyOf(&r, &text))
	if at = r.Time; at.IsZero() {
		at = g.k.clock()
	}
	return hash, g.k.shardOf(hash), at
}

// Lock locks a shard.
func (g grouped[S]) Lock(shard int) { g.k.shards[shard].mu.Lock() }

// Unlock unlocks a shard.
func (g grouped[S]) Unlock(shard int) { g.k.shards[shard].mu.Unlock() }

// Ask returns the decision, and consumes nothing. Unless the request has Peek, its time
// has come.
func (g grouped[S]) Ask(r sketchlimit.Request, hash uint64, at time.Time, n int) sketchlimit.Decision {
	var text [16]byte
	q := g.question(&r, &text, hash, at, n)
	t := max(q.at, g.k.floor.Load())
	if !r.Peek {
		t, q.seen = g.k.advance(q.at), true
	}
	d, from := g.k.peekLocked(g.k.shard(hash), &q, t)
	return addLag(d, from, q.at)
}

// Take returns the decision, and consumes the units.
func (g grouped[S]) Take(r sketchlimit.Request, hash uint64, at time.Time, n int) sketchlimit.Decision {
	var text [16]byte
	q := g.question(&r, &text, hash, at, n)
	q.seen = true
	d, from := g.k.takeLocked(g.k.shard(hash), &q)
	return addLag(d, from, q.at)
}

func (g grouped[S]) question(r *sketchlimit.Request, text *[16]byte, hash uint64, at time.Time, n int) question {
	limit := g.k.own(r.Limit)
	return question{
		key: keyOf(r, text), hash: hash, at: unixNano(at), n: int64(n),
		limit: limit, low: limit == 0 && r.Limit > 0, seen: r.Time.IsZero(),
	}
}
