package redislimit

import (
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Allow consumes one unit of the key, now, and reports whether it was admitted. It and the
// other forms are those of [sketchlimit.Limiter].
func (s *Synced) Allow(key string) bool { return s.base.Allow(key) }

// AllowN consumes n units of the key, now, and reports whether they were admitted.
func (s *Synced) AllowN(key string, n int) bool { return s.base.AllowN(key, n) }

// Take consumes n units of the key, now, if they are admitted.
func (s *Synced) Take(key string, n int) sketchlimit.Decision { return s.base.Take(key, n) }

// Do decides on r. Use it when the key is bytes or an address, when the request has its own limit, or to pass the time.
func (s *Synced) Do(r sketchlimit.Request) sketchlimit.Decision { return s.base.Do(r) }

// Peek returns what Take(key, 1) would, and consumes nothing.
func (s *Synced) Peek(key string) sketchlimit.Decision { return s.base.Peek(key) }

// Window returns the span that the limit is meant for.
func (s *Synced) Window() time.Duration { return s.base.Window() }

// LowestLimit returns that of the limiter, see [sketchlimit.Limiter.LowestLimit].
func (s *Synced) LowestLimit() int { return s.base.LowestLimit() }

// MemoryBytes returns the memory that sharing takes here, beside the limiter's.
func (s *Synced) MemoryBytes() int { return s.base.MemoryBytes() }
