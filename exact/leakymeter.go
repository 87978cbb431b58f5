package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

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
	keyed[exactmath.Water]
}

// NewLeakyMeter returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, and burst, 1 … 1<<31-1, at once, for every key. It refuses a burst
// that, counted in whole fractions of a unit, is beyond 1<<61.
func NewLeakyMeter(limit int, window time.Duration, burst int, options ...Option) (*LeakyMeter, error) {
	if err := checkRate(limit, window, burst); err != nil {
		return nil, err
	}
	r, err := exactmath.NewLeakyMeter(int64(limit), int64(window), int64(burst))
	if err != nil {
		return nil, err
	}
	m := new(LeakyMeter)
	return orNil(m, m.init(&r, purpose{limit: limit, most: burst, window: window}, exactmath.Water{}, options))
}
