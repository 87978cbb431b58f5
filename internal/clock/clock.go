// Package clock is the time of limiters that are given no Clock: one for the process.
//
// # The time
//
// [Now] is the later of two: the wall clock, and the latest time that the wall clock
// has shown, carried on by the monotonic clock. Where the monotonic clock stood still,
// as it does in a suspended machine, the wall clock is ahead and Now follows it at
// once. Where the wall clock was set back, Now goes on with the monotonic clock. So Now
// never goes back.
//
// # The ticker
//
// Reading the clock costs about as much as a decision. A reader keeps what [Read]
// returns together with the number of the tick in which it was read. The reading is
// good as long as [Tick] returns that number, which costs a load. The ticker only
// counts. It neither reads the clock nor knows its readers, so it costs the same for
// one as for 10,000, and a reader that has not asked since the tick before reads the
// clock itself, however late the ticker is.
//
// One goroutine counts the ticks of the process. Readers start it when they would read
// the clock twice in a tick. It ends when nobody has read the clock for 10 ticks.
//
// # Bubbles
//
// Inside a bubble of testing/synctest there are no ticks: each Read returns the
// bubble's time. A goroutine that was started there would belong to the bubble, so none
// is. In a bubble time.Now has no monotonic reading, and nowhere else between 1885 and
// 2157: that is how a bubble is recognised.
package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Resolution is the time between two ticks.
const Resolution = time.Millisecond

// None is the number of no tick. [Read] returns it with a reading that is good for one
// use only.
const None uint64 = math.MaxUint64

// parkAfter is the number of ticks without a reader after which the ticker ends.
const parkAfter = 10

const line = 64 // bytes of a cache line, at least

// ticks counts time. Its zero value is parked.
type ticks struct {
	_       [line]byte
	current atomic.Uint64 // 0 while parked; a number never comes again
	_       [line]byte    // readers look at current only, which changes once in a tick
	used    atomic.Bool   // somebody has read the clock in the current tick
	runs    atomic.Bool   // the goroutine is there
	last    uint64        // number of the last tick; of the goroutine
}

// wall follows the wall clock, ahead only.
type wall struct {
	read   func() reading
	offset atomic.Int64 // ns, the greatest difference seen between the wall clock and the monotonic clock
}

// reading is what the clocks show at one moment.
type reading struct {
	wall   time.Time     // without a monotonic reading
	mono   time.Duration // since the process began
	bubble bool
}

var (
	process ticks
	clock   = wall{read: read}
	began   = time.Now()
)

// Tick returns the number of the current tick, 0 while the ticker is parked.
func Tick() uint64 { return process.current.Load() }

// Now returns the time.
func Now() time.Time {
	now, _ := clock.now()
	return now
}

// Read returns the time, and the number of a tick: the reading is less than
// [Resolution] old, and what the ticker is late by, as long as [Tick] returns that
// number. The number is [None] while the ticker is parked and in a bubble.
func Read() (now time.Time, tick uint64) {
	tick = process.current.Load() // before the clock: the reading is not older than the tick
	now, bubble := clock.now()
	if tick == 0 || bubble {
		return now, None
	}
	if !process.used.Load() {
		process.used.Store(true)
	}
	return now, tick
}

// Start starts the ticker unless it runs. In a bubble it does nothing.
func Start() {
	if process.runs.Load() {
		return
	}
	if !read().bubble && process.runs.CompareAndSwap(false, true) {
		go process.run()
	}
}

// run counts ticks until nobody has read the clock for parkAfter of them.
func (t *ticks) run() {
	ticker := time.NewTicker(Resolution)
	defer ticker.Stop()
	for unused := 0; unused < parkAfter; unused++ {
		t.last++
		t.current.Store(t.last)
		<-ticker.C
		if t.used.Swap(false) {
			unused = 0
		}
	}
	t.current.Store(0)
	t.runs.Store(false)
}

// now returns the time, and whether it is a bubble's.
func (w *wall) now() (now time.Time, bubble bool) {
	r := w.read()
	if r.bubble {
		return r.wall, true
	}
	offset, latest := r.offset(), w.offset.Load()
	if offset > latest {
		latest = w.follow(latest, offset)
	}
	return r.wall.Add(time.Duration(latest - offset)), false
}

// follow raises the offset and returns it.
func (w *wall) follow(latest, offset int64) int64 {
	// A thread that is held up between the two clocks sees a wrong difference, but
	// hardly twice.
	if again := w.read(); !again.bubble {
		offset = min(offset, again.offset())
	}
	for offset > latest {
		if w.offset.CompareAndSwap(latest, offset) {
			return offset
		}
		latest = w.offset.Load()
	}
	return latest
}

// offset returns how far the wall clock is ahead of the monotonic clock, ns.
func (r *reading) offset() int64 { return r.wall.UnixNano() - int64(r.mono) }

// read reads the clocks of the system, or of a bubble.
func read() reading {
	now := time.Now()
	wall := now.Round(0)
	return reading{wall, now.Sub(began), now == wall}
}
