package sketchlimit

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/engine"
)

// Resolution is how often a running [WindowManager] reads the clock.
const Resolution = time.Millisecond

// WindowManager tells time in generations: spans of one length, aligned to the Unix
// epoch, numbered floor(unix time / length). It serves a [Limiter]; few callers need one of their own.
//
// Time begins with the first time that comes: that of the first [WindowManager.At], or of the clock at the first
// [WindowManager.Now]. Before it any time will do.
//
// Generations never go back. A time before the latest generation that the
// manager has seen counts as that generation's first instant, so a clock that
// steps back reopens no window that has closed: until it has caught up, keys have only
// what is left of the latest window's quota. RetryAfter and ResetAfter still count from the
// caller's time. Inside the latest generation times are taken as they are. A jump ahead, however
// far, is a turn like any other. It is believed: a time that is years ahead, from a damaged line of a log say, is from then
// on the latest, and all earlier times count as the first instant of its generation.
//
// Reading the clock costs more than the rest of a decision, so a manager that
// runs reads it once every [Resolution] from the first Now on, and Now is a load of one
// word. That word is late by up to the resolution, and by more where the scheduler
// is: a generation then ends that much later for everybody alike, and units of the
// previous one come free that much later. Nothing is admitted that would not have
// been admitted at the time the word says.
//
// A WindowManager is safe for concurrent use.
type WindowManager struct {
	line   engine.Timeline
	clock  func() time.Time
	grid   int64         // ns; what runs reads the clock in whole multiples of it
	step   time.Duration // a sixteenth of a generation
	finer  time.Duration // by which the word follows callers that bring the time
	word   atomic.Int64  // latest position that was seen, or unseen
	turns  atomic.Uint64
	ticks  atomic.Bool   // a goroutine is there to read the clock
	runs   atomic.Bool   // and does
	asked  atomic.Bool   // for the clock's time
	turned chan struct{} // if not nil, told that a generation has begun, and sixteen times as it goes on
	behind *background   // nil where nothing goes on in the background
}

// unseen is the word of a manager that has seen no time. It is before all positions.
const unseen = math.MinInt64

// background ends goroutines. It does not know the clock, which may be the caller's and know the limiter: what
// waits for the limiter to be gone must not keep it.
type background struct {
	stop  chan struct{}
	ended sync.Once
}

func (b *background) end() { b.ended.Do(func() { close(b.stop) }) }

// NewWindowManager returns a manager of generations of the given length (above 0).
// A nil clock is the wall clock at the moment of the call, carried on by the
// monotonic clock: steps of the wall clock do not reach it.
func NewWindowManager(length time.Duration, clock func() time.Time) (*WindowManager, error) {
	if length <= 0 {
		return nil, fmt.Errorf("sketchlimit: generation of %v, must be above 0", length)
	}
	if clock == nil {
		start := time.Now()
		clock = func() time.Time { return start.Add(time.Since(start)) }
	}
	w := &WindowManager{line: engine.NewTimeline(length), clock: clock, grid: 1, step: max(1, length/16)}
	w.finer = min(w.step, max(length/16384, Resolution))
	w.word.Store(unseen)
	return w, nil
}

// run makes ready for reading the clock in the background, from the first Now until close.
func (w *WindowManager) run() {
	stop := w.background().stop
	w.ticks.Store(true)
	go func() {
		ticker := time.NewTicker(Resolution)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				if w.runs.Load() {
					w.publish(w.clock())
				} else if p := w.position(w.clock()); p.Generation == w.Latest() {
					w.reach(p) // callers that bring the time themselves bring this one
				}
			case <-stop:
				return
			}
		}
	}()
}

// background makes ready for goroutines that end with close.
func (w *WindowManager) background() *background {
	if w.behind == nil {
		w.behind = &background{stop: make(chan struct{})}
	}
	return w.behind
}

// close ends run; from then on Now reads the clock itself.
func (w *WindowManager) close() {
	w.ticks.Store(false)
	w.runs.Store(false)
	if w.behind != nil {
		w.behind.end()
	}
}

