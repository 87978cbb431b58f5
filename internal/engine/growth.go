package engine

import (
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Growth replaces an engine by a larger or a smaller one, as the load asks for.
//
// A decision that holds its shard's lock looks whether its engine has a successor, and begins anew there if so.
// So once a successor has read a shard, under the same lock, nothing is counted there any more.
type Growth struct {
	Current *atomic.Pointer[Engine] // what decides
	Latest  func() int64            // generation that the clock has seen

	Goal        float64                                  // false-denial rate of a new key
	Lowest      int64                                    // limit that the goal is for
	Least, Most int                                      // bytes of one limiter; of two together
	Around      int                                      // bytes of a limiter beside its engine
	Plan        func(bytes int) (spec.Dimensions, error) // the engine of a limiter of so many bytes
	Need        func(keys int) (int, error)              // bytes of a limiter for so many keys

	mu               invariants.Mutex // guards what follows, and is held while a successor is made
	since            int64            // latest generation that the predecessor may have counted in
	looked           int64            // latest generation
	keys             float64          // distinct, in the latest generation that was looked at as a whole
	calm             int              // looks in a row after which half the memory would do
	admitted, denied uint64           // units, by engines that are gone
}

// NearEnd returns the time into a generation from which [Growth.Adapt] goes by all of it: 15 sixteenths.
func NearEnd(t *rotating.Timeline) time.Duration { return time.Duration(t.Length() / 16 * 15) }

const calmEnough = 16 // looks, one or two a generation

// Start gives the first engine the seeds of an engine that may be replaced. It calls soon where Adapt is due.
func (g *Growth) Start(soon func()) {
	e := g.Current.Load()
	invariants.SetRank(&g.mu, invariants.Rank{Level: invariants.Growth})
	setApart(e)
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

// tellFull tells engines that spare keys beyond the plan whether there is nothing larger now.
func (g *Growth) tellFull(full bool) {
	if s := g.Current.Load().OverCapacity; s != nil {
		s.SetFull(full)
	}
}

// worthGrowing returns the bytes above which an engine is worth replacing a smaller one.
func worthGrowing(own int) int { return own + own/4 }

// Resize replaces the engine by one of so many bytes, unless what was replaced before still
// matters. It tells whether it did.
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
	return e.before() != nil || g.bytes(e) > g.Least
}

// Gone returns the units of engines that are gone, those denied beside others, and the engine that decides.
func (g *Growth) Gone(denied uint64) (uint64, uint64, *Engine) {
	g.mu.Lock() // nothing is replaced meanwhile
	defer g.mu.Unlock()
	return g.admitted, denied + g.denied, g.Current.Load()
}

// settle lets a predecessor go whose counts have left the window, and tells whether there
// is none any more.
func (g *Growth) settle() bool {
	e, latest := g.Current.Load(), g.Latest()
	before := e.before()
	if before == nil {
		return true
	}
	if latest < g.since+e.Kept() {
		return false
	}
	admitted, denied := before.Units()
	g.admitted += admitted
	g.denied += denied
	// A decision that was held up since may come with a time of back then. Once its
	// shard has rotated it is taken as of now, where the predecessor does not matter.
	rotateAll(e, latest)
	letGo(e, before)
	return true
}

// replace makes an engine of so many bytes the current one, if one can be so small.
func (g *Growth) replace(bytes int) {
	d, err := g.Plan(bytes)
	if err != nil {
		return
	}
	e := g.Current.Load()
	next, err := New(e.Rule, d, e.seed, e.flooded)
	if err != nil {
		panic(err) // the plan is of our own making
	}
	if e.Spares() {
		g.tellFull(false) // so no shard begins to spare from now on
		settleAfter(next, e)
	}
	const page = 4096 / 8
	for i := 0; i < len(next.memory); i += page {
		next.memory[i] = 0 // here, rather than in requests, the system hands it out
	}
	next.audit = e.audit
	setApart(next)
	next.follow(e)
	if invariants.On {
		rankAfter(next, e, nil)
	}
	e.next.Store(next)
	next.predecessor().seal()
	g.Current.Store(next)
	g.since = g.Latest()
}

// setApart gives the engine seeds that its predecessor and its successor, which are of other sizes, do not have:
// two keys that meet in one of them are strangers in the other, and their readings add up as Stats has it.
func setApart(e *Engine) { e.turnSeed = keyhash.Mix(e.turnSeed, uint64(len(e.memory))) }

// letGo ends that the counts of the predecessor matter, and counts the units that it spared as those of the past, both at
// once, see Episode.
func letGo(e *Engine, before *Engine) {
	if s := e.OverCapacity; s != nil && e.Spares() {
		_, units := before.overCapacityUnits(rotating.Position{})
		s.EndAll(units, func() { e.follow(nil) })
		return
	}
	e.follow(nil)
}

// size returns how large the next engine is to be, in bytes, by a generation that
// has ended or is about to; 0 where the present one will do.
func (g *Growth) size(e *Engine, generation int64) int {
	var full bool
	g.keys, full = distinctKeys(e, generation)
	if rate := forecast(e, rotating.Position{Generation: generation, Elapsed: time.Duration(e.Timeline.Length() - 1)}, g.Lowest); rate > g.Goal {
		g.calm = 0
		return g.larger(e, rate, g.keys)
	}
	return g.smaller(e, full)
}

// sizeOfBucket is size for a token bucket, whose table tells at any time what is in use.
func (g *Growth) sizeOfBucket(e *Engine, now rotating.Position, begins bool) int {
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

// smaller returns half the memory if that has been enough for long, or else 0. Load that has gone may be back soon: a
// smaller one comes late, and is half as large.
func (g *Growth) smaller(e *Engine, full bool) int {
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

// early is size in the midst of a generation. What replaces the engine now has to last for the rest of the generation and
// the next, so it is to bear as many keys as there will be if they go on to come as they have.
func (g *Growth) early(e *Engine, now rotating.Position) int {
	keys, _ := distinctKeys(e, now.Generation)
	return g.larger(e, forecast(e, now, g.Lowest), keys*float64(e.Timeline.Length())/float64(max(now.Elapsed, 1)))
}

// mostGrowth is how many times as large as an engine the next one is, at most: what it goes by may be a moment's burst.
const mostGrowth = 16

// larger returns how much a forecast above the goal asks for, and so many keys; 0 for a forecast that is not above it.
func (g *Growth) larger(e *Engine, rate, keys float64) int {
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

// room returns the bytes that there are for a successor: the present one is kept for a while.
func (g *Growth) room(e *Engine) int { return g.Most - g.bytes(e) }

// bytes returns those of a limiter with this engine.
func (g *Growth) bytes(e *Engine) int { return g.Around + e.Bytes() }

// Footprint returns the bytes of the engine and of what it has replaced.
func (e *Engine) Footprint() int {
	bytes := e.Bytes()
	if before := e.before(); before != nil {
		bytes += before.Bytes()
	}
	return bytes
}

// forecast returns the false-denial rate that there would be at a position if a third more had
// come, which is about that of three quarters of the limit. The cliff where everybody is denied
// is so steep that a tenth more keys can make a thousand times the rate, and clients
// with history are over it before new ones: a forecast sees it ahead.
func forecast(e *Engine, p rotating.Position, limit int64) (rate float64) {
	if e.IsBucket() {
		load := moreKeys * liveEntries(e, p) / float64(len(e.shards)*e.times.Lines()*e.times.Entries())
		return timetable.RefusedAt(e.times.Entries(), load)
	}
	alone := make([]errorrate.Generation, e.Ring.Buffers())
	for s := range copies(e) {
		if s.spares { // its cells are too full, or hold nothing any more
			rate++
			continue
		}
		at := s.at
		if at.Generation <= p.Generation { // or else it has rotated since
			at.Elapsed = p.Elapsed
		}
		one := piece{e: e, at: at, ages: s.ages, former: alone}
		rate += one.denied(1, limit-limit/4)
	}
	return rate / float64(samples(e))
}

// moreKeys is how many times as many keys a forecast reckons with.
const moreKeys = 4. / 3

// liveEntries returns how many keys of a bucket have an entry at a position, by some of its shards.
func liveEntries(e *Engine, p rotating.Position) (live float64) {
	c, n := newCopy(e), samples(e)
	for i := range n {
		at, _ := copyShard(e, i*len(e.shards)/n, p, c, nil)
		ticks, _ := e.Bucket.Ticks(at.Elapsed)
		live += float64(e.times.Use(bucket{c.request(0, 0)}.table(), uint32(ticks), 0).Live)
	}
	return live / float64(n) * float64(len(e.shards))
}

// distinctKeys returns the distinct keys of a generation, and whether there are too many in most shards to tell.
func distinctKeys(e *Engine, generation int64) (distinct float64, full bool) {
	fulls := 0
	for s := range copies(e) {
		if age := s.at.Generation - generation; age >= 0 && age < int64(len(s.ages)) {
			distinct += s.ages[age].Distinct()
			if s.ages[age].Full() {
				fulls++
			}
		}
	}
	return distinct / float64(samples(e)) * float64(len(e.shards)), 2*fulls > samples(e)
}

// samples returns the number of shards that are read for a look.
func samples(e *Engine) int { return min(16, len(e.shards)) }

// copied is a copy of a shard as of its latest decision.
type copied struct {
	at     rotating.Position
	ages   []errorrate.Generation
	spares bool
}

// copies copies some shards, and changes none: those that have not rotated yet are of an
// earlier generation.
func copies(e *Engine) iter.Seq[copied] {
	return func(yield func(copied) bool) {
		c, n := newCopy(e), samples(e)
		for i := range n {
			at, ages := copyShard(e, i*len(e.shards)/n, rotating.Position{Generation: math.MinInt64}, c, nil)
			if !yield(copied{at, ages, e.Spares() && c.request(0, 0).state().mode == sparing}) {
				return
			}
		}
	}
}

// rotateAll begins a generation in all shards.
func rotateAll(e *Engine, generation int64) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		e.request(i, 0).rotate(rotating.Position{Generation: generation})
		s.mu.Unlock()
	}
}
