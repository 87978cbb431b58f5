package sketchlimit

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/clock"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Resolution is how late the default clock may be, in addition to the scheduler's delays.
const Resolution = clock.Resolution

// WindowManager counts time in generations: spans of one length, aligned to the Unix
// epoch, numbered floor(unix time / length). It serves a [Limiter]; few callers need
// one of their own.
//
// The first time, of [WindowManager.At] or of the clock at the first
// [WindowManager.Now], may be any.
//
// Generations never go back. A time before the latest generation that the manager has
// seen counts as that generation's first instant, so a clock that steps back reopens no
// window that has closed: until it has caught up, keys have only what is left of the
// latest window's quota. RetryAfter and ResetAfter still count from the caller's time.
// Inside the latest generation times are taken as they are. A jump ahead, however far,
// is a rotation like any other: after a time that is years ahead, from a damaged line
// of a log say, all earlier times count as the first instant of its generation.
//
// The default clock follows the wall clock ahead, however far, and never back: after a
// step back it goes on with the monotonic clock. So a machine that was suspended, or a
// container that was paused, is in the present generation at once, and no step back
// opens a generation again or makes one longer.
//
// Reading the clock costs about as much as the rest of a decision, so a [Limiter] reads
// the default clock at most once every [Resolution]. One ticker serves all limiters of
// the process, and stops while it would save nothing. The first decision of a tick
// reads the clock, and later decisions of the same tick use that time. It is late by up
// to the resolution, plus the delay of the ticker: a generation then ends that much
// later for all keys alike, and units of the previous one come free that much later.
// Nothing is admitted that would not have been admitted at that time. A limiter that
// was not asked in the tick before is never late.
//
// Inside a bubble of testing/synctest, decisions use the time of the bubble.
//
// A WindowManager is safe for concurrent use.
type WindowManager struct {
	line  rotating.Timeline
	clock func() time.Time
	grid  int64         // ns; a late manager takes the clock's time in whole multiples of it
	step  time.Duration // a sixteenth of a generation
	finer time.Duration // by which the word follows callers that bring the time
	late  bool          // the clock is read once in a tick
	word  atomic.Int64  // latest position that was seen, or unseen
	tick  atomic.Uint64 // during which the word is the clock's time, or clock.None
	asked atomic.Bool   // for the clock's time
	turns atomic.Uint64
	soon  func() // if not nil, called when a generation has begun, and sixteen times as it goes on
}

// Now returns the time of the default clock, not late by [Resolution]: the wall clock,
// followed ahead only, see [WindowManager]. Use it to pass one time to several
// limiters, or as [Config.Clock] where a time that is late by [Resolution] is not good
// enough.
func Now() time.Time { return clock.Now() }

// unseen is the word of a manager that has seen no time. It is less than all positions.
const unseen = math.MinInt64

// NewWindowManager returns a manager of generations of the given length (above 0).
// A nil clock is the wall clock, followed ahead only, see [WindowManager].
func NewWindowManager(length time.Duration, now func() time.Time) (*WindowManager, error) {
	if length <= 0 {
		return nil, fmt.Errorf("sketchlimit: generation of %v, must be above 0", length)
	}
	if now == nil {
		now = clock.Now
	}
	w := &WindowManager{line: rotating.NewTimeline(length), clock: now, grid: 1, step: max(1, length/16)}
	w.finer = min(w.step, max(length/16384, Resolution))
	w.word.Store(unseen)
	w.tick.Store(clock.None)
	return w, nil
}

// tell calls soon when a generation has begun or gone on.
func (w *WindowManager) tell() {
	if w.soon != nil {
		w.soon()
	}
}

// Now returns the position of the clock: the number of the generation, and the time
// since it began.
func (w *WindowManager) Now() (generation int64, elapsed time.Duration) {
	p := w.nowPosition()
	return p.Generation, p.Elapsed
}

// nowPosition is Now.
func (w *WindowManager) nowPosition() rotating.Position { return w.line.Unpack(w.nowWord()) }

// now returns the clock's position as a word, and its lag: how much later the word may
// be than the caller's own clock. Durations returned to callers are longer by the lag,
// because they count from the word's time. It is the resolution of a late manager, plus
// what a clock that stepped back has to catch up.
func (w *WindowManager) now() (word int64, lag time.Duration) {
	if w.upToDate() {
		return w.word.Load(), Resolution
	}
	return w.read()
}

// read returns what now does, and is called where the word is of an earlier tick.
func (w *WindowManager) read() (word int64, lag time.Duration) {
	if !w.asked.Load() {
		w.asked.Store(true)
	}
	if !w.late {
		return w.at(w.clock())
	}
	p, now, inside := w.refresh()
	if !inside {
		p = w.reach(p)
	}
	return w.line.Pack(p), w.lateLag(p, now)
}

// upToDate reports whether the word is the clock's time. Load the word afterwards: one
// loaded before may be as old as the latest decision. The compiler inlines it.
func (w *WindowManager) upToDate() bool { return w.tick.Load() == clock.Tick() }

// nowWord returns the word of now, for callers that return no durations.
func (w *WindowManager) nowWord() int64 {
	if w.upToDate() {
		return w.word.Load()
	}
	return w.readWord()
}

//go:noinline
func (w *WindowManager) readWord() int64 {
	word, _ := w.read()
	return word
}

