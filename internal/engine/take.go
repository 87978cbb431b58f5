package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/rotating"
)

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
	sampler      struct{ request } // that may be taken down, for the rate of light keys
)

// Effort is how much a decision is to find out.
type Effort uint8

const (
	Brief Effort  = 1 << iota // whether it admits, and no more
	exact                     // with Brief: read the previous generation; without, bound it by its peak
	Whole = exact             // all there is to tell
)

// Consume is Take for a key of the i-th shard that is not remembered.
//
// Most keys have no entry in the table, are admitted and get none. For them it first computes the quota that the older
// generations leave; then it reads and raises the current cells in one pass. All others go on to settle.
//
// Two claims make this the decision that take would make. A build with the tag invariants asserts them:
//
//   - free less the current count is never above what usage returns as free. Where a generation is not read, a bound takes
//     its place that no reading of it exceeds: its peak, at its weight or in full, and the bound of a Share.
//   - count ≤ most ⇒ take admits. The cells are raised only if the key then reads at most most, and most ≤ free.
//
// It is the longest function because it is the hottest: its dozen values stay in registers, which a call in the
// middle would empty.
func (e *Engine) Consume(i int, word int64, h uint64, units int, limit int64, effort Effort) Verdict {
	r, p, n := e.request(i, h), e.Timeline.Unpack(word), int64(units)
	if r.e.far {
		r.prefetch(p.Generation, effort == Brief)
	}
	r.s.mu.Lock()
	if e.next.Load() != nil { // it may have read this shard already
		r.s.mu.Unlock()
		return e.forward(word, h, units, limit, effort)
	}
	if p.Generation != r.s.number {
		return r.settle(p, n, limit, effort)
	}
	if r.e.IsBucket() {
		v := bucket{r}.takeTime(p, n, limit, effort)
		r.s.mu.Unlock()
		return v
	}
	entries := r.entries()
	if r.e.heavy.Find(entries, h) != nil {
		return r.settle(p, n, limit, effort)
	}
	most := r.e.limit // units of this generation that a key has without an entry
	if r.e.heavy.HasRoom(entries) || r.e.Spares() && r.state().on > 0 {
		most = r.e.light + int64(r.s.peaks.raised)
	}
	free := int64(0) // units that are not in use, whatever the previous generation holds of the key
	if effort == Brief && r.e.Ring.Buffers() == 2 {
		if free = limit - (window{r}).peakBefore(); free < most { // to weigh it takes a division
			free = limit - r.e.Weighted(window{r}.peakBefore(), 1, p.Elapsed)
		}
	}
	here := limit // units that are not in use elsewhere
	if x := r.e.external.Load(); x != nil {
		others, ok := (*x).bound(h, word)
		if !ok {
			return r.settle(p, n, limit, effort)
		}
		here -= others
		free -= others
	}
	if free < n {
		effort |= exact
		free = here
		for age := 1; age < r.e.Ring.Buffers(); age++ {
			first, h := window{r}.buffer(age), window{r}.hashAt(p.Generation-int64(age))
			if r.e.guarded {
				free -= r.e.Weighted(window{r}.reading(first, h), age, p.Elapsed)
			} else {
				free -= r.e.Weighted(int64(r.e.cells.Estimate(r.e.memory, first+r.e.cellsFirst, h)), age, p.Elapsed)
			}
		}
	}
	most = min(free, most)
	if n < 1 || n > most {
		return r.settle(p, n, limit, effort)
	}
	if invariants.On {
		window{r}.checkConsume(p, free, most, n, limit)
	}
	first, h := window{r}.buffer(0), window{r}.hashAt(p.Generation)
	var c uint32
	var ok bool
	if r.e.guarded {
		c, ok = window{r}.addGuarded(first, h, n, most)
	} else {
		c, ok = r.e.cells.AddBounded(r.e.memory, first+r.e.cellsFirst, h, uint32(n), uint32(most))
	}
	if !ok {
		return r.settle(p, n, limit, effort)
	}
	count := int64(c)
	if invariants.On {
		invariants.Assert(count <= most, "a count of %d was admitted, at most %d may be", count, most)
	}
	if !r.e.guarded && h%Sampled == 0 {
		r.e.door.TestAndAdd(r.e.memory, first, h)
	}
	if r.looked() {
		sampler{r}.look(p, n, limit, count-n, nil)
	}
	r.s.peaks.current = max(r.s.peaks.current, c)
	r.s.admitted += uint64(n)
	r.s.last.Clear()
	if x := r.e.external.Load(); x != nil {
		(*x).admit(r.h, count)
	}
	if effort&Brief != 0 {
		r.s.mu.Unlock()
		return Verdict{Allowed: true}
	}
	v := Verdict{Allowed: true, Remaining: int(free - count), ResetAfter: r.e.ResetAfter(p, 0)}
	r.s.mu.Unlock()
	return v
}

// settle is take that unlocks the shard in the end.
func (r request) settle(p rotating.Position, n, limit int64, e Effort) Verdict {
	v := r.take(p, n, limit, e)
	r.s.mu.Unlock()
	return v
}

// take admits and counts n units, or does not. A limit below the window's is a window of
// which some units are held back.
func (r request) take(p rotating.Position, n, limit int64, e Effort) Verdict {
	if p.Generation != r.number() {
		q := r.rotate(p)
		return r.take(q, n, limit, e).After(r.span(p, q))
	}
	return r.e.algorithm.take(r, p, n, limit, e)
}

// refuse counts a request that is denied, and remembers its key if that has nothing left.
//
// Where nobody asks until when, which takes longer to find out than to deny, it notes the
// key, for which that is worth while if it is denied twice in a row.
func (r window) refuse(p rotating.Position, n, limit, enough int64, entry *uint64, u usage) Verdict {
	r.s.denied += r.e.Counted(n, limit)
	wronged := r.wronged(p, n, limit, entry)
	flood := n == 1 && limit > 0 && !wronged // which is to be counted the next time as well
	if enough != all {
		if !flood {
			return Verdict{}
		}
		if h := r.flood(limit); !r.s.last.Marked(h) {
			r.s.last.Mark(h)
			return Verdict{}
		}
		u = r.used(p, entry)
	}
	u.free -= r.e.limit - limit
	v := r.denied(p, u, entry, n, limit)
	if flood {
		r.remember(p, limit, v)
	}
	return v
}

// remember keeps in mind that the key has nothing left, and until when.
func (r request) remember(p rotating.Position, limit int64, v Verdict) {
	free := r.e.Timeline.Pack(r.e.Timeline.Add(p, v.RetryAfter))
	r.s.last.Set(r.flood(limit), free, r.e.Timeline.UnixNano(p)+int64(v.ResetAfter))
}

// flood is the hash by which a key is remembered that is denied at a limit.
func (r request) flood(limit int64) uint64 { return r.h ^ uint64(r.e.limit-limit) }

// peek tells what take would, but for what is left afterwards. It does not rotate the shard, and
// reads it as if it had.
func (r request) peek(p rotating.Position, n, limit int64) Verdict {
	q := r.clamp(p)
	return r.e.algorithm.peek(r, q, n, limit).After(r.span(p, q))
}

// algorithmOf returns the algorithm of a rule.
func algorithmOf(rule *Rule) algorithm {
	if rule.IsBucket() {
		return buckets{}
	}
	return windows{}
}
