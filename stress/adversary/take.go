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

// answer is what a request was told.
type answer struct {
	sketchlimit.Decision
	told bool // all of the Decision, not only whether
	wait time.Duration
	err  error // of Reserve
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
		a.Decision, a.told = l.TakeAt(at(o.at), key, o.n), true
	case formNow:
		a.Decision, a.told = l.Take(key, o.n), true
	default:
		a.Decision, a.told = l.Do(o.request()), true
	}
	return a
}

// peek tells what the operation would be told at a time. It names the key as the operation does, or as a string.
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

// lower returns the limit that an operation is held against: 0 if a limit of its own is below the lowest.
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

func (n *node) fullAt(key int) int64 {
	if n.oracle.scale == nil {
		return math.MinInt64
	}
	return n.oracle.fullAt(key)
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
	limit := n.lower(o)
	most, free, want := n.oracle.most(limit), n.oracle.free(o.at, o.key, limit), int64(o.n)
	fullAt := n.fullAt(o.key)
	w.behind = n.oracle.passed(o.at)
	generation, elapsed := n.oracle.position(o.at)
	now := generation*n.oracle.length + elapsed // as it counts
	sure := n.oracle.scale != nil && n.oracle.sure(o.at, o.key)
	before := n.peek(o, o.at)
	w.judgePeek(o, before, free)
	var looked answer
	if o.form.reserves() {
		looked = n.lookReserve(o)
	}
	a := n.ask(o)
	n.see(o.at)
	if o.form.reserves() {
		switch {
		case a.err != nil && !errors.Is(a.err, sketchlimit.ErrQueueFull):
			w.fail("reserve", o, "error %v", a.err)
		case a != looked:
			w.fail("reserve", o, "wait %v, error %v; with Peek before %v, %v", a.wait, a.err, looked.wait, looked.err)
		case !a.Allowed && a.wait != 0:
			w.fail("reserve", o, "denied with a wait of %v", a.wait)
		case a.Allowed && a.wait < 0, a.Allowed && fullAt > now && o.at+int64(a.wait) < fullAt && !ends(o.at, fullAt):
			w.fail("reserve", o, "wait %v ends at %d, the bucket is full at %d", a.wait, o.at+int64(a.wait), fullAt)
		}
	}
	valid := want >= 1 && want <= most
	if a.Allowed && (!valid || want > free) {
		w.fail("over-admission", o, "admitted %d units, the exact algorithm has %d free; %+v", o.n, free, a.Decision)
	}
	if a.Allowed != before.Allowed {
		w.fail("take is not peek", o, "allowed is %v, Peek before %+v", a.Allowed, before)
	}
	w.judgeAlone(o, n, a, free, most, limit, fullAt, sure)
	if a.Allowed && want >= 1 {
		n.oracle.charge(o.at, o.key, want, limit)
		free -= want
	}
	if a.told {
		if a.Limit != int(limit) {
			w.fail("limit", o, "Decision.Limit %d, must be %d", a.Limit, limit)
		}
		w.judgeDecision(o, n, a.Decision, free, most, valid)
		w.compare(o, n, a.Decision, before)
	}
	if !a.Allowed {
		w.last = last{true, w.behind, o, before.RetryAfter}
		if a.told {
			w.last.retry = a.RetryAfter
		}
	}
	return a.Allowed
}

// lookReserve tells what a Reserve would return.
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
	free := n.oracle.free(o.at, o.key, limit)
	a := n.ask(o)
	n.see(o.at)
	if a.Allowed && o.n >= 1 {
		if int64(o.n) > free {
			w.fail("over-admission", o, "admitted %d units, the exact algorithm has %d free; %+v", o.n, free, a.Decision)
		}
		n.oracle.charge(o.at, o.key, int64(o.n), limit)
		free -= int64(o.n)
	}
	if int64(a.Remaining) > max(0, free) {
		w.fail("remaining", o, "Remaining %d, the exact algorithm has %d: %+v", a.Remaining, free, a.Decision)
	}
}
