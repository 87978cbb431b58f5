package sketchlimit

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Resolution is how often a running [WindowManager] reads the clock.
const Resolution = time.Millisecond

// WindowManager tells time in generations: spans of one length, aligned to the Unix
// epoch, numbered floor(unix time / length).
//
// Its generations never go back. A time before the latest generation that the
// manager has seen is taken as that generation's first instant, so a clock that
// steps back reopens no window that has closed: until it has caught up, what is
// left of the current quota is all there is. RetryAfter and ResetAfter still count from the
// caller's time. Inside the latest generation times are
// taken as they are. A jump ahead, however far, is a turn like any other.
//
// Reading the clock costs more than all else that a decision does, so a manager that
// runs reads it once every [Resolution], and [WindowManager.Now] is a load of one
// word. That word is late by up to the resolution, and by more where the scheduler
// is: a generation then ends that much later for everybody alike, and units of the
// previous one come free that much later. Nothing is admitted that would not have
// been admitted at the time the word says.
//
// A WindowManager is safe for concurrent use.
type WindowManager struct {
	clock  func() time.Time
	length int64        // of a generation, ns
	shift  uint8        // bits of the time into a generation
	grid   int64        // ns; what runs reads the clock in whole multiples of it
	word   atomic.Int64 // latest position: generation<<shift | elapsed
	turns  atomic.Uint64
	runs   atomic.Bool
	turned chan struct{} // if not nil, told that a generation has begun, and sixteen times as it goes on
	behind *background   // nil where nothing goes on in the background
}

// background ends goroutines. It does not know the clock, which may be the caller's and know the limiter: what
// waits for the limiter to be gone must not keep it.
type background struct {
	stop  chan struct{}
	ended sync.Once
}

func (b *background) end() { b.ended.Do(func() { close(b.stop) }) }

// Position is a moment as a limiter sees it.
type Position struct {
	Generation int64         // its number since the Unix epoch
	Elapsed    time.Duration // since the generation began: 0 … length-1ns
}

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
	w := &WindowManager{clock: clock, length: int64(length), grid: 1, shift: uint8(bits.Len64(uint64(length - 1)))}
	w.word.Store(w.pack(w.split(clock())))
	return w, nil
}

// run starts reading the clock in the background, until close.
func (w *WindowManager) run() {
	stop := w.background().stop
	w.publish(w.clock())
	w.runs.Store(true)
	go func() {
		ticker := time.NewTicker(Resolution)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				w.publish(w.clock())
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
	w.runs.Store(false)
	if w.behind != nil {
		w.behind.end()
	}
}

// publish makes now, less what is beyond the grid, the latest position unless its generation
// has passed.
func (w *WindowManager) publish(now time.Time) {
	p := w.At(now.Add(-w.split(now).Elapsed % time.Duration(w.grid)))
	if word := w.word.Load(); word>>w.shift == p.Generation {
		w.word.CompareAndSwap(word, w.pack(p)) // if it fails the word is newer still
		if step := nearEnd(w.length) / 15; w.unpack(word).Elapsed/step != p.Elapsed/step {
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

// Now returns the position of the clock, or of its latest reading if the manager runs.
func (w *WindowManager) Now() Position {
	return w.unpack(w.nowWord())
}

// now is Now as a word, with its lag. Durations count from the word's time, and the caller waits by a clock of
// his own, so he is told durations that are longer by the lag: by the resolution of a manager that runs, or by
// what a clock that stepped back has to catch up.
func (w *WindowManager) now() (word int64, lag time.Duration) {
	if w.runs.Load() {
		return w.word.Load(), Resolution
	}
	return w.read()
}

func (w *WindowManager) read() (word int64, lag time.Duration) { return w.at(w.clock()) }

// nowWord is now for whoever tells no durations. The compiler inlines it.
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

// at is At as a word, with its lag.
func (w *WindowManager) at(now time.Time) (word int64, lag time.Duration) {
	p := w.At(now)
	return w.pack(p), w.lag(p, now)
}

// look is Look with its lag.
func (w *WindowManager) look(now time.Time) (p Position, lag time.Duration) {
	p = w.Look(now)
	return p, w.lag(p, now)
}

// lag returns how much later than a time the position is that it is taken as.
func (w *WindowManager) lag(p Position, now time.Time) time.Duration {
	if p.Elapsed > 0 {
		return 0
	}
	return time.Duration(p.Generation*w.length - unixNano(now))
}

// At returns the position of now, and makes its generation the latest if it is ahead.
func (w *WindowManager) At(now time.Time) Position {
	p := w.split(now)
	for {
		word := w.word.Load()
		latest := word >> w.shift
		if p.Generation == latest {
			return p
		}
		if p.Generation < latest {
			return Position{latest, 0}
		}
		if w.word.CompareAndSwap(word, w.pack(p)) {
			w.turns.Add(1)
			w.tell()
			return p
		}
	}
}

// Look returns the position that [WindowManager.At] would, and leaves the latest
// generation as it is.
func (w *WindowManager) Look(now time.Time) Position {
	p := w.split(now)
	if latest := w.Latest(); p.Generation < latest {
		return Position{latest, 0}
	}
	return p
}

// Latest returns the latest generation seen.
func (w *WindowManager) Latest() int64 { return w.word.Load() >> w.shift }

// Turns returns how often a later generation has become the latest; a jump over
// several counts once.
func (w *WindowManager) Turns() uint64 { return w.turns.Load() }

// pack puts a position in a word. It has room: unix time in ns has 62 bits, and
// rounding the length of a generation up to a power of two adds less than one.
func (w *WindowManager) pack(p Position) int64 { return p.Generation<<w.shift | int64(p.Elapsed) }

func (w *WindowManager) unpack(word int64) Position {
	return Position{word >> (w.shift & 63), time.Duration(word & (1<<(w.shift&63) - 1))}
}

// split returns the position of a time, whatever the latest is.
func (w *WindowManager) split(now time.Time) Position {
	ns := unixNano(now)
	generation, rest := ns/w.length, ns%w.length
	if rest < 0 { // before 1970: round down, not towards 0
		generation, rest = generation-1, rest+w.length
	}
	return Position{generation, time.Duration(rest)}
}

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
