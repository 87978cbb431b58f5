// Package denycache remembers which key was denied last, so that a flood on one key is
// denied again without a lock: by three loads and no store.
package denycache

import (
	"math"
	"sync/atomic"
)

// Slot remembers one key by its hash, until a moment, as long as nothing is counted
// beside it: [Slot.Clear] is for whatever changes counts. [Slot.Lookup] and
// [Slot.Until] are safe beside all other calls. Those are to be made by one goroutine
// at a time. Moments are words of a rotating.Timeline.
//
// The three words are read and written one by one. check tells whether they belong
// together and to the key.
type Slot struct {
	until atomic.Int64 // word of the position at which a unit comes free
	reset atomic.Int64 // unix time, ns, when the quota is whole
	check atomic.Uint64
}

// markBit is set in check where the key was only marked.
const markBit = 1 << 63

// Mark notes a key that was denied, without a moment. Lookup does not find it.
func (s *Slot) Mark(h uint64) { s.check.Store(s.sum(h) ^ markBit) }

// Marked reports whether the key was the last one to be marked.
func (s *Slot) Marked(h uint64) bool { return s.check.Load() == s.sum(h)^markBit }

// Set remembers that a key has nothing left until a moment, and that its quota is whole
// at a unix time in ns.
func (s *Slot) Set(h uint64, until, reset int64) {
	s.until.Store(until)
	s.reset.Store(reset)
	s.check.Store(s.sum(h))
}

func (s *Slot) sum(h uint64) uint64 { return h ^ uint64(s.until.Load()) ^ uint64(s.reset.Load()) }

// Clear forgets the key. It is for counts that have changed: a key that was denied may
// have to wait longer now, also because of units of other keys in its counters; or not
// as long, if it was admitted at another limit or the clock has stepped back.
func (s *Slot) Clear() {
	if s.until.Load() != math.MinInt64 {
		s.until.Store(math.MinInt64)
	}
}

// Until returns the moment until which some key is remembered, the least int64 if none
// is. The compiler inlines it.
func (s *Slot) Until() int64 { return s.until.Load() }

// Lookup reports whether the key has nothing left at a moment, and until which moment
// and unix time.
func (s *Slot) Lookup(h uint64, now int64) (until, reset int64, ok bool) {
	until, reset = s.until.Load(), s.reset.Load()
	return until, reset, now < until && s.check.Load() == h^uint64(until)^uint64(reset)
}
