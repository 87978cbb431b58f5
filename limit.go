package sketchlimit

import (
	"net/netip"
	"time"
)

// TakeLimit is [Limiter.Take] held against a limit of the request's own, such as that of the
// client's plan: Config.LowestLimit … Config.Limit. A higher limit counts as Config.Limit.
// A request with a lower one is refused, because the memory is not sized for it:
// Decision.Limit is then 0 and RetryAfter is Never. Stats.TooLow counts such requests with
// limits of 1 and more.
//
// Units of a window count alike, whatever the limit was that they were taken under. A
// bucket holds less in proportion to the limit, but one unit at least, and its units flow
// back the more slowly: a unit that is taken under a limit of 10 takes ten times as long to
// come back as one under 100.
func (l *Limiter) TakeLimit(key string, n, limit int) (d Decision) {
	word, lag := l.windows.now()
	l.takeLimit(&d, word, lag, l.hashString(key), n, limit)
	return d
}

// TakeLimitAt is [Limiter.TakeLimit] at a time of the caller's, see [Limiter.TakeAt].
func (l *Limiter) TakeLimitAt(now time.Time, key string, n, limit int) (d Decision) {
	word, lag := l.windows.at(now)
	l.takeLimit(&d, word, lag, l.hashString(key), n, limit)
	return d
}

// TakeLimitBytes is [Limiter.TakeLimit] for a key in a byte slice, which is not kept.
func (l *Limiter) TakeLimitBytes(key []byte, n, limit int) (d Decision) {
	word, lag := l.windows.now()
	l.takeLimit(&d, word, lag, l.hashBytes(key), n, limit)
	return d
}

// TakeLimitBytesAt is [Limiter.TakeLimitAt] for a key in a byte slice, which is not kept.
func (l *Limiter) TakeLimitBytesAt(now time.Time, key []byte, n, limit int) (d Decision) {
	word, lag := l.windows.at(now)
	l.takeLimit(&d, word, lag, l.hashBytes(key), n, limit)
	return d
}

// TakeLimitAddr is [Limiter.TakeLimit] for an IP address, see [Limiter.TakeAddr].
func (l *Limiter) TakeLimitAddr(key netip.Addr, n, limit int) (d Decision) {
	word, lag := l.windows.now()
	l.takeLimit(&d, word, lag, l.hashAddr(key), n, limit)
	return d
}

// TakeLimitAddrAt is [Limiter.TakeLimitAt] for an IP address, see [Limiter.TakeAddr].
func (l *Limiter) TakeLimitAddrAt(now time.Time, key netip.Addr, n, limit int) (d Decision) {
	word, lag := l.windows.at(now)
	l.takeLimit(&d, word, lag, l.hashAddr(key), n, limit)
	return d
}

// PeekLimitAt tells what TakeLimitAt(now, key, n, limit) would answer if nothing else came, see
// [Limiter.PeekAt].
func (l *Limiter) PeekLimitAt(now time.Time, key string, n, limit int) (d Decision) {
	limit = l.lower(limit)
	p, lag := l.windows.look(now)
	l.decide(&d, l.peek(p, l.hashString(key), n, int64(limit)), lag)
	d.Limit = limit
	return d
}

func (l *Limiter) takeLimit(d *Decision, word int64, lag time.Duration, h uint64, n, limit int) {
	if limit >= 1 && limit < l.lowest {
		l.tooLow.Add(1)
	}
	limit = l.lower(limit)
	l.decide(d, l.take(word, h, n, int64(limit), whole), lag)
	d.Limit = limit
}

// lower returns a limit of a request's own within bounds, 0 if it is below the lowest.
func (l *Limiter) lower(limit int) int {
	if limit < l.lowest {
		return 0
	}
	return min(limit, int(l.limit))
}
