package redislimit

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// window is the arithmetic of windows in ticks: what the script computes in doubles is whole
// numbers up to 1<<53.
type window struct {
	limit  int64
	length int64 // ticks
	tick   time.Duration
	kept   int // generations: 1 if fixed, 2 if sliding
}

// newWindow chooses the finest tick in which the script can multiply a count by a time.
func newWindow(c *Config, kept int) (window, error) {
	for _, tick := range []time.Duration{time.Microsecond, time.Millisecond, time.Second} {
		length := int64(c.Window / tick)
		if hi, lo := bits.Mul64(uint64(c.Limit), uint64(length)); c.Window%tick == 0 && hi == 0 && lo <= 1<<53 {
			return window{int64(c.Limit), length, tick, kept}, nil
		}
	}
	if highest := int64(1<<53) / int64(max(c.Window/time.Second, 1)); c.Window%time.Second == 0 && highest < int64(c.Limit) {
		return window{}, fmt.Errorf("redislimit: Limit %d, must be at most %d with Window %v: the script counts Limit × Window in doubles", c.Limit, highest, c.Window)
	}
	return window{}, fmt.Errorf("redislimit: Window %v, must be whole milliseconds or seconds if Limit × Window is above 1<<53 µs (%d)", c.Window, c.Limit)
}

// constants returns what scripts must know.
func (w *window) constants() string {
	return fmt.Sprintf("local limit, window, tick, ttl = %d, %d, %d, %d\n",
		w.limit, w.length, w.tick.Microseconds(), ttl(2*w.time(w.length)))
}

// decision returns the decision of the script, from the key's counts before it and the
// part of the current generation that had passed, elapsed.
func (w *window) decision(allowed bool, current, previous, elapsed int64, n int) sketchlimit.Decision {
	free := w.limit - current - ceilDiv(previous, w.length-elapsed, w.length)
	d := sketchlimit.Decision{Allowed: allowed, Limit: int(w.limit)}
	if allowed {
		free -= int64(n)
		current += int64(n)
	} else {
		d.RetryAfter = w.retryAfter(current, previous, elapsed, int64(n))
	}
	d.Remaining = int(max(0, free))
	switch {
	case current > 0:
		d.ResetAfter = w.time(int64(w.kept)*w.length - elapsed)
	case previous > 0:
		d.ResetAfter = w.time(w.length - elapsed)
	}
	return d
}

// retryAfter returns the time until n units pass if nothing else comes: in this generation,
// when the previous one has decayed enough, or in the next one.
func (w *window) retryAfter(current, previous, elapsed, n int64) time.Duration {
	switch {
	case n < 1 || n > w.limit:
		return sketchlimit.Never
	case w.kept == 1:
		return w.time(w.length - elapsed)
	case current+n <= w.limit:
		return w.time(w.decay(previous, w.limit-current-n) - elapsed)
	}
	return w.time(w.length + w.decay(current, w.limit-n) - elapsed)
}

// decay returns how far into its last generation a count weighs no more than free.
func (w *window) decay(count, free int64) int64 {
	if count <= free {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(w.length))
	q, _ := bits.Div64(hi, lo, uint64(count))
	return w.length - int64(q)
}

func (w *window) time(ticks int64) time.Duration { return time.Duration(ticks) * w.tick }

// ceilDiv returns a×b/c rounded up, which must fit an int64.
func ceilDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	if r > 0 {
		q++
	}
	return int64(q)
}

// ttl returns for how many milliseconds a string lives: as long as it matters, and a minute
// at least, because the clocks of callers may be behind the server's. One more is for Redis,
// whose clock for what expires is late by up to one.
func ttl(matters time.Duration) int64 {
	return max(matters, time.Minute).Milliseconds() + 2
}

// far returns how many generations of so many microseconds a block and a request may be apart before one
// of their clocks must be wrong: one, and a minute, because requests are under way for a while.
func far(generation int64) int64 {
	return max(1, (time.Minute.Microseconds()+generation-1)/generation)
}

// micros returns a time in microseconds, 1970 … 2112, which scripts compute with exactly.
func micros(t time.Time) int64 { return min(max(0, t.UnixMicro()), 1<<52) }
