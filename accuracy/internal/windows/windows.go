// Package windows numbers the windows of a stream of requests.
package windows

import (
	"math"
	"time"
)

// Clock numbers the windows of a stream as limiters do: floor(Unix time / length). Times
// that step back stay in the latest window. It is not safe for concurrent use.
type Clock struct {
	Number int64 // of the latest window
	First  int64 // number of the first window

	length  int64 // ns
	end     int64 // of the latest window, ns since the Unix epoch
	started bool
}

// NewClock returns a clock for windows of a length above 0 that has seen no time.
func NewClock(length time.Duration) Clock { return Clock{length: int64(length)} }

// Turn reports whether now lies in a later window than all times before it, and makes
// that window the latest. The first time always does.
func (c *Clock) Turn(now time.Time) bool {
	ns := now.UnixNano()
	if c.started && ns < c.end {
		return false
	}
	n := FloorDiv(ns, c.length)
	if c.started && n == c.Number { // the last window before the end of time
		return false
	}
	if !c.started {
		c.First, c.started = n, true
	}
	c.Number = n
	c.end = math.MaxInt64
	if n < math.MaxInt64/c.length-1 {
		c.end = (n + 1) * c.length
	}
	return true
}

// FloorDiv returns a / b rounded down, for b > 0.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
