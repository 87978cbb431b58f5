package engine

import (
	"math/bits"
	"time"
	"unsafe"
)

// lastRounded is the key of a shard whose time was last rounded up to a tick, and its time
// without rounding: its bucket is full again at unix time ns + part/of nanoseconds.
//
// It is what a key needs to get all its units at a time between two ticks, or at a tier
// whose unit is not whole ticks, unless another key of the shard is in need as well.
// The cells hold its time rounded up: the key may be forgotten at any time. While it is
// remembered all its charges are counted here, so its time is never too early.
type lastRounded struct {
	key      uint64
	ns       int64
	part, of uint64
}

// lastWords are the words of a lastRounded in a shard's memory, after its cells.
const lastWords = int(unsafe.Sizeof(lastRounded{}) / 8)

// lastTag is kept in the shard, which every decision reads, so that other keys need not look further.
func (r request) lastTag() uint32 { return uint32(r.h) | 1 }

// lastRounded returns the shard's lastRounded if it is the request's key, or else nil.
func (r request) lastRounded() *lastRounded {
	if r.s.peaks.current != r.lastTag() {
		return nil
	}
	if last := r.lastWords(); last.key == r.h {
		return last
	}
	return nil
}

func (r request) lastWords() *lastRounded {
	return (*lastRounded)(unsafe.Pointer((*[lastWords]uint64)(r.memory[r.first+r.generation:])))
}

// at returns the time for a limit and at unix time now or later.
func (t lastRounded) at(now, limit int64) lastRounded {
	if t.of != uint64(limit) {
		t.part = uint64(CeilDiv(int64(t.part), limit, int64(t.of)))
		t.of = uint64(limit)
		if t.part == t.of {
			t.ns, t.part = t.ns+1, 0
		}
	}
	if t.ns < now {
		t.ns, t.part = now, 0
	}
	return t
}

// add returns the time by which n units more have flowed.
func (t lastRounded) add(b *bucket, n int64) lastRounded {
	hi, lo := bits.Mul64(uint64(n), uint64(b.span))
	lo, carry := bits.Add64(lo, t.part, 0)
	q, rest := bits.Div64(hi+carry, lo, t.of)
	t.ns, t.part = t.ns+int64(q), rest
	return t
}

// before tells whether t is the earlier of two times for the same limit.
func (t *lastRounded) before(u *lastRounded) bool {
	return t.ns < u.ns || t.ns == u.ns && t.part < u.part
}

// up returns the time rounded up, unix ns.
func (t *lastRounded) up() int64 {
	if t.part > 0 {
		return t.ns + 1
	}
	return t.ns
}

// free returns how many of a number of units have flowed at unix time now, ns or earlier.
func (t *lastRounded) free(b *bucket, now, most int64) int64 {
	hi, lo := bits.Mul64(uint64(t.ns-now), t.of)
	lo, carry := bits.Add64(lo, t.part, 0)
	q, rest := bits.Div64(hi+carry, lo, uint64(b.span))
	if rest > 0 {
		q++
	}
	return most - int64(q)
}

// retryAfter is that of bucket.
func (t *lastRounded) retryAfter(b *bucket, now, n, most int64) time.Duration {
	if n < 1 || n > most {
		return Never
	}
	hi, lo := bits.Mul64(uint64(most-n), uint64(b.span))
	lo, borrow := bits.Sub64(lo, t.part, 0)
	if hi < borrow { // the bucket is to be full
		return time.Duration(t.ns + 1 - now)
	}
	room, _ := bits.Div64(hi-borrow, lo, t.of)
	return time.Duration(t.ns - int64(room) - now)
}
