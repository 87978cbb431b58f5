package sketchlimit

import (
	"fmt"
	"iter"
	"math"
	"sync"
	"time"
	"unsafe"
	"weak"
)

// Overload is what a [Limiter] does when it meets more keys than it was made for.
type Overload int

const (
	// Deny keeps the memory, and errs more and more on one side: false denials.
	Deny Overload = iota
	// Grow looks at the false-denial rate that a third more load would lead to: when a
	// generation begins and, by the wall clock, shortly before it ends, and before that
	// once there are more keys than in all of the generation before. Where that rate
	// has passed its goal, a larger limiter takes over, up to Config.MaxMemoryBytes; when the
	// load has gone for eight generations or more, one half as large does, down to the
	// size of the beginning. What is replaced is read on, and not written to, until its
	// counts have left the window: no unit is forgotten, and both are in MemoryBytes meanwhile.
	Grow
)

// String returns the policy's name.
func (o Overload) String() string {
	switch o {
	case Deny:
		return "deny"
	case Grow:
		return "grow"
	}
	return fmt.Sprintf("Overload(%d)", int(o))
}

// growth is the part of a growing limiter that replaces its inner one.
//
// A decision that holds its shard's lock looks whether it is still the inner limiter that
// it began with, and begins anew if not. So once a successor has read a shard, under
// the same lock, nothing is counted there any more.
type growth struct {
	config Config
	goal   float64
	least  int // bytes

	mu               sync.Mutex // guards what follows, and is held while a successor is made
	since            int64      // latest generation that the predecessor may have counted in
	looked           int64      // latest generation
	keys             float64    // distinct, in the latest generation that was looked at as a whole
	calm             int        // looks in a row after which half the memory would do
	admitted, denied uint64     // units, by limiters that are gone
}

// growthBytes is what a growing limiter takes besides its inner ones: the last part is for the goroutine that keeps
// it, see clockBytes.
const growthBytes = (int(unsafe.Sizeof(Limiter{}))+8+127)&^127 + int(unsafe.Sizeof(growth{})) + 976

const calmEnough = 16 // looks, one or two a generation

// growing returns a limiter that decides by inner ones, of which the first is given.
func growing(first *Limiter, c Config) (*Limiter, error) {
	if least := growthBytes + first.ownBytes(); c.MaxMemoryBytes < least {
		return nil, fmt.Errorf("sketchlimit: MaxMemoryBytes %d, must be at least %d, what the limiter begins with", c.MaxMemoryBytes, least)
	}
	l := &Limiter{layout: first.layout, windows: first.windows}
	l.growth = &growth{config: c, goal: c.goal(), least: first.ownBytes()}
	first.outer = l
	first.apart()
	l.inner.Store(first)
	l.windows.turned = make(chan struct{}, 1)
	go keep(weak.Make(l), l.windows.turned, l.windows.background().stop)
	return l, nil
}

// keep adapts the limiter when generations begin and as they go on, until it is closed.
func keep(limiter weak.Pointer[Limiter], turned, stop <-chan struct{}) {
	for {
		select {
		case <-turned:
			select {
			case <-stop: // both were ready
				return
			default:
			}
			if l := limiter.Value(); l != nil {
				l.adapt()
			}
		case <-stop:
			return
		}
	}
}

// adapt lets a predecessor go whose counts have left the window, and otherwise replaces
// the inner limiter if it is too small or far too large.
func (l *Limiter) adapt() {
	g := l.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	now := l.windows.unpack(l.windows.word.Load())
	begins := now.Generation != g.looked
	g.looked = now.Generation
	if !l.settle() {
		return
	}
	in, bytes := l.inner.Load(), 0
	switch {
	case begins:
		bytes = g.size(in, now.Generation-1)
	case now.Elapsed >= nearEnd(l.length):
		bytes = g.size(in, now.Generation)
	default:
		bytes = g.early(in, now)
	}
	if bytes > 0 {
		l.replace(bytes)
	}
}

// settle lets a predecessor go whose counts have left the window, and tells whether there
// is none any more.
func (l *Limiter) settle() bool {
	g, in, latest := l.growth, l.inner.Load(), l.windows.Latest()
	before := in.before.Load()
	if before == nil {
		return true
	}
	if latest < g.since+int64(l.generations) {
		return false
	}
	admitted, denied := before.units()
	g.admitted += admitted
	g.denied += denied
	// A decision that was held up since may come with a time of back then. Once its
	// shard has turned it is taken as of now, where the predecessor does not matter.
	in.turn(latest)
	in.follow(nil)
	return true
}

