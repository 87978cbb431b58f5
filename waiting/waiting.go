// Package waiting makes callers wait for a limiter instead of being refused. Callers of
// one key go on in the order in which they came, as soon as the limiter admits them.
//
//	queue, err := waiting.New(limiter)
//	...
//	if err := queue.Wait(ctx, sketchlimit.Request{Key: host}); err != nil { ... }
//
// Requests that are free pass at once, later ones at the limiter's pace: with a
// TokenBucket of 5 a second and a burst of 20, twenty requests pass and then one every
// 200ms, as with golang.org/x/time/rate. Use a TokenBucket: a window lets its whole
// limit pass when it begins.
//
// The limiter admits each request at the moment when it passes, and a caller that gives
// up has consumed nothing. So a Queue over-admits nothing, and works with every
// limiter: sketches, exact ones, groups, limiters over Redis. It orders the callers of
// this process only.
package waiting

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
)

var (
	// ErrNever is wrapped by the error for a request that no wait makes admissible: its
	// cost is below 1 or above the limit (above the burst, of a bucket), or its own
	// limit is too low.
	ErrNever = errors.New("waiting: no wait makes the request admissible")
	// ErrDeadline is wrapped, with [context.DeadlineExceeded], by the error for a
	// request whose turn comes after its context's deadline.
	ErrDeadline = errors.New("waiting: the turn would come after the deadline")
	// ErrCancelled is the error of a [Reservation] that was cancelled.
	ErrCancelled = errors.New("waiting: the reservation was cancelled")
)

// Queue orders the callers that wait for a limiter, each key by itself. Make it with
// [New]. It is safe for concurrent use. It takes about 300 bytes for each waiting
// caller and 300 for each of their keys. The number of callers is not bounded: give
// contexts a deadline.
type Queue struct {
	limiter sketchlimit.Member
	bucket  bool // units flow back evenly
	most    func() int

	mu    sync.Mutex // guards what follows, and is held briefly
	lines map[string]*line
}

// line is the callers that wait for one key.
type line struct {
	queue *Queue
	key   string
	users int // of the Queue's mutex: reservations in the line, or on their way to it

	mu      sync.Mutex // guards what follows, and lets decisions on the key take turns
	waiting []*Reservation
	timer   *time.Timer // nil unless the first waits
}

// Reservation is a place in a [Queue]. Its units are consumed when its turn comes, even
// if no goroutine waits for it. It is safe for concurrent use.
type Reservation struct {
	line    *line
	request sketchlimit.Request
	done    chan struct{}
	err     error // set before done is closed
}

// New returns an empty Queue in front of a limiter. Requests made directly to the
// limiter take free units before those in the Queue.
func New(limiter sketchlimit.Member) (*Queue, error) {
	if v := reflect.ValueOf(limiter); limiter == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("waiting: limiter nil, must be one")
	}
	q := &Queue{limiter: limiter, lines: map[string]*line{}}
	switch l := limiter.(type) {
	case *sketchlimit.Limiter:
		q.bucket = l.Plan().Algorithm == sketchlimit.TokenBucket
	case *exact.GCRA, *exact.TokenBucket, *exact.LeakyMeter:
		q.bucket = true
	}
	q.most = sync.OnceValue(q.findMost)
	return q, nil
}

// Wait consumes the request's units when its turn has come, and returns nil. Otherwise
// it consumes nothing, and the error wraps the context's, ErrNever or ErrDeadline. It
// returns ErrDeadline at once where the turn certainly comes after the deadline, with a
// bucket always unless requests bypass the Queue. Request.Time and Request.Peek must
// not be set.
func (q *Queue) Wait(ctx context.Context, r sketchlimit.Request) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	deadline, _ := ctx.Deadline()
	p, err := q.reserve(r, deadline)
	if err != nil || p == nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		if !p.Cancel() {
			return p.err // its turn came at the same time
		}
		return fmt.Errorf("waiting: %w", ctx.Err())
	}
}

// Reserve takes a place in the queue and does not wait. If the queue is empty and the
// limiter admits the request, its turn has come at once. The error wraps ErrNever.
// Request.Time and Request.Peek must not be set.
func (q *Queue) Reserve(r sketchlimit.Request) (*Reservation, error) {
	p, err := q.reserve(r, time.Time{})
	if p == nil && err == nil {
		p = &Reservation{done: closed}
	}
	return p, err
}

var closed = make(chan struct{})

func init() { close(closed) }

