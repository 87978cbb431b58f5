package main

import (
	"time"

	"github.com/sketchlimit/sketchlimit"
)

const (
	limit  = 100
	window = time.Minute
)

// begin is when all runs begin: a generation does.
var begin = time.Unix(1_000_000_000, 0).Truncate(window)

// moment is a time, and where it lies in its generation.
type moment struct {
	time       time.Time
	generation int16         // since the beginning
	elapsed    time.Duration // of it
}

// momentAt returns the moment so long after the beginning of a run.
func momentAt(passed time.Duration) moment {
	return moment{begin.Add(passed), int16(passed / window), passed % window}
}

// units are an exact count of what a key has used. They are small: millions of them are
// read at random.
type units struct{ generation, current, previous int16 }

// turn brings the count to the generation of m.
func (u *units) turn(m moment) {
	switch m.generation - u.generation {
	case 0:
		return
	case 1:
		u.previous = u.current
	default:
		u.previous = 0
	}
	u.generation, u.current = m.generation, 0
}

// used returns the units that count at m, in units × nanoseconds of a window: no
// division, no rounding.
func (u *units) used(a sketchlimit.Algorithm, m moment) int64 {
	u.turn(m)
	used := int64(u.current) * int64(window)
	if a == sketchlimit.SlidingWindow {
		used += int64(u.previous) * int64(window-m.elapsed)
	}
	return used
}

// fits reports whether n more units are within the limit.
func (u *units) fits(a sketchlimit.Algorithm, m moment, n int) bool {
	return u.used(a, m)+int64(n)*int64(window) <= limit*int64(window)
}

// take counts n units if they fit.
func (u *units) take(a sketchlimit.Algorithm, m moment, n int) bool {
	if !u.fits(a, m, n) {
		return false
	}
	u.current += int16(n)
	return true
}

// innocent reports whether the key stands below half of its limit.
func (u *units) innocent(a sketchlimit.Algorithm, m moment) bool {
	return 2*u.used(a, m) < limit*int64(window)
}

// idle reports whether no count matters any more in the generation of m.
func (u *units) idle(m moment) bool { return m.generation-u.generation > 1 }
