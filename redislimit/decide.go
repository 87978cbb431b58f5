package redislimit

import (
	"cmp"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Allow consumes one unit of the key, now, and tells whether it was admitted. It and the
// other forms are those of [sketchlimit.Limiter].
func (s *Synced) Allow(key string) bool {
	if s.blind.Load() {
		return s.unseen(1).Allowed
	}
	return s.limiter.Allow(key)
}

// AllowN consumes n units of the key, now, and tells whether they were admitted.
func (s *Synced) AllowN(key string, n int) bool {
	if s.blind.Load() {
		return s.unseen(n).Allowed
	}
	return s.limiter.AllowN(key, n)
}

// Take consumes n units of the key, now, if they are admitted.
func (s *Synced) Take(key string, n int) sketchlimit.Decision {
	if s.blind.Load() {
		return s.unseen(n)
	}
	return s.limiter.Take(key, n)
}

// Do decides on a request that [Synced.Take] cannot say.
func (s *Synced) Do(r sketchlimit.Request) sketchlimit.Decision {
	if s.blind.Load() {
		limit := lower(r.Limit, s.lowest, s.limit)
		return s.options.failure.unseen(cmp.Or(r.N, 1), limit, limit)
	}
	return s.limiter.Do(r)
}

// Peek tells what Take(key, 1) would answer, and consumes nothing.
func (s *Synced) Peek(key string) sketchlimit.Decision {
	if s.blind.Load() {
		return s.unseen(1)
	}
	return s.limiter.Peek(key)
}

// Window returns the span that the limit is meant for.
func (s *Synced) Window() time.Duration { return s.limiter.Window() }

// LowestLimit returns that of the limiter, see [sketchlimit.Limiter.LowestLimit].
func (s *Synced) LowestLimit() int { return s.limiter.LowestLimit() }

// lower returns the limit of a [sketchlimit.Request] within bounds, 0 if it is below the lowest.
func lower(limit, lowest, own int) int {
	switch {
	case limit == 0:
		return own
	case limit < lowest:
		return 0
	}
	return min(limit, own)
}

// unseen decides on n units without looking at the key. Nothing is counted.
func (s *Synced) unseen(n int) sketchlimit.Decision {
	return s.options.failure.unseen(n, s.limit, s.limit)
}
