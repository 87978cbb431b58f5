package growth

import (
	"iter"
	"math"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// forecast returns the false-denial rate that there would be at a position if a third
// more had come, which is about that of three quarters of the limit. The breaking point
// where everybody is denied is so steep that a tenth more keys can make a thousand
// times the rate, and clients with history are over it before new ones: a forecast sees
// it ahead.
func forecast(e *engine.Engine, p rotating.Position, limit int64) (rate float64) {
	if e.IsBucket() {
		load := moreKeys * liveEntries(e, p) / float64(engine.ShardsOf(e).Count()*e.Times().Lines()*e.Times().Entries())
		return timetable.RefusedAt(e.Times().Entries(), load)
	}
	alone := make([]errorrate.Generation, e.Ring.Buffers())
	for c := range copies(e) {
		if c.OverCapacity { // its cells are too full, or hold nothing any more
			rate++
			continue
		}
		u := c.Unseen(alone)
		if u.At.Generation <= p.Generation { // or else it has rotated since
			u.At.Elapsed = p.Elapsed
		}
		rate += u.Denied(1, limit-limit/4)
	}
	return rate / float64(samples(e))
}

// moreKeys is how many times as many keys a forecast reckons with.
const moreKeys = 4. / 3

// liveEntries returns how many keys of a bucket have an entry at a position, by some of
// its shards.
func liveEntries(e *engine.Engine, p rotating.Position) (live float64) {
	c, n := e.NewCopy(), samples(e)
	for i := range n {
		c.Read(i*engine.ShardsOf(e).Count()/n, p, nil)
		live += float64(c.Use().Live)
	}
	return live / float64(n) * float64(engine.ShardsOf(e).Count())
}

// distinctKeys returns the distinct keys of a generation, and whether there are too
// many in most shards to tell.
func distinctKeys(e *engine.Engine, generation int64) (distinct float64, full bool) {
	fulls := 0
	for c := range copies(e) {
		if age := c.At.Generation - generation; age >= 0 && age < int64(len(c.Ages)) {
			distinct += c.Ages[age].Distinct()
			if c.Ages[age].Full() {
				fulls++
			}
		}
	}
	return distinct / float64(samples(e)) * float64(engine.ShardsOf(e).Count()), 2*fulls > samples(e)
}

// samples returns the number of shards that are read for a look.
func samples(e *engine.Engine) int { return min(16, engine.ShardsOf(e).Count()) }

// copies ranges over copies of some shards, each as of its latest decision, and changes
// none: those that have not rotated yet are of an earlier generation.
func copies(e *engine.Engine) iter.Seq[*engine.Copy] {
	return func(yield func(*engine.Copy) bool) {
		c, n := e.NewCopy(), samples(e)
		for i := range n {
			if c.Read(i*engine.ShardsOf(e).Count()/n, rotating.Position{Generation: math.MinInt64}, nil); !yield(c) {
				return
			}
		}
	}
}
