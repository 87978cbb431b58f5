package exactmath

import (
	"math"
	"time"
)

// MinInterval admits one unit at t if t − last ≥ interval. Its state is the last time,
// Unix ns.
type MinInterval struct{ interval int64 }

// NewMinInterval returns the rule of one unit an interval.
func NewMinInterval(interval int64) MinInterval { return MinInterval{interval} }

// Initial returns the state of a key never seen: an interval or more before any time.
func (m *MinInterval) Initial() int64 { return math.MinInt64 }

// Wait implements [Rule].
func (m *MinInterval) Wait(last, t, _ int64) time.Duration {
	since := uint64(max(t, last)) - uint64(last)
	return time.Duration(uint64(m.interval) - min(since, uint64(m.interval)))
}

// Left implements [Rule].
func (m *MinInterval) Left(last, t int64) (int64, time.Duration) {
	wait := m.Wait(last, t, 1)
	return btoi(wait == 0), wait
}

// Spend implements [Rule].
func (m *MinInterval) Spend(last, t, _ int64) int64 { return max(last, t) }

// Since implements [Rule].
func (m *MinInterval) Since(last int64) int64 { return last }
