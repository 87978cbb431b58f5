// Package ledger finds the most units that a key was admitted within a window.
package ledger

import (
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/windows"
)

// Ledger keeps the units admitted to each key in the last window, to find the most that a
// key was ever admitted within one. A log of a limiter cannot tell: what is left stops at
// 0. Make one with [New]. It is not safe for concurrent use.
type Ledger struct {
	Peak int // most units of a key within a window

	window  int64 // ns
	entries map[string]*history
	windows windows.Clock
}

// history is what one key was admitted: the entries from head on, oldest first.
type history struct {
	entries []entry
	head    int
	units   int // of the entries from head on
}

type entry struct {
	ns    int64
	units int
}

// New returns an empty ledger of windows of a length above 0.
func New(window time.Duration) *Ledger {
	return &Ledger{
		window:  int64(window),
		entries: make(map[string]*history),
		windows: windows.NewClock(window),
	}
}

// Add adds units that a key was admitted at a time.
func (l *Ledger) Add(at time.Time, key string, units int) {
	now := at.UnixNano()
	if l.windows.Turn(at) {
		l.forget(now - l.window)
	}
	h := l.entries[key]
	if h == nil {
		h = new(history)
		l.entries[key] = h
	}
	h.expire(now - l.window)
	h.entries = append(h.entries, entry{now, units})
	h.units += units
	l.Peak = max(l.Peak, h.units)
}

// expire drops what was admitted at end or before.
func (h *history) expire(end int64) {
	for h.head < len(h.entries) && h.entries[h.head].ns <= end {
		h.units -= h.entries[h.head].units
		h.head++
	}
	if h.head > len(h.entries)/2 {
		h.entries = append(h.entries[:0], h.entries[h.head:]...)
		h.head = 0
	}
}

// forget drops the keys that have nothing left after end.
func (l *Ledger) forget(end int64) {
	for key, h := range l.entries {
		if h.expire(end); h.units == 0 {
			delete(l.entries, key)
		}
	}
}
