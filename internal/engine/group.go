package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// MostTogether is the questions of one decision that fit on the stack.
const MostTogether = 8

// Question is what one engine is asked, and its answer.
type Question struct {
	Engine *Engine
	Number uint64 // of the limiter: locks are taken in the order of these numbers
	At     rotating.Position
	Lag    time.Duration // by which the durations of the answer are longer
	Hash   uint64
	Limit  int64 // of the request's own, at most the engine's
	N      int64 // units

	spec.Verdict // that of this engine alone, unless all have admitted

	request request
	order   int // of all questions, the i-th has in it which lock is the i-th to be taken
}

// TakeAll admits the units of all questions or none. The tightest Verdict, of the by-th question, is the one that all
// get: that of the engine that refuses, for longest if there are several; or, of those that admit, of the one with
// least Remaining.
//
// It holds the locks of all keys' shards, so that asking and counting are one step. It rotates each shard before it asks,
// because a rotation can change what the shard answers.
//
// Two questions may go to one engine, for different keys. If these share cells, counting the first may use up what the
// second was to get. That is then refused, and the units of the first are lost.
func TakeAll(asked []Question) (by int) {
	lock(asked)
	for i := range asked {
		asked[i].request.rotate(asked[i].At)
	}
	refusals := 0
	for i := range asked {
		q := &asked[i]
		if q.Verdict = q.request.peek(q.At, q.N, q.Limit); !q.Allowed {
			refusals++
		}
	}
	admitted := refusals == 0
	for i := range asked { // a refusal is counted and remembered as any other
		q := &asked[i]
		if admitted || !q.Allowed {
			q.Verdict = q.request.e.redact(decide(q.request, q.At, q.N, q.Limit, Whole), q.At, q.Limit)
			admitted = admitted && q.Allowed
		}
		if q.request.sampled() { // by the exact algorithm alone it is used if nobody else refuses
			use := audit.Never
			if refusals == 0 || refusals == 1 && !q.Allowed {
				use = audit.Now
			}
			tellAudit(q.request, q.request.clamp(q.At), q.N, 0, q.Limit, q.Allowed, use)
		}
	}
	unlock(asked)
	return tightest(asked)
}

// PeekAll returns what TakeAll would return, and changes nothing. Remaining does not
// include the units asked for.
func PeekAll(asked []Question) (by int) {
	for i := range asked {
		q := &asked[i]
		q.Verdict = q.Engine.Peek(q.At, q.Hash, int(q.N), q.Limit)
	}
	return tightest(asked)
}

// tightest adds the lags, and returns which Verdict leaves the least.
func tightest(asked []Question) (by int) {
	for i := range asked {
		q := &asked[i]
		q.Verdict = q.After(q.Lag)
		if q.Tighter(asked[by].Verdict) {
			by = i
		}
	}
	return by
}

// lock takes the locks of all shards that are asked, each once, of the engines that decide. All callers take two locks in
// the same order: that of the limiters' numbers, and in one engine that of its shards.
func lock(asked []Question) {
	for {
		for i := range asked {
			asked[i].find()
		}
		if anyReplaced(asked) {
			continue // or else questions to one limiter could be to two engines
		}
		lockFound(asked)
		if !anyReplaced(asked) {
			break
		}
		unlock(asked)
	}
	for i := range asked {
		asked[i].inherit()
	}
}

// anyReplaced reports whether a limiter has grown since its engine was found.
func anyReplaced(asked []Question) bool {
	for i := range asked {
		if asked[i].request.e.replaced() != nil {
			return true
		}
	}
	return false
}

// find makes the question one to the engine that decides by now, if a limiter has grown. Where its predecessor matters, it
// is sealed: reading it takes no lock.
func (q *Question) find() {
	e := q.Engine
	for next := e.replaced(); next != nil; next = e.replaced() {
		e = next
	}
	if b := e.predecessor(); b != nil {
		b.seal()
	}
	q.request = e.request(e.Shard(q.Hash), q.Hash)
	e.algorithm.prefetch(q.request, q.At.Generation, false) // all that is read next, at once
}

// lockFound is lock for the engines that were found.
func lockFound(asked []Question) {
	const some = 32
	few := len(asked) <= some
	for i := range asked {
		q, j := &asked[i], i
		for ; few && j > 0 && q.before(&asked[asked[j-1].order]); j-- {
			asked[j].order = asked[j-1].order
		}
		asked[j].order = i
	}
	if !few {
		sortLocks(asked)
	}
	for i := range asked {
		if s, first := shardOf(asked, i); first {
			s.mu.Lock()
		}
	}
}

// inherit passes the question on to the successor, if the engine asked has one of another limit:
// both have the same locks. An engine that is replaced by a larger one meanwhile still counts
// here: the successor waits for this shard's lock before it reads the counts.
func (q *Question) inherit() {
	for e := q.request.e; e.next.Load() != nil && e.replaced() == nil; e = q.request.e {
		e.give(e.Shard(q.Hash))
		q.request.e = e.next.Load()
		q.At, q.Limit = q.request.from(e, q.At, q.Limit)
	}
}

// sortLocks puts many questions into the order of their locks, which takes too long one by one.
func sortLocks(asked []Question) {
	order := make([]int, len(asked))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		q, p := &asked[a], &asked[b]
		return cmp.Or(cmp.Compare(q.Number, p.Number), cmp.Compare(q.request.first, p.request.first))
	})
	for i, k := range order {
		asked[i].order = k
	}
}

// before reports whether the lock of q is taken before the lock of p.
func (q *Question) before(p *Question) bool {
	return q.Number < p.Number || q.Number == p.Number && q.request.first < p.request.first
}

func unlock(asked []Question) {
	for i := range asked {
		if s, first := shardOf(asked, i); first {
			s.mu.Unlock()
		}
	}
}

// shardOf returns the i-th shard in the order of locks, and whether it is another one than the shard before.
func shardOf(asked []Question, i int) (s *shard, first bool) {
	s = asked[asked[i].order].request.s
	return s, i == 0 || s != asked[asked[i-1].order].request.s
}
