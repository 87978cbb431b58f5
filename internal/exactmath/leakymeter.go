package exactmath

import "time"

// LeakyMeter admits n units if level + n ≤ burst, and pours them in. At t the level is
// max(0, level − (t − last) × limit/window).
type LeakyMeter struct{ rate }

// Water is what was in the bucket, in grains, at a time; above the burst it is what
// was charged.
type Water struct{ level, last int64 }

// NewLeakyMeter returns the rule of limit units per window and burst at once. It
// refuses a burst of more than 1<<61 grains.
func NewLeakyMeter(limit, window, burst int64) (LeakyMeter, error) {
	r, err := newRate(limit, window, burst)
	return LeakyMeter{r}, err
}

// at lets the bucket leak up to t.
func (m *LeakyMeter) at(s Water, t int64) Water {
	if s.level == 0 {
		return Water{0, t}
	}
	t = max(t, s.last)
	return Water{max(0, s.level-m.flowed(s.last, t)), t}
}

// Wait implements [Rule].
func (m *LeakyMeter) Wait(s Water, t, n int64) time.Duration {
	return m.takes(m.at(s, t).level + m.cost(n) - m.burst)
}

// Left implements [Rule].
func (m *LeakyMeter) Left(s Water, t int64) (int64, time.Duration) {
	level := m.at(s, t).level
	return (m.burst - level) / m.unit, m.takes(level)
}

// Spend implements [Rule].
func (m *LeakyMeter) Spend(s Water, t, n int64) Water {
	s = m.at(s, t)
	s.level = min(s.level+m.cost(n), maxGrains)
	return s
}

// Since implements [Rule].
func (m *LeakyMeter) Since(s Water) int64 { return s.last }
