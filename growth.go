package sketchlimit

import (
	"sync/atomic"
	"time"
	"weak"

	"github.com/sketchlimit/sketchlimit/internal/growth"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// grows prepares the limiter to replace its engine.
func (l *Limiter) grows() {
	c, need := l.config, l.config.need()
	audit := sizing.AuditBytes(l.audit)
	around := sizing.Overhead + audit
	l.growth = &growth.Growth{
		Current: &l.engine, Latest: l.windows.Latest,
		Goal: c.goal(), Lowest: int64(c.lowest()),
		Least: around + l.engine.Load().Bytes(), Most: c.MaxMemoryBytes - growthBytes, Around: around,
		Plan: func(bytes int) (spec.Dimensions, error) { return need.PlanFor(bytes - audit) },
		Need: func(keys int) (int, error) {
			bytes, err := need.MemoryFor(keys)
			if c.Algorithm == TokenBucket { // of which keys at once are known
				bytes, err = need.MemoryForEntries(float64(keys) * need.Headroom)
			}
			return bytes + audit, err
		},
	}
	l.growth.Start(l.windows.tell)
	l.grower = &grower{limiter: weak.Make(l)}
	l.grower.work = l.grower.run
	l.windows.soon = l.grower.soon
}

// grower adapts a limiter's size when generations begin and as they go on, until it is
// closed. Its goroutine ends when there is no more to do. It holds the limiter weakly,
// because the limiter refers to it.
type grower struct {
	limiter weak.Pointer[Limiter]
	work    func() // run: made once, so that a decision that starts it allocates nothing
	state   atomic.Uint32
	waits   atomic.Bool // for the next generation
	closed  atomic.Bool
}

// The states of a grower.
const (
	idle    = iota
	adapts  // in a goroutine
	adapts2 // and once more after that
)

// soon starts the goroutine that adapts the limiter, or makes it run once more. It does
// not block.
func (g *grower) soon() {
	if g.closed.Load() {
		return
	}
	for {
		switch g.state.Load() {
		case idle:
			if g.state.CompareAndSwap(idle, adapts) {
				go g.work()
				return
			}
		case adapts:
			if g.state.CompareAndSwap(adapts, adapts2) {
				return
			}
		default:
			return
		}
	}
}

func (g *grower) run() {
	for {
		if l := g.limiter.Value(); l != nil && !g.closed.Load() {
			l.adapt()
			g.wait(l)
		}
		if g.state.CompareAndSwap(adapts, idle) {
			return
		}
		g.state.Store(adapts)
	}
}

// wait makes a limiter that has grown adapt near the end of the generation, and when
// the next begins, even without requests: it may have to shrink.
func (g *grower) wait(l *Limiter) {
	w := l.windows
	if !w.late || !w.asked.Load() || !l.growth.Grown() || !g.waits.CompareAndSwap(false, true) {
		return
	}
	_, elapsed := w.Now()
	next := growth.NearEnd(&w.line)
	if elapsed >= next {
		next = time.Duration(w.line.Length())
	}
	time.AfterFunc(next-elapsed+Resolution, func() {
		g.waits.Store(false)
		if l := g.limiter.Value(); l != nil && !g.closed.Load() {
			l.windows.nowWord()
			g.soon()
		}
	})
}

// adapt replaces the engine if it is too small or far too large.
func (l *Limiter) adapt() {
	if word := l.windows.word.Load(); word != unseen {
		l.growth.Adapt(l.windows.line.Unpack(word))
	}
}