// refresh reads the clock of a late manager. It returns the position of the time, on
// the grid, and whether that is inside the latest generation. If so, and decisions go
// by the clock, the word is that position until the tick ends.
func (w *WindowManager) refresh() (p rotating.Position, now time.Time, inside bool) {
	word := w.word.Load() // before the clock: a reading never replaces a later one
	now, tick := clock.Read()
	p = w.position(now)
	p.Elapsed -= p.Elapsed % time.Duration(w.grid)
	if word == unseen || w.line.Generation(word) != p.Generation {
		return p, now, false
	}
	if w.asked.Load() && w.word.CompareAndSwap(word, w.line.Pack(p)) {
		w.tick.Store(tick)
		before := w.line.Unpack(word).Elapsed
		if tick == clock.None && p.Elapsed >= before && p.Elapsed < before+Resolution {
			clock.Start() // it would have saved this reading
		}
		if before/w.step != p.Elapsed/w.step {
			w.tell()
		}
	}
	return p, now, true
}

// lateLag is lag for a late manager.
func (w *WindowManager) lateLag(p rotating.Position, now time.Time) time.Duration {
	return Resolution + max(0, w.lag(p, now))
}

// latest returns the position of the clock if decisions use it. Otherwise it returns
// the clock's position if that is in the latest generation, and a position in that
// generation if it is not. Before a time was seen, it returns a position before all
// generations.
func (w *WindowManager) latest() rotating.Position {
	if w.asked.Load() {
		p, _ := w.lookNow()
		return p
	}
	word := w.word.Load()
	if word == unseen {
		return rotating.Position{Generation: math.MinInt64}
	}
	if p := w.position(w.clock()); p.Generation == w.line.Generation(word) {
		return p
	}
	return w.line.Unpack(word)
}

// at is At as a word, with its lag.
func (w *WindowManager) at(now time.Time) (word int64, lag time.Duration) {
	p := w.reach(w.position(now))
	return w.line.Pack(p), w.lag(p, now)
}

// look is Look with its lag.
func (w *WindowManager) look(now time.Time) (p rotating.Position, lag time.Duration) {
	p = w.position(now)
	if latest := w.Latest(); p.Generation < latest {
		p = rotating.Position{Generation: latest}
	}
	return p, w.lag(p, now)
}

// lookNow is look at the clock.
func (w *WindowManager) lookNow() (p rotating.Position, lag time.Duration) {
	if w.upToDate() {
		return w.line.Unpack(w.word.Load()), Resolution
	}
	if !w.late {
		return w.look(w.clock())
	}
	p, now, inside := w.refresh()
	if latest := w.Latest(); !inside && p.Generation < latest {
		p = rotating.Position{Generation: latest}
	}
	return p, w.lateLag(p, now)
}

// lag returns how much later position p is than the time now.
func (w *WindowManager) lag(p rotating.Position, now time.Time) time.Duration {
	if p.Elapsed > 0 {
		return 0
	}
	return time.Duration(p.Generation*w.line.Length() - unixNano(now))
}

// At returns the position of now, and makes its generation the latest if it is ahead.
func (w *WindowManager) At(now time.Time) (generation int64, elapsed time.Duration) {
	p := w.reach(w.position(now))
	return p.Generation, p.Elapsed
}

// reach makes a position's generation the latest if it is ahead, and otherwise returns
// the position that p counts as. Inside the latest generation the word follows the
// positions in small steps, because Stats are as of the word.
func (w *WindowManager) reach(p rotating.Position) rotating.Position {
	for {
		word := w.word.Load()
		latest := w.line.Generation(word)
		if word != unseen && p.Generation == latest {
			before := w.line.Unpack(word).Elapsed
			if p.Elapsed-before >= w.finer && w.word.CompareAndSwap(word, w.line.Pack(w.finerOf(p))) && p.Elapsed/w.step > before/w.step {
				w.tell()
			}
			return p
		}
		if p.Generation < latest {
			return rotating.Position{Generation: latest}
		}
		if w.word.CompareAndSwap(word, w.line.Pack(w.finerOf(p))) {
			if word != unseen {
				w.turns.Add(1)
			}
			w.tell()
			return p
		}
	}
}

// finerOf returns a position rounded to the steps in which the word follows.
func (w *WindowManager) finerOf(p rotating.Position) rotating.Position {
	p.Elapsed -= p.Elapsed % w.finer
	return p
}

// Look returns the position that [WindowManager.At] would, and leaves the latest
// generation as it is.
func (w *WindowManager) Look(now time.Time) (generation int64, elapsed time.Duration) {
	p, _ := w.look(now)
	return p.Generation, p.Elapsed
}

// Latest returns the latest generation seen; before all generations if none was.
func (w *WindowManager) Latest() int64 { return w.line.Generation(w.word.Load()) }

// Turns returns how often a later generation has become the latest; a jump over
// several counts once.
func (w *WindowManager) Turns() uint64 { return w.turns.Load() }

func (w *WindowManager) position(now time.Time) rotating.Position {
	return w.line.Position(unixNano(now))
}

// unixNano returns [time.Time.UnixNano], cut to the years 1823 … 2116, which leaves
// pack one bit.
func unixNano(t time.Time) int64 {
	const last = 1 << 62
	switch s := t.Unix(); {
	case s >= last/int64(time.Second):
		return last - 1
	case s <= -last/int64(time.Second):
		return 1 - last
	}
	return t.UnixNano()
}
