// Package growth replaces an engine by a larger or smaller one, as its load asks for.
// It decides when and how large; package engine hands the counts over.
package growth

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/savestate"
	"github.com/sketchlimit/sketchlimit/internal/shared"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Growth replaces an engine by a larger or a smaller one, as the load asks for.
//
// It asks [engine.Engine.Replace] for the successor, which reads its predecessor's
// counts until [engine.Engine.LetGo]. A sketchlimit.Limiter calls Adapt as generations
// begin and go on.
type Growth struct {
	Current *atomic.Pointer[engine.Engine] // what decides
	Latest  func() int64                   // generation that the clock has seen

	Goal        float64                                  // false-denial rate of a new key
	Lowest      int64                                    // limit that the goal is for
	Least, Most int                                      // bytes of one limiter; of two together
	Around      int                                      // bytes of a limiter beside its engine
	Plan        func(bytes int) (spec.Dimensions, error) // the engine of a limiter of so many bytes
	Need        func(keys int) (int, error)              // bytes of a limiter for so many keys

	first shared.Shape // of the first engine

	mu               invariants.Mutex // guards what follows, and is held while a successor is made
	since            int64            // latest generation that the predecessor may have counted in
	looked           int64            // latest generation
	keys             float64          // distinct, in the latest generation that was looked at as a whole
	calm             int              // looks in a row after which half the memory would do
	admitted, denied uint64           // units, by engines that are gone
}

// NearEnd returns the time into a generation from which [Growth.Adapt] goes by all of
// it: 15 sixteenths.
func NearEnd(t *rotating.Timeline) time.Duration { return time.Duration(t.Length() / 16 * 15) }

const calmEnough = 16 // looks, one or two a generation

// Start gives the first engine the seeds of an engine that may be replaced. It calls
// soon where shards are about to be over capacity.
func (g *Growth) Start(soon func()) {
	e := g.Current.Load()
	g.first = shared.ShapeOf(e)
	invariants.SetRank(&g.mu, invariants.Rank{Level: invariants.Growth})
	e.SetApart()
	if e.OverCapacity != nil {
		e.OverCapacity.Grow = soon
	}
}

// Adapt lets a predecessor go whose counts have left the window, and otherwise replaces
// the engine if it is too small or far too large.
func (g *Growth) Adapt(now rotating.Position) {
	g.mu.Lock()
	defer g.mu.Unlock()
	begins := now.Generation != g.looked
	g.looked = now.Generation
	if !g.settle() {
		g.tellFull(true)
		return
	}
	e, bytes := g.Current.Load(), 0
	switch {
	case e.IsBucket():
		bytes = g.sizeOfBucket(e, now, begins)
	case begins:
		bytes = g.size(e, now.Generation-1)
	case now.Elapsed >= NearEnd(&e.Timeline):
		bytes = g.size(e, now.Generation)
	default:
		bytes = g.early(e, now)
	}
	if bytes > 0 {
		g.replace(bytes)
	}
	e = g.Current.Load()
	g.tellFull(g.room(e) <= worthGrowing(g.bytes(e)))
}

// tellFull passes on to engines that deny only proven keys whether there is nothing
// larger now.
func (g *Growth) tellFull(full bool) {
	if s := g.Current.Load().OverCapacity; s != nil {
		s.SetFull(full)
	}
}

// worthGrowing returns the bytes above which an engine is worth replacing a smaller one.
func worthGrowing(own int) int { return own + own/4 }

// Resize replaces the engine by one of so many bytes, unless what was replaced before
// still matters. It tells whether it did.
func (g *Growth) Resize(bytes int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.settle() {
		return false
	}
	e := g.Current.Load()
	g.replace(bytes)
	g.tellFull(g.room(g.Current.Load()) <= worthGrowing(g.bytes(g.Current.Load())))
	return g.Current.Load() != e
}

// Grown reports whether the limiter is larger than it was made.
func (g *Growth) Grown() bool {
	e := g.Current.Load()
	return e.Before() != nil || g.bytes(e) > g.Least
}

// Gone returns the units of engines that are gone, those denied beside others, and the
// engine that decides.
func (g *Growth) Gone(denied uint64) (uint64, uint64, *engine.Engine) {
	g.mu.Lock() // nothing is replaced meanwhile
	defer g.mu.Unlock()
	return g.admitted, denied + g.denied, g.Current.Load()
}

// settle lets a predecessor go whose counts have left the window, and reports whether
// there is none any more.
func (g *Growth) settle() bool {
	e, latest := g.Current.Load(), g.Latest()
	before := e.Before()
	if before == nil {
		return true
	}
	if latest < g.since+e.Kept() {
		return false
	}
	admitted, denied := before.Units()
	g.admitted += admitted
	g.denied += denied
	e.LetGo(latest)
	return true
}

