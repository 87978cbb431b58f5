package caddylimit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// limiter is that of one of a zone's limits.
type limiter struct {
	*sketchlimit.Limiter
	name    string // for metrics
	config  sketchlimit.Config
	share   func() int // bytes that sharing takes; nil: nothing is shared
	formers atomic.Pointer[[]predecessor]
	heir    atomic.Pointer[limiter] // of the next config, which may serve while the server of this one ends; nil: none
	saver   *saver                  // of the zone; nil: nothing is kept over a restart
	owed    atomic.Bool             // formers are to be kept

	mu    sync.Mutex
	stats sketchlimit.Stats
	until time.Time // when they are to be read again
}

// Stats returns those of the limiter, or what they were a little while ago: whoever
// asks how often, they take at most a tenth of a core.
func (l *limiter) Stats() sketchlimit.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	if start := time.Now(); !start.Before(l.until) {
		l.stats = l.Limiter.Stats()
		l.until = time.Now().Add(9 * time.Since(start))
	}
	return l.stats
}

// MemoryBytes returns what the limiter takes, with what sharing takes.
func (l *limiter) MemoryBytes() int {
	if l.share == nil {
		return l.Limiter.MemoryBytes()
	}
	return l.Limiter.MemoryBytes() + l.share()
}
