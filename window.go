package sketchlimit

import (
	"math/bits"
	"time"
)

// window is the arithmetic of windows: whole units and nanoseconds, nothing rounded
// but the answer, and that against the request.
type window struct {
	limit       int64
	length      int64 // of a generation, ns
	generations int   // that are kept: 1 if fixed or a bucket, one more than sub-windows if sliding
	bucket      bucket
}

// nanos returns the position as unix time in ns.
func (w *window) nanos(p Position) int64 { return p.Generation*w.length + int64(p.Elapsed) }

// nearEnd returns how far into a generation of a length it nears its end: 15 of 16 steps.
func nearEnd(length int64) time.Duration { return time.Duration(length / 16 * 15) }

// after returns the position a few generations later at most.
func (w *window) after(p Position, d time.Duration) Position {
	for p.Elapsed += d; int64(p.Elapsed) >= w.length; p.Generation++ {
		p.Elapsed -= time.Duration(w.length)
	}
	return p
}

// weighted returns how many units of quota a count takes up, rounded up. Of a
// sliding window's generations the oldest counts by the part of it that the window
// still covers; all others, and a fixed window's only one, count in full.
//
// Rounding up loses nothing: for whole n, count×weight + n ≤ free is the same as
// ⌈count×weight⌉ + n ≤ free. At a generation's first instant the weight is 1.
func (w *window) weighted(count int64, age int, elapsed time.Duration) int64 {
	if age == 0 || age < w.generations-1 {
		return count
	}
	hi, lo := bits.Mul64(uint64(count), uint64(w.length-int64(elapsed)))
	q, r := bits.Div64(hi, lo, uint64(w.length))
	if r > 0 {
		q++
	}
	return int64(q)
}

// room tells whether the oldest generation takes up no more than free (at least 0) units
// even if it counted the whole limit.
func (w *window) room(elapsed time.Duration, free int64) bool {
	hi, lo := bits.Mul64(uint64(w.limit), uint64(w.length-int64(elapsed)))
	freeHi, freeLo := bits.Mul64(uint64(free), uint64(w.length))
	return hi < freeHi || hi == freeHi && lo <= freeLo
}

// retryAfter returns the time until n units are admitted if nothing else comes, at a
// limit of the request's own.
// count tells the key's count in the generation of an age.
//
// It goes through the generations to come. In each, what is now age a has aged by
// the turns, the oldest left decays, and the rest stays until the next turn.
func (w *window) retryAfter(p Position, n, limit int64, count func(age int) int64) time.Duration {
	if n < 1 || n > limit {
		return Never
	}
	if w.generations == 1 {
		return time.Duration(w.length) - p.Elapsed
	}
	full := int64(0)
	for age := range w.generations - 1 {
		full += count(age)
	}
	for turn := 0; ; turn++ { // an empty window admits n, so it ends
		if free := limit - n - full; free >= 0 {
			oldest := count(w.generations - 1 - turn)
			return time.Duration(turn)*time.Duration(w.length) + w.decay(oldest, free) - p.Elapsed
		}
		full -= count(w.generations - 2 - turn)
	}
}

// decay returns how far into its last generation a count weighs no more than free.
func (w *window) decay(count, free int64) time.Duration {
	if count <= free {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(w.length))
	q, _ := bits.Div64(hi, lo, uint64(count))
	return time.Duration(w.length - int64(q))
}

// resetAfter returns the time until a key weighs nothing, whose youngest counting
// generation has the age newest (their number if there is none).
func (w *window) resetAfter(p Position, newest int) time.Duration {
	if newest == w.generations {
		return 0
	}
	return time.Duration(w.generations-newest)*time.Duration(w.length) - p.Elapsed
}
