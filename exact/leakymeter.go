package exact

import "time"

// LeakyMeter is the leaky bucket as a meter: a request pours one unit of water for
// each of its units into a bucket that holds burst and leaks limit per window; it is
// admitted if nothing spills, and never delayed. A new key's bucket is empty.
//
// It is [TokenBucket] seen from the other side, room for water in place of tokens,
// and answers alike in every field; bounds, time and memory are the same.
//
// Sources: J. S. Turner, "New directions in communications (or which way to the
// information age?)", IEEE Communications Magazine 24(10), 1986; ITU-T I.371,
// Annex A, the continuous-state leaky bucket.
type LeakyMeter struct {
	keyed[water]
	rate
}

// water is what was in the bucket, in grains, at a time; above the burst it is what
// was charged.
type water struct{ level, last int64 }

// NewLeakyMeter returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, and burst, 1 … 1<<31-1, at once, for every key. It refuses a burst
// that, counted in whole fractions of a unit, is beyond 1<<61.
func NewLeakyMeter(limit int, window time.Duration, burst int) (*LeakyMeter, error) {
	r, err := newRate(limit, window, burst)
	if err != nil {
		return nil, err
	}
	m := &LeakyMeter{rate: r}
	m.init(m, burst, 0, water{})
	return m, nil
}

// at lets the bucket leak up to t.
func (m *LeakyMeter) at(s water, t int64) water {
	if s.level == 0 {
		return water{0, t}
	}
	t = max(t, s.last)
	return water{max(0, s.level-m.flowed(s.last, t)), t}
}

func (m *LeakyMeter) wait(s water, t, n int64) time.Duration {
	return m.takes(m.at(s, t).level + m.cost(n) - m.burst)
}

func (m *LeakyMeter) left(s water, t int64) (int64, time.Duration) {
	level := m.at(s, t).level
	return (m.burst - level) / m.unit, m.takes(level)
}

func (m *LeakyMeter) spend(s water, t, n int64) water {
	s = m.at(s, t)
	s.level = min(s.level+m.cost(n), maxGrains)
	return s
}

func (m *LeakyMeter) since(s water) int64 { return s.last }
