package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// LeakyQueue is the leaky bucket as a queue: a bucket of capacity units that lets one
// out, to be processed, every interval. A request that fits is admitted and waits its
// turn; one that does not is refused at once. A unit that enters an empty bucket
// leaves it an interval later, and so units leave at least an interval apart. (Some
// queues pass the first unit on at once; their delays are one interval shorter.)
//
// [LeakyQueue.EnqueueAt] answers with the delay. In Decisions, Limit is the capacity,
// Remaining the free places, and ResetAfter the time until the bucket is empty, which
// is the delay of the request just admitted. The admissions are those of [GCRA] with
// a limit of 1 per interval and a burst of capacity.
//
// A key's times do not run backwards: a time before its last admitted request is
// taken as the time of that request. Charges queue up to 1<<61ns ahead. Memory:
// 16 bytes a key, whatever the capacity, and the map around them.
//
// Source: J. S. Turner, "New directions in communications (or which way to the
// information age?)", IEEE Communications Magazine 24(10), 1986, for the bucket; as a
// queue, Kong, "How to design a scalable rate limiting algorithm" (2017).
type LeakyQueue struct {
	keyed[exactmath.Queue]
}

// NewLeakyQueue returns a queue for every key, of capacity units, 1 … 1<<31-1, that
// processes one every interval, 1ns or more. A full queue must take at most 1<<61ns.
func NewLeakyQueue(capacity int, interval time.Duration, options ...Option) (*LeakyQueue, error) {
	if err := checkUnits("capacity", capacity); err != nil {
		return nil, err
	}
	if err := checkSpan("interval", interval); err != nil {
		return nil, err
	}
	r, err := exactmath.NewLeakyQueue(int64(capacity), int64(interval))
	if err != nil {
		return nil, err
	}
	q := new(LeakyQueue)
	p := purpose{limit: capacity, most: capacity, window: time.Duration(capacity) * interval}
	return orNil(q, q.init(&r, p, r.Initial(), options))
}

// EnqueueAt puts n units into the key's queue if they fit, and returns after what
// delay the last of them is processed. Refused units (ok is false) leave no trace.
func (q *LeakyQueue) EnqueueAt(now time.Time, key string, n int) (delay time.Duration, ok bool) {
	d := q.TakeAt(now, key, n)
	if !d.Allowed {
		return 0, false
	}
	return d.ResetAfter, true
}