// reserve returns nil if the units were consumed at once.
func (q *Queue) reserve(r sketchlimit.Request, deadline time.Time) (*Reservation, error) {
	if !r.Time.IsZero() || r.Peek {
		return nil, errors.New("waiting: Request with Time or Peek, must have neither")
	}
	key := keyOf(&r)
	q.mu.Lock()
	_, others := q.lines[key]
	q.mu.Unlock()
	if !others {
		switch d := q.limiter.Do(r); {
		case d.Allowed:
			return nil, nil
		case d.RetryAfter == sketchlimit.Never:
			return nil, never(&r)
		}
	}
	if r.Bytes != nil && !r.Addr.IsValid() {
		r.Bytes, r.Key = nil, key // which the caller may change
	}
	l := q.enter(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &Reservation{line: l, request: r, done: make(chan struct{})}
	d := q.peek(r)
	if d.RetryAfter == sketchlimit.Never {
		q.leave(l)
		return nil, never(&r)
	}
	if !deadline.IsZero() {
		if turn := l.turn(len(l.waiting), &r); turn > time.Until(deadline) {
			q.leave(l)
			return nil, fmt.Errorf("%w: in %v: %w", ErrDeadline, turn, context.DeadlineExceeded)
		}
	}
	l.waiting = append(l.waiting, p)
	if len(l.waiting) == 1 {
		l.serve()
	}
	return p, nil
}

func never(r *sketchlimit.Request) error {
	if r.Limit != 0 {
		return fmt.Errorf("%w: cost %d, own limit %d", ErrNever, cost(r), r.Limit)
	}
	return fmt.Errorf("%w: cost %d", ErrNever, cost(r))
}

// enter returns the line of a key, which it keeps until leave is called.
func (q *Queue) enter(key string) *line {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if l == nil {
		l = &line{queue: q, key: key}
		q.lines[key] = l
	}
	l.users++
	return l
}

func (q *Queue) leave(l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(q.lines, l.key)
	}
}

// peek returns the limiter's decision and consumes nothing.
func (q *Queue) peek(r sketchlimit.Request) sketchlimit.Decision {
	r.Peek = true
	return q.limiter.Do(r)
}

// serve lets all requests pass whose turn has come, and sets a timer for the next one.
// The line is locked.
func (l *line) serve() {
	for len(l.waiting) > 0 {
		first := l.waiting[0]
		d := l.queue.limiter.Do(first.request)
		if !d.Allowed && d.RetryAfter != sketchlimit.Never {
			if l.timer == nil {
				l.timer = time.AfterFunc(d.RetryAfter, l.ring)
			} else {
				l.timer.Reset(d.RetryAfter)
			}
			return
		}
		if !d.Allowed { // the limit has changed
			first.err = never(&first.request)
		}
		l.remove(0)
		close(first.done)
	}
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// ring is called by the timer of the first request. The line may be empty by then.
func (l *line) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serve()
}

func (l *line) remove(i int) {
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.queue.leave(l)
}

// turn returns how long a request waits for before units ahead of it and for its own,
// if no other requests come, or less if that is unknown. The line is locked.
func (l *line) turn(before int, r *sketchlimit.Request) time.Duration {
	q, units := l.queue, cost(r)
	for _, p := range l.waiting[:before] {
		units += cost(&p.request)
	}
	own := *r
	own.N = units
	d := q.peek(own)
	if d.RetryAfter != sketchlimit.Never {
		return d.RetryAfter // 0 if it is admitted
	}
	// More wait than can pass at once.
	if r.Limit != 0 || d.Limit < 1 {
		return q.peek(*r).RetryAfter
	}
	if q.bucket {
		own.N = q.most()
		flows := float64(units-own.N) * float64(q.limiter.Window()) / float64(d.Limit)
		return q.peek(own).RetryAfter + time.Duration(min(flows, 1<<62))
	}
	windows := (units-1)/d.Limit - 1 // whole ones that must pass: each window admits at most its limit
	return max(q.peek(*r).RetryAfter, time.Duration(max(0, windows))*q.limiter.Window())
}

// findMost returns the highest cost that the limiter ever admits.
func (q *Queue) findMost() int {
	low, high := 1, 1<<31-1
	for low < high {
		middle := low + (high-low+1)/2
		if q.peek(sketchlimit.Request{N: middle}).RetryAfter == sketchlimit.Never {
			high = middle - 1
		} else {
			low = middle
		}
	}
	return low
}

// Done returns a channel that is closed when the units were consumed, or when Err is
// not nil.
func (p *Reservation) Done() <-chan struct{} { return p.done }

// Err returns nil before Done is closed, and if the units were consumed. Otherwise it
// returns ErrCancelled or an error that wraps ErrNever.
func (p *Reservation) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Delay returns the time until the turn comes, if no request bypasses the Queue and
// none ahead is cancelled, or less if that is unknown, see [Queue.Wait]. It is 0 once
// the turn has come.
func (p *Reservation) Delay() time.Duration {
	if p.line == nil {
		return 0
	}
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	i := slices.Index(p.line.waiting, p)
	if i < 0 {
		return 0
	}
	return p.line.turn(i, &p.request)
}

// Cancel gives up the place, and requests behind move up. It reports whether the place
// was given up, now or by an earlier Cancel. Once the turn has come it does nothing:
// the units stay consumed.
func (p *Reservation) Cancel() bool {
	if p.line == nil {
		return false
	}
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	i := slices.Index(p.line.waiting, p)
	if i < 0 {
		return p.err != nil
	}
	p.err = ErrCancelled
	p.line.remove(i)
	close(p.done)
	if i == 0 {
		p.line.serve()
	}
	return true
}

// keyOf returns a copy of the request's key. An address and its bytes are one key.
func keyOf(r *sketchlimit.Request) string {
	switch {
	case r.Addr.IsValid():
		return string(r.Addr.Unmap().WithZone("").AsSlice())
	case r.Bytes != nil:
		return string(r.Bytes)
	}
	return r.Key
}

func cost(r *sketchlimit.Request) int {
	if r.N == 0 {
		return 1
	}
	return r.N
}
