package sketchlimit

import (
	"fmt"
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
	// Grow looks at the false-denial rate when a generation begins, and by the wall clock
	// also shortly before it ends. Where it has passed its goal, a larger limiter takes over, up to Config.MaxMemoryBytes; when
	// the load has gone, a smaller one does, down to the size of the beginning. What is
	// replaced is read on, and not written to, until its counts have left the window:
	// no unit is forgotten, and both are in MemoryBytes meanwhile.
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
	calm             int        // looks in a row after which half the memory would do
	admitted, denied uint64     // units, by limiters that are gone
}

// growthBytes is what a growing limiter takes besides its inner ones.
const growthBytes = (int(unsafe.Sizeof(Limiter{}))+8+127)&^127 + int(unsafe.Sizeof(growth{}))

const (
	ratedShards = 64 // that are read for the rate, if there are more
	calmEnough  = 6  // looks, one or two a generation
)

// growing returns a limiter that decides by inner ones, of which the first is given.
func growing(first *Limiter, c Config) (*Limiter, error) {
	if least := growthBytes + first.ownBytes(); c.MaxMemoryBytes < least {
		return nil, fmt.Errorf("sketchlimit: MaxMemoryBytes %d, must be at least %d, what the limiter begins with", c.MaxMemoryBytes, least)
	}
	l := &Limiter{layout: first.layout, windows: first.windows}
	l.growth = &growth{config: c, goal: c.goal(), least: first.ownBytes()}
	l.inner.Store(first)
	l.windows.turned = make(chan struct{}, 1)
	l.windows.background()
	go keep(weak.Make(l), l.windows)
	return l, nil
}

// keep adapts the limiter when generations begin and shortly before, until it is closed.
func keep(limiter weak.Pointer[Limiter], windows *WindowManager) {
	for {
		select {
		case <-windows.turned:
			if l := limiter.Value(); l != nil {
				l.adapt()
			}
		case <-windows.stop:
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
	if !l.settle() {
		return
	}
	if bytes := g.size(l.inner.Load()); bytes > 0 {
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
	in.before.Store(nil)
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
	next.before.Store(l.inner.Load())
	l.inner.Store(next)
	g.since = l.windows.Latest()
}

// size returns how large the next inner limiter is to be, in bytes; 0 where the present
// one will do.
func (g *growth) size(in *Limiter) int {
	rate, keys, full := in.load()
	own := in.ownBytes()
	room := g.config.MaxMemoryBytes - growthBytes - own // the present one is kept for a while
	if rate > g.goal {
		g.calm = 0
		// The rate falls by the fourth power of the memory or faster.
		factor := 2
		for rate /= 16; rate > g.goal && factor < 16; rate /= 16 {
			factor *= 2
		}
		if bytes := min(factor*own, room); bytes > own+own/4 {
			return bytes
		}
		return 0
	}
	need, err := g.config.memoryFor(max(1, keys))
	bytes := max(2*need, g.least)
	if err != nil || full || bytes > own/2 || bytes > room {
		g.calm = 0
		return 0
	}
	if g.calm++; g.calm < calmEnough {
		return 0
	}
	g.calm = 0
	return bytes
}

// load returns the false-denial rate at the end of the generation that has just ended, or
// is about to, its distinct keys, and whether the doorkeepers were too full to tell these.
// It reads some shards and changes none: those that have not turned yet hold that
// generation as their current one.
func (l *Limiter) load() (rate float64, keys int, full bool) {
	now := l.windows.unpack(l.windows.word.Load())
	memory := make([]uint64, l.size)
	n := min(ratedShards, len(l.shards))
	distinct, fill := 0.0, 0.0
	for i := range n {
		at, ages := l.copyShard(i*len(l.shards)/n, Position{Generation: math.MinInt64}, memory)
		ended := &ages[0]
		if at.Generation < now.Generation || now.Elapsed >= nearEnd(l.length) {
			at.Elapsed = time.Duration(l.length - 1)
		} else if len(ages) > 1 {
			ended = &ages[1]
		}
		rate += l.falseDenialRate(at, ages, nil) / float64(n)
		distinct += ended.distinct() * float64(len(l.shards)) / float64(n)
		fill += ended.door.FillRatio() / float64(n)
	}
	return rate, int(distinct), fill > 0.9
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
