package engine

import "time"

// MostTogether bounds the engines that are asked together.
const MostTogether = 8

// Question is what one engine is asked.
type Question struct {
	Engine *Engine
	At     Position
	Lag    time.Duration // by which the durations of the answer are longer
	Hash   uint64
	Limit  int64 // of the request's own, at most the engine's
}

// TakeAll admits n units in all engines or in none. The verdict is that of the by-th engine: the one that refuses, for
// longest if there are several; or of those that admit, the one with least Remaining. All callers give
// the same order to two engines that they ask.
//
// It holds the locks of the key's shards in all engines, so that asking all of them and
// counting in all of them are one step. It turns each shard before it asks, because a turn can
// change what the shard answers.
func TakeAll(asked []Question, order []int, n int64) (v Verdict, by int) {
	var requests [MostTogether]request
	for i := range asked {
		requests[i] = asked[i].Engine.request(asked[i].Engine.Shard(asked[i].Hash), asked[i].Hash)
	}
	for _, i := range order {
		requests[i].s.mu.Lock()
	}
	for i := range asked {
		r, q := requests[i], &asked[i]
		at := r.turn(q.At)
		q.At, q.Lag = at, q.Lag+r.span(q.At, at)
		if w := r.told(r.peek(at, n, q.Limit), at, q.Limit).After(q.Lag); i == 0 || w.Tighter(v) {
			v, by = w, i
		}
	}
	if v.Allowed {
		for i := range asked {
			r, q := requests[i], &asked[i]
			if w := r.told(r.take(q.At, n, q.Limit, Whole), q.At, q.Limit); i == 0 || w.Tighter(v) {
				v, by = w, i
			}
		}
	} else { // counted and remembered as any denial
		q := &asked[by]
		v = requests[by].told(requests[by].take(q.At, n, q.Limit, Whole), q.At, q.Limit)
	}
	for _, i := range order {
		requests[i].s.mu.Unlock()
	}
	return v.After(asked[by].Lag), by
}

// PeekAll tells what TakeAll would answer, and changes nothing.
func PeekAll(asked []Question, n int64) (v Verdict, by int) {
	for i, q := range asked {
		if w := q.Engine.Peek(q.At, q.Hash, int(n), q.Limit).After(q.Lag); i == 0 || w.Tighter(v) {
			v, by = w, i
		}
	}
	return v, by
}

// Tighter tells whether v leaves less than u does.
func (v Verdict) Tighter(u Verdict) bool {
	switch {
	case v.Allowed != u.Allowed:
		return u.Allowed
	case v.Allowed && v.Remaining != u.Remaining:
		return v.Remaining < u.Remaining
	}
	return v.RetryAfter > u.RetryAfter
}
