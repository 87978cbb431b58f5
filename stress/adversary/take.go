package main

import (
	"errors"
	"math"
	"net/netip"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// last is the request before, which an honoured one waits for.
type last struct {
	denied bool
	behind bool
	op     op
	retry  time.Duration
}

// again returns the request at the time at which it was told to come again. It returns
// false if there is no such time.
func (l *last) again() (o op, ok bool) {
	o = l.op
	o.at += int64(l.retry)
	return o, l.denied && l.retry != sketchlimit.Never && l.retry >= 0 && !ends(l.op.at, o.at)
}

// answer is what a request was told.
type answer struct {
	sketchlimit.Decision
	whole bool // all of the Decision, not only whether
	wait  time.Duration
	err   error // of Reserve
}

// ask makes the clock show the time of an operation whose form reads it, and calls.
func (n *node) ask(o op) (a answer) {
	if o.form >= formNow {
		n.clock.Store(o.at)
	}
	return n.call(o)
}

// call calls the method that the form of a normal operation names.
func (n *node) call(o op) (a answer) {
	l, key := n.limiter, name(o.key)
	switch o.form {
	case formReserve, formReserveAt:
		a.wait, a.err = l.Reserve(o.request())
		a.Allowed = a.err == nil
	case formAllow:
		a.Allowed = l.Allow(key)
	case formAllowN:
		a.Allowed = l.AllowN(key, o.n)
	case formAt:
		a.Decision, a.whole = l.TakeAt(at(o.at), key, o.n), true
	case formNow:
		a.Decision, a.whole = l.Take(key, o.n), true
	default:
		a.Decision, a.whole = l.Do(o.request()), true
	}
	return a
}

// peek returns what the operation would return at a time. It names the key as the
// operation does, or as a string.
func (n *node) peek(o op, t int64) sketchlimit.Decision {
	r := o.request()
	if t%2 == 0 {
		r.Key, r.Bytes, r.Addr = name(o.key), nil, netip.Addr{}
	}
	r.Time, r.Peek = at(t), true
	if o.n == 0 { // which a Request cannot say, and which is told the same
		r.N = -1
	}
	return n.limiter.Do(r)
}

// lower returns the limit that an operation is held against: 0 if a limit of its own is
// below the lowest.
func (n *node) lower(o op) int64 {
	lowest := n.config.LowestLimit
	if lowest == 0 {
		lowest = n.config.Limit
	}
	switch {
	case !o.own || o.limit == 0:
		return int64(n.config.Limit)
	case o.limit < lowest:
		return 0
	}
	return int64(min(o.limit, n.config.Limit))
}

// quota is what the exact algorithm says of a request's key just before the request.
type quota struct {
	limit int64 // that the request is held against; 0: its own is too low
	most  int64 // units of the whole quota
	free  int64 // units of it that are left; below 0 if more than the limit was granted
}

func (n *node) quota(o op) quota {
	limit := n.lower(o)
	return quota{limit, n.oracle.most(limit), n.oracle.free(o.at, o.key, limit)}
}

// came notes that the request has come, with its time.
func (n *node) came(o op, q quota) {
	n.see(o.at)
	if q.limit == 0 && o.limit > 0 {
		n.tooLow++
	}
}

// fits reports whether the whole quota is enough for the request: otherwise it can
// never pass.
func (q *quota) fits(o op) bool { return o.n >= 1 && int64(o.n) <= q.most }

// bucket is what an exact bucket says of a request's key just before the request. Of a
// window it says nothing.
type bucket struct {
	now    int64 // the time that counts
	fullAt int64 // the time at which the bucket is full
	sure   bool  // that is one time for sure, and the time that counts is the request's
}

func (n *node) bucket(o op) bucket {
	if n.oracle.scale == nil {
		return bucket{fullAt: math.MinInt64}
	}
	now, _ := n.oracle.position(o.at)
	return bucket{now, n.oracle.fullAt(o.key), n.oracle.sure(o.at, o.key)}
}

// take sends a request to one limiter and judges what it is told.
func (w *world) take(o op) bool {
	n := w.nodes[o.node]
	o = o.normal()
	if o.form.reserves() && n.config.Algorithm != sketchlimit.TokenBucket { // which brings no time either
		if a := n.call(o); a.wait != 0 || !errors.Is(a.err, errors.ErrUnsupported) {
			w.fail("reserve", o, "a window has reserved: wait %v, error %v", a.wait, a.err)
		}
		return false
	}
	q, b := n.quota(o), n.bucket(o)
	w.behind = n.oracle.passed(o.at)
	before := n.peek(o, o.at)
	w.judgePeek(o, before, q.free)
	var looked answer
	if o.form.reserves() {
		looked = n.lookReserve(o)
	}
	a := n.ask(o)
	n.came(o, q)
	q.free = n.free(o.at, o.key, q.limit)
	if o.form.reserves() {
		w.judgeReserve(o, a, looked, b)
	}
	if a.Allowed && (!q.fits(o) || int64(o.n) > q.free) {
		w.fail("over-admission", o, "admitted %d units, the exact algorithm has %d free; %+v", o.n, q.free, a.Decision)
	}
	if a.Allowed != before.Allowed && !(a.Allowed && n.spares(o.at)) {
		w.fail("take is not peek", o, "allowed is %v, Peek before %+v", a.Allowed, before)
	}
	if (w.alone || n.common) && n.share == nil {
		w.judgeAlone(o, a, q, b)
	}
	if a.Allowed && o.n >= 1 {
		w.charge(o, q.limit)
		q.free -= int64(o.n)
	}
	if a.whole {
		if a.Limit != int(q.limit) {
			w.fail("limit", o, "Decision.Limit %d, must be %d", a.Limit, q.limit)
		}
		w.judgeDecision(o, a.Decision, q)
		w.compare(o, n, a.Decision, before)
	}
	if !a.Allowed {
		w.last = last{true, w.behind, o, before.RetryAfter}
		if a.whole {
			w.last.retry = a.RetryAfter
		}
	}
	return a.Allowed
}

// lookReserve returns what a Reserve would return.
func (n *node) lookReserve(o op) (a answer) {
	if o.form == formReserve {
		n.clock.Store(o.at)
	}
	r := o.request()
	r.Peek = true
	a.wait, a.err = n.limiter.Reserve(r)
	a.Allowed = a.err == nil
	return a
}

// takeLightly is take for one of a crowd: held against the exact algorithm alone.
func (w *world) takeLightly(o op) {
	n := w.nodes[o.node]
	limit := n.lower(o)
	a := n.ask(o)
	free := n.free(o.at, o.key, limit)
	n.see(o.at)
	if a.Allowed && o.n >= 1 {
		if int64(o.n) > free {
			w.fail("over-admission", o, "admitted %d units, the exact algorithm has %d free; %+v", o.n, free, a.Decision)
		}
		w.charge(o, limit)
		free -= int64(o.n)
	}
	if int64(a.Remaining) > max(0, free) {
		w.fail("remaining", o, "Remaining %d, the exact algorithm has %d: %+v", a.Remaining, free, a.Decision)
	}
}