// replace makes an engine of so many bytes the current one, if one can be so small.
func (g *Growth) replace(bytes int) {
	d, err := g.Plan(bytes)
	if err != nil {
		return
	}
	next, err := g.Current.Load().Replace(d)
	if err != nil {
		panic(err) // the plan is of our own making
	}
	g.Current.Store(next)
	g.since = g.Latest()
}

// size returns how large the next engine is to be, in bytes, by a generation that
// has ended or is about to; 0 where the present one will do.
func (g *Growth) size(e *engine.Engine, generation int64) int {
	var full bool
	g.keys, full = distinctKeys(e, generation)
	if rate := forecast(e, rotating.Position{Generation: generation, Elapsed: time.Duration(e.Timeline.Length() - 1)}, g.Lowest); rate > g.Goal {
		g.calm = 0
		return g.larger(e, rate, g.keys)
	}
	return g.smaller(e, full)
}

// sizeOfBucket is size for a token bucket, whose table tells at any time what is in use.
func (g *Growth) sizeOfBucket(e *engine.Engine, now rotating.Position, begins bool) int {
	g.keys = liveEntries(e, now)
	if rate := forecast(e, now, g.Lowest); rate > g.Goal {
		g.calm = 0
		return g.larger(e, rate, moreKeys*g.keys)
	}
	if !begins {
		return 0
	}
	return g.smaller(e, false)
}

// smaller returns half the memory if that has been enough for long, or else 0. Load
// that has gone may be back soon: a smaller one comes late, and is half as large.
func (g *Growth) smaller(e *engine.Engine, full bool) int {
	need, err := g.Need(max(1, int(g.keys)))
	half := g.bytes(e) / 2
	if err != nil || full || half < max(2*need, g.Least) || half > g.room(e) {
		g.calm = 0
		return 0
	}
	if g.calm++; g.calm < calmEnough {
		return 0
	}
	g.calm = 0
	return half
}

// early is size in the midst of a generation. What replaces the engine now has to last
// for the rest of the generation and the next, so it is to bear as many keys as there
// will be if they go on to come as they have.
func (g *Growth) early(e *engine.Engine, now rotating.Position) int {
	keys, _ := distinctKeys(e, now.Generation)
	return g.larger(e, forecast(e, now, g.Lowest), keys*float64(e.Timeline.Length())/float64(max(now.Elapsed, 1)))
}

// mostGrowth is how many times as large as an engine the next one is, at most: what it
// goes by may be a moment's burst.
const mostGrowth = 16

// larger returns how much a forecast above the goal asks for, and so many keys; 0 for a
// forecast that is not above it.
func (g *Growth) larger(e *engine.Engine, rate, keys float64) int {
	if rate <= g.Goal {
		return 0
	}
	own, factor := g.bytes(e), 1
	// The rate falls by the third power of the memory or faster.
	for ; rate > g.Goal && factor < mostGrowth; rate /= 8 {
		factor *= 2
	}
	bytes := factor * own
	if need, err := g.Need(int(min(max(keys, 1), math.MaxInt32))); err == nil {
		bytes = max(bytes, min(need, mostGrowth*own))
	}
	if bytes = min(bytes, g.room(e)); bytes > worthGrowing(own) {
		return bytes
	}
	return 0
}

// room returns the bytes that there are for a successor: the present one is kept for a
// while.
func (g *Growth) room(e *engine.Engine) int { return g.Most - g.bytes(e) }

// bytes returns those of a limiter with this engine.
func (g *Growth) bytes(e *engine.Engine) int { return g.Around + e.Bytes() }

// Share makes the limiter one of several that hold their limit together, see
// [shared.NewGrowing].
func (g *Growth) Share(hash uint64) *shared.Counters {
	g.mu.Lock()
	defer g.mu.Unlock()
	return shared.NewGrowing(g.Current.Load, g.first, hash)
}

// Stages returns the present engine and its predecessor. Together they hold all units
// that were admitted before the call, also if the engine is replaced afterwards: it
// keeps its counts.
func (g *Growth) Stages() savestate.Stages {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.Current.Load()
	return savestate.Stages{Engine: e, Before: e.Before(), Since: g.since}
}

// Become makes what was read the current engine, unless units have been admitted.
func (g *Growth) Become(restored savestate.Stages) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.Current.Load()
	if g.admitted > 0 {
		return savestate.ErrLate
	}
	if err := restored.Replace(savestate.Stages{Engine: e, Before: e.Before(), Since: g.since}); err != nil {
		return err
	}
	g.Current.Store(restored.Engine)
	g.since = restored.Since
	return nil
}
