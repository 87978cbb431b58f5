package exact

import (
	"math"
	"time"
)

// MinInterval admits a request if the last admitted one of its key is at least an
// interval ago: the simplest limit on a rate, without any burst. Requests cost 1; a
// higher cost is above the limit.
//
// It admits what [SlidingLog] and [GCRA] with limit and burst 1 admit. A time before
// the key's last admitted request is taken as the time of that request. Memory:
// 8 bytes a key and the map around them.
type MinInterval struct {
	keyed[int64] // Unix ns of the last admitted request
	interval     int64
}

// NewMinInterval returns a limiter that keeps admitted requests of a key at least an
// interval, 1ns … 1<<61ns, apart.
func NewMinInterval(interval time.Duration) (*MinInterval, error) {
	if err := checkSpan("interval", interval); err != nil {
		return nil, err
	}
	m := &MinInterval{interval: int64(interval)}
	m.init(m, 1, 0, math.MinInt64) // an interval or more before any time
	return m, nil
}

func (m *MinInterval) wait(last, t, _ int64) time.Duration {
	since := uint64(max(t, last)) - uint64(last)
	return time.Duration(uint64(m.interval) - min(since, uint64(m.interval)))
}

func (m *MinInterval) left(last, t int64) (int64, time.Duration) {
	wait := m.wait(last, t, 1)
	return btoi(wait == 0), wait
}

func (m *MinInterval) spend(last, t, _ int64) int64 { return max(last, t) }

func (m *MinInterval) since(last int64) int64 { return last }