// replace makes a limiter of so many bytes the inner one, if one can be so small.
func (l *Limiter) replace(bytes int) {
	g := l.growth
	plan, err := g.config.planFor(bytes)
	if err != nil {
		return
	}
	next, err := newLimiter(l.window, plan, l.hasher, l.windows)
	if err != nil {
		panic(err) // the plan is planFor's own
	}
	const page = 4096 / 8
	for i := 0; i < len(next.memory); i += page {
		next.memory[i] = 0 // here, rather than in requests, the system hands it out
	}
	next.outer = l
	next.apart()
	next.follow(l.inner.Load())
	l.inner.Store(next)
	g.since = l.windows.Latest()
}

// apart gives the limiter seeds that its predecessor and its successor, which are of other sizes, do not have:
// two keys that meet in one of them are strangers in the other, and their readings add up as Stats has it.
func (l *Limiter) apart() { l.turnSeed = mix(l.seed, uint64(len(l.memory))) }

// follow makes a limiter whose counts matter as well the predecessor, or none.
func (l *Limiter) follow(before *Limiter) {
	l.before.Store(before)
	l.beside.Store(before != nil)
}

// size returns how large the next inner limiter is to be, in bytes, by a generation that
// has ended or is about to; 0 where the present one will do.
func (g *growth) size(in *Limiter, generation int64) int {
	var full bool
	g.keys, full = in.keys(generation)
	if rate := in.forecast(Position{generation, time.Duration(in.length - 1)}, g.config.lowest()); rate > g.goal {
		g.calm = 0
		return g.larger(in, rate)
	}
	// Load that has gone may be back soon: a smaller one comes late, and is half as large.
	need, err := g.config.memoryFor(max(1, int(g.keys)))
	half := in.ownBytes() / 2
	if err != nil || full || half < max(2*need, g.least) || half > g.room(in) {
		g.calm = 0
		return 0
	}
	if g.calm++; g.calm < calmEnough {
		return 0
	}
	g.calm = 0
	return half
}

// early is size in the midst of a generation: 0 unless this one has more keys already than
// the one before had.
func (g *growth) early(in *Limiter, now Position) int {
	if keys, _ := in.keys(now.Generation); keys > g.keys {
		return g.larger(in, in.forecast(now, g.config.lowest()))
	}
	return 0
}

// larger returns how much a forecast above the goal asks for, 0 for one that is not.
func (g *growth) larger(in *Limiter, rate float64) int {
	own, factor := in.ownBytes(), 1
	// The rate falls by the fourth power of the memory or faster.
	for ; rate > g.goal && factor < 16; rate /= 16 {
		factor *= 2
	}
	if bytes := min(factor*own, g.room(in)); bytes > own+own/4 {
		return bytes
	}
	return 0
}

// room returns the bytes that there are for a successor: the present one is kept for a while.
func (g *growth) room(in *Limiter) int {
	return g.config.MaxMemoryBytes - growthBytes - in.ownBytes()
}

// forecast returns the false-denial rate that there would be at a position if a third more had
// come, which is about that of three quarters of the limit. The cliff where everybody is denied
// is so steep that a tenth more keys can make a thousand times the rate, and clients
// with history are over it before new ones: a forecast sees it ahead.
func (l *Limiter) forecast(p Position, limit int) (rate float64) {
	alone := make([]generation, l.generations)
	for at, ages := range l.sample() {
		if at.Generation <= p.Generation { // or else it has turned since
			at.Elapsed = p.Elapsed
		}
		s := piece{Limiter: l, at: at, ages: ages, former: alone}
		rate += s.denied(1, int64(limit-limit/4))
	}
	return rate / float64(l.samples())
}

// keys returns the distinct keys of a generation, and whether the doorkeepers are too full to
// tell.
func (l *Limiter) keys(generation int64) (distinct float64, full bool) {
	fill := 0.0
	for at, ages := range l.sample() {
		if age := at.Generation - generation; age >= 0 && age < int64(len(ages)) {
			distinct += ages[age].distinct()
			fill += ages[age].door.FillRatio()
		}
	}
	n := float64(l.samples())
	return distinct / n * float64(len(l.shards)), fill/n > 0.9
}

// samples returns the number of shards that are read for a look.
func (l *Limiter) samples() int { return min(16, len(l.shards)) }

// sample copies some shards, and changes none: those that have not turned yet are of an
// earlier generation.
func (l *Limiter) sample() iter.Seq2[Position, []generation] {
	return func(yield func(Position, []generation) bool) {
		memory, n := make([]uint64, l.size), l.samples()
		for i := range n {
			if !yield(l.copyShard(i*len(l.shards)/n, Position{Generation: math.MinInt64}, memory, nil)) {
				return
			}
		}
	}
}

// turn begins a generation in all shards.
func (l *Limiter) turn(generation int64) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		request{l, s, i * l.size, 0}.turn(Position{Generation: generation})
		s.mu.Unlock()
	}
}

// units returns what the limiter has admitted and denied under its locks.
func (l *Limiter) units() (admitted, denied uint64) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		admitted += s.admitted
		denied += s.denied
		s.mu.Unlock()
	}
	return admitted, denied
}
