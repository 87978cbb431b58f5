package gcra

import (
	"math/bits"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/windowmath"
)

// Time is a time at which a bucket is full again, without rounding: unix time Nanos +
// Part/Of nanoseconds. Of is the limit that it is for.
type Time struct {
	Nanos    int64
	Part, Of uint64
}

// At returns the time for a limit and at unix time now or later.
func (t Time) At(now, limit int64) Time {
	if t.Of != uint64(limit) {
		t.Part = uint64(CeilDiv(int64(t.Part), limit, int64(t.Of)))
		t.Of = uint64(limit)
		if t.Part == t.Of {
			t.Nanos, t.Part = t.Nanos+1, 0
		}
	}
	if t.Nanos < now {
		t.Nanos, t.Part = now, 0
	}
	return t
}

// Add returns the time by which n units more have flowed.
func (t Time) Add(b *Bucket, n int64) Time {
	hi, lo := bits.Mul64(uint64(n), uint64(b.Span))
	lo, carry := bits.Add64(lo, t.Part, 0)
	q, rest := bits.Div64(hi+carry, lo, t.Of)
	t.Nanos, t.Part = t.Nanos+int64(q), rest
	return t
}

// Before reports whether t is earlier than u, which is for the same limit.
func (t *Time) Before(u *Time) bool {
	return t.Nanos < u.Nanos || t.Nanos == u.Nanos && t.Part < u.Part
}

// Up returns the time rounded up, unix ns.
func (t *Time) Up() int64 {
	if t.Part > 0 {
		return t.Nanos + 1
	}
	return t.Nanos
}

// Free returns how many of a number of units have flowed at unix time now, ns or
// earlier.
func (t *Time) Free(b *Bucket, now, most int64) int64 {
	hi, lo := bits.Mul64(uint64(t.Nanos-now), t.Of)
	lo, carry := bits.Add64(lo, t.Part, 0)
	q, rest := bits.Div64(hi+carry, lo, uint64(b.Span))
	if rest > 0 {
		q++
	}
	return most - int64(q)
}

// RetryAfter returns the time from unix time now, ns, until n units are free of a
// number of units; Never if they never are.
func (t *Time) RetryAfter(b *Bucket, now, n, most int64) time.Duration {
	if n < 1 || n > most {
		return windowmath.Never
	}
	hi, lo := bits.Mul64(uint64(most-n), uint64(b.Span))
	lo, borrow := bits.Sub64(lo, t.Part, 0)
	if hi < borrow { // the bucket is to be full
		return time.Duration(t.Nanos + 1 - now)
	}
	room, _ := bits.Div64(hi-borrow, lo, t.Of)
	return time.Duration(t.Nanos - int64(room) - now)
}
