package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Rank gives the locks of the engine their places in the order of locks, see the package comment: those of the first engine
// of the limiter with a number. It does nothing but in a build with the tag invariants.
func (e *Engine) Rank(limiter uint64) {
	if invariants.On {
		setRanks(e, limiter, 0)
	}
}

// setRanks is Rank for an engine of an age: 0 for the first one, less for each successor.
func setRanks(e *Engine, limiter uint64, age int64) {
	for i := range e.shards {
		invariants.SetRank(&e.shards[i].mu, invariants.Rank{Level: invariants.LimiterShard, Limiter: limiter, Age: age, Index: i})
	}
	if e.OverCapacity != nil {
		e.OverCapacity.Rank(limiter)
	}
}

// rankAfter is setRanks for the successor of an engine, and for the successor's predecessor if that is another engine.
func rankAfter(e *Engine, replaced, before *Engine) {
	r := invariants.RankOf(&replaced.shards[0].mu)
	if r.Level == 0 { // of no limiter
		setRanks(replaced, 0, 0)
	}
	setRanks(e, r.Limiter, r.Age-2)
	if before != nil && before != replaced {
		setRanks(before, r.Limiter, r.Age-1)
	}
}

// left returns the units of a key that are free at a limit by all that is known of it.
func (r window) left(p rotating.Position, limit int64, entry *uint64) int64 {
	return r.used(p, entry).free - (r.e.Limit - limit)
}

// checkConsume panics unless the claims of Consume hold for n units of a key without an entry, which it is about to count
// unless the key then reads more than most.
func (r window) checkConsume(p rotating.Position, free, most, n, limit int64) {
	current, _ := r.count(p.Generation, nil)
	left := r.left(p, limit, nil)
	invariants.Assert(free-current <= left, "free is %d beside a count of %d, and usage leaves %d", free, current, left)
	if current+n <= most {
		checkAdmits(left, n)
	}
}

// checkAdmits panics unless n units that are admitted are left.
func checkAdmits(left, n int64) {
	invariants.Assert(n <= left, "%d units are admitted, and usage leaves %d", n, left)
}
