package exactmath

import (
	"fmt"
	"time"
)

// LeakyQueue admits n units if ⌈backlog/interval⌉ + n ≤ capacity. The backlog is the
// time until the last unit leaves, and each unit makes it an interval longer.
type LeakyQueue struct{ capacity, interval int64 }

// Queue is known by when its last unit leaves and when that unit came.
type Queue struct{ empty, last int64 }

// NewLeakyQueue returns the rule of capacity units, of which one leaves every interval.
// It refuses a queue that is full for longer than 1<<61ns.
func NewLeakyQueue(capacity, interval int64) (LeakyQueue, error) {
	if most := MaxSpan / interval; capacity > most {
		return LeakyQueue{}, fmt.Errorf("exact: capacity %d, must be 1 … %d at one every %v",
			capacity, most, time.Duration(interval))
	}
	return LeakyQueue{capacity, interval}, nil
}

// Initial returns the state of a key never seen.
func (q *LeakyQueue) Initial() Queue { return Queue{-MaxTime, -MaxTime} }

// backlog returns how long the queue is occupied, and the time that t is taken as.
func (q *LeakyQueue) backlog(s Queue, t int64) (ns, taken int64) {
	if s.empty <= t {
		return 0, t
	}
	t = max(t, s.last)
	return s.empty - t, t
}

// Wait implements [Rule].
func (q *LeakyQueue) Wait(s Queue, t, n int64) time.Duration {
	backlog, _ := q.backlog(s, t)
	return time.Duration(max(0, backlog-(q.capacity-n)*q.interval))
}

// Left implements [Rule].
func (q *LeakyQueue) Left(s Queue, t int64) (int64, time.Duration) {
	backlog, _ := q.backlog(s, t)
	return q.capacity - ceilDiv(backlog, q.interval), time.Duration(backlog)
}

// Spend implements [Rule].
func (q *LeakyQueue) Spend(s Queue, t, n int64) Queue {
	backlog, t := q.backlog(s, t)
	backlog += mulCapped(uint64(n), uint64(q.interval), MaxSpan-backlog)
	return Queue{t + backlog, t}
}

// Since implements [Rule].
func (q *LeakyQueue) Since(s Queue) int64 { return s.last }
