package leased

import (
	"math"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// windows is the rule by which units count.
type windows struct {
	length  int64 // ns
	sliding bool
}

// settle returns the time after which a unit does not count any more.
func (w *windows) settle() int64 {
	if w.sliding {
		return 2 * w.length
	}
	return w.length
}

// count is the units of one key by generations, exactly.
type count struct {
	generation        int64
	current, previous int64
}

// split returns the generation of a time, and how far that has gone.
func (w *windows) split(now int64) (generation, elapsed int64) {
	generation, elapsed = now/w.length, now%w.length
	if elapsed < 0 {
		generation, elapsed = generation-1, elapsed+w.length
	}
	return generation, elapsed
}

// at turns to the generation of a time, and returns how far that has gone. A time before
// that generation is its beginning.
func (c *count) at(w *windows, now int64) (elapsed int64) {
	g, elapsed := w.split(now)
	switch {
	case g < c.generation:
		return 0
	case g == c.generation+1:
		c.generation, c.previous, c.current = g, c.current, 0
	case g > c.generation:
		*c = count{generation: g}
	}
	return elapsed
}

// weighted returns previous × (1 − elapsed/window), rounded up.
func (c *count) weighted(w *windows, elapsed int64) int64 {
	if !w.sliding || c.previous == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(c.previous), uint64(w.length-elapsed))
	n, rest := bits.Div64(hi, lo, uint64(w.length))
	if rest > 0 {
		n++
	}
	return int64(n)
}

// used returns the units that count at a time.
func (c *count) used(w *windows, now int64) int {
	elapsed := c.at(w, now)
	return int(c.current + c.weighted(w, elapsed))
}

// decide admits n units if those that count stay within a bound, and counts them unless
// it is to peek.
func (c *count) decide(w *windows, now int64, n, bound int, peek bool) (d sketchlimit.Decision) {
	elapsed := c.at(w, now)
	used := int(c.current + c.weighted(w, elapsed))
	switch {
	case n < 1:
		d.RetryAfter = sketchlimit.Never
	case used+n <= bound:
		d.Allowed = true
		if !peek {
			c.current += int64(n)
			used += n
		}
	default:
		d.RetryAfter = c.retryAfter(w, elapsed, n, bound)
	}
	d.Remaining = max(0, bound-used)
	switch {
	case c.current > 0 && w.sliding:
		d.ResetAfter = time.Duration(2*w.length - elapsed)
	case c.current > 0 || c.previous > 0 && w.sliding:
		d.ResetAfter = time.Duration(w.length - elapsed)
	}
	return d
}

// retryAfter returns when n units pass.
func (c *count) retryAfter(w *windows, elapsed int64, n, bound int) time.Duration {
	if n > bound {
		return time.Duration(w.length - elapsed) // more may be claimed until then
	}
	if !w.sliding {
		return time.Duration(w.length - elapsed)
	}
	if free := int64(bound-n) - c.current; free >= 0 {
		return time.Duration(until(w.length, c.previous, free) - elapsed)
	}
	return time.Duration(w.length - elapsed + until(w.length, c.current, int64(bound-n)))
}

// until returns how far a generation has gone when the units before it weigh no more
// than what is free.
func until(length, units, free int64) int64 {
	if free >= units {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(length))
	left, _ := bits.Div64(hi, lo, uint64(units))
	return length - int64(min(left, math.MaxInt64))
}
