package sketchlimit

import (
	"unsafe"
	"weak"

	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
)

// growthBytes is what a limiter that grows takes besides its engines: the last part is for the goroutine that keeps
// it, see sizing.Overhead.
const growthBytes = int(unsafe.Sizeof(engine.Growth{})) + 976

// grows makes ready for engines that replace the first one.
func (l *Limiter) grows() {
	c, need := l.config, l.config.need()
	l.growth = &engine.Growth{
		Current: &l.engine, Latest: l.windows.Latest,
		Goal: c.goal(), Lowest: int64(c.lowest()),
		Least: sizing.Overhead + l.engine.Load().Bytes(), Most: c.MaxMemoryBytes - growthBytes, Around: sizing.Overhead,
		Plan: need.PlanFor, Need: need.MemoryFor,
	}
	l.growth.Start(l.windows.tell)
	l.windows.turned = make(chan struct{}, 1)
	go keep(weak.Make(l), l.windows.turned, l.windows.background().stop)
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

// adapt replaces the engine if it is too small or far too large.
func (l *Limiter) adapt() {
	if word := l.windows.word.Load(); word != unseen {
		l.growth.Adapt(l.windows.line.Unpack(word))
	}
}