// publish makes now, less what is beyond the grid, the latest position unless its generation
// has passed.
func (w *WindowManager) publish(now time.Time) {
	p := w.position(now)
	p.Elapsed -= p.Elapsed % time.Duration(w.grid)
	if p.Generation != w.Latest() {
		w.reach(p)
	}
	if word := w.word.Load(); w.line.Generation(word) == p.Generation {
		w.word.CompareAndSwap(word, w.line.Pack(p)) // if it fails the word is newer still
		if w.line.Unpack(word).Elapsed/w.step != p.Elapsed/w.step {
			w.tell()
		}
	}
}

// tell lets whoever listens know that a generation has begun or gone on.
func (w *WindowManager) tell() {
	select {
	case w.turned <- struct{}{}:
	default:
	}
}

// Now returns the position of the clock, or of its latest reading if the manager runs: the number of the generation, and
// the time since it began.
func (w *WindowManager) Now() (generation int64, elapsed time.Duration) {
	p := w.nowPosition()
	return p.Generation, p.Elapsed
}

// nowPosition is Now.
func (w *WindowManager) nowPosition() engine.Position { return w.line.Unpack(w.nowWord()) }

// now is Now as a word, with its lag. Durations count from the word's time, and the caller waits by a clock of
// his own, so he is told durations that are longer by the lag: by the resolution of a manager that runs, or by
// what a clock that stepped back has to catch up.
func (w *WindowManager) now() (word int64, lag time.Duration) {
	if w.runs.Load() {
		return w.word.Load(), Resolution
	}
	return w.read()
}

// read is now for a manager that does not run yet, or never will.
func (w *WindowManager) read() (word int64, lag time.Duration) {
	if !w.asked.Load() {
		w.asked.Store(true)
	}
	if !w.ticks.Load() {
		return w.at(w.clock())
	}
	w.publish(w.clock())
	w.runs.Store(true)
	if !w.ticks.Load() { // closed meanwhile
		w.runs.Store(false)
	}
	return w.word.Load(), Resolution
}

// nowWord is now for callers that tell no durations. The compiler inlines it.
func (w *WindowManager) nowWord() int64 {
	if w.runs.Load() {
		return w.word.Load()
	}
	return w.readWord()
}

//go:noinline
func (w *WindowManager) readWord() int64 {
	word, _ := w.read()
	return word
}

// latest returns the position of the clock if decisions go by it. Otherwise it returns the clock's if that is in the
// latest generation, and a position of that generation if not. Before a time was seen it is before all generations.
func (w *WindowManager) latest() engine.Position {
	if w.asked.Load() {
		p, _ := w.lookNow()
		return p
	}
	word := w.word.Load()
	if word == unseen {
		return engine.Position{Generation: math.MinInt64}
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
func (w *WindowManager) look(now time.Time) (p engine.Position, lag time.Duration) {
	p = w.position(now)
	if latest := w.Latest(); p.Generation < latest {
		p = engine.Position{Generation: latest}
	}
	return p, w.lag(p, now)
}

// lookNow is look at the clock.
func (w *WindowManager) lookNow() (p engine.Position, lag time.Duration) {
	if w.runs.Load() {
		return w.line.Unpack(w.word.Load()), Resolution
	}
	return w.look(w.clock())
}

// lag returns how much later than a time the position is that it is taken as.
func (w *WindowManager) lag(p engine.Position, now time.Time) time.Duration {
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

// reach makes a position's generation the latest if it is ahead, and otherwise returns what the position is taken as. Inside
// the latest generation the word follows the positions in small steps: Stats is as of the word.
func (w *WindowManager) reach(p engine.Position) engine.Position {
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
			return engine.Position{Generation: latest}
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

// finerOf returns a position as the word follows it.
func (w *WindowManager) finerOf(p engine.Position) engine.Position {
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

func (w *WindowManager) position(now time.Time) engine.Position { return w.line.Split(unixNano(now)) }

// unixNano is [time.Time.UnixNano] for the years 1823 to 2116; times before and after
// are drawn to the ends. That leaves pack a bit to spare.
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
