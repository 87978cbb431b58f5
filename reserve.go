package sketchlimit

import "time"

// Reserve puts n units into the key's queue, now: the leaky bucket as a queue, for whoever
// would rather wait than be refused. Units leave it one by one, Limit per Window evenly,
// in the order they came. It returns how long to wait before going on, until all that
// came before has left; ok is false if the queue would be longer than Burst, and nothing
// is reserved. What is reserved cannot be given back.
//
// It admits what [Limiter.Take] does, with which it may be mixed, and goes with
// TokenBucket alone: of a window, which has no order, nothing can be reserved and ok is
// false. Unless a Clock is configured the wait is longer by up to twice [Resolution].
func (l *Limiter) Reserve(key string, n int) (wait time.Duration, ok bool) {
	word, lag := l.windows.now()
	return l.reserve(l.windows.unpack(word), lag, l.hashString(key), int64(n))
}

// ReserveAt is [Limiter.Reserve] at a time of the caller's, see [Limiter.TakeAt].
func (l *Limiter) ReserveAt(now time.Time, key string, n int) (wait time.Duration, ok bool) {
	word, lag := l.windows.at(now)
	return l.reserve(l.windows.unpack(word), lag, l.hashString(key), int64(n))
}

func (l *Limiter) reserve(p Position, lag time.Duration, h uint64, n int64) (wait time.Duration, ok bool) {
	if l.bucket.burst == 0 {
		return 0, false
	}
	r := l.request(h)
	r.s.mu.Lock()
	before := later(r.peek(p, n, l.limit).resetAfter, lag)
	v := r.take(p, n, l.limit, brief)
	r.s.mu.Unlock()
	if !v.allowed {
		return 0, false
	}
	return before, true
}
