package main

import (
	"errors"

	"github.com/sketchlimit/sketchlimit"
)

// judgePeek judges what a peek tells beforehand.
func (w *world) judgePeek(o op, d sketchlimit.Decision, free int64) {
	if w.nodes[o.node].config.Overload == sketchlimit.DenyProven {
		return // it may be over capacity with the request, which is told the same
	}
	if d.Allowed && int64(o.n) > free {
		w.fail("over-admission", o, "Peek admits, the exact algorithm has %d free: %+v", free, d)
	}
	if int64(d.Remaining) > max(0, free) {
		w.fail("remaining", o, "Peek's Remaining %d, the exact algorithm has %d: %+v", d.Remaining, free, d)
	}
}

// judgeDecision holds a decision against the exact algorithm, which has q.free units left
// now, and against what the limiter itself would say later.
func (w *world) judgeDecision(o op, d sketchlimit.Decision, q quota) {
	if d.Remaining < 0 || int64(d.Remaining) > max(0, q.free) {
		w.fail("remaining", o, "Remaining %d, the exact algorithm has %d: %+v", d.Remaining, q.free, d)
	}
	w.judgeReset(o, d, q)
	w.judgeRetry(o, d, q)
}

// judgeReset judges ResetAfter: the whole quota is free then, and of a window not before.
func (w *world) judgeReset(o op, d sketchlimit.Decision, q quota) {
	if d.ResetAfter < 0 {
		w.fail("reset", o, "ResetAfter below 0: %+v", d)
		return
	}
	later := o.at + int64(d.ResetAfter)
	if q.most == 0 || ends(o.at, later) { // of a limit below 1 nothing can come back
		return
	}
	n, one := w.nodes[o.node], o
	one.n = 1
	if p := n.peek(one, later); int64(p.Remaining) != q.most {
		w.fail("reset", o, "%d of %d free after ResetAfter: %+v, then %+v", p.Remaining, q.most, d, p)
	}
	if left := n.free(later, o.key, q.limit); left != q.most {
		w.fail("reset", o, "%d of %d free by the exact algorithm after ResetAfter: %+v", left, q.most, d)
	}
	if n.oracle.scale == nil && d.ResetAfter > 0 && n.config.Overload == sketchlimit.Deny { // what is spared may not be kept in mind
		if p := n.peek(one, later-1); int64(p.Remaining) == q.most {
			w.fail("reset late", o, "all free a nanosecond before ResetAfter: %+v", d)
		}
	}
}

// judgeRetry judges RetryAfter: the request passes then, and not before.
func (w *world) judgeRetry(o op, d sketchlimit.Decision, q quota) {
	switch {
	case d.Allowed:
		if d.RetryAfter != 0 {
			w.fail("retry", o, "allowed with a RetryAfter: %+v", d)
		}
		return
	case !q.fits(o):
		if d.RetryAfter != sketchlimit.Never {
			w.fail("never", o, "can never pass: %+v", d)
		}
		return
	case d.RetryAfter == sketchlimit.Never || d.RetryAfter <= 0:
		w.fail("never", o, "will pass: %+v", d)
		return
	}
	later := o.at + int64(d.RetryAfter)
	if ends(o.at, later) {
		return
	}
	n := w.nodes[o.node]
	if p := n.peek(o, later); !p.Allowed {
		w.fail("retry", o, "Peek denies after RetryAfter: %+v, then %+v", d, p)
	}
	if left := n.free(later, o.key, q.limit); left < int64(o.n) {
		w.fail("retry", o, "%d free by the exact algorithm after RetryAfter: %+v", left, d)
	}
	if p := n.peek(o, later-1); p.Allowed && n.config.Overload == sketchlimit.Deny {
		w.fail("retry late", o, "Peek admits a nanosecond before RetryAfter: %+v", d)
	}
}

// judgeReserve holds what a bucket's Reserve returned against the exact bucket and a
// Reserve just before that only looked.
func (w *world) judgeReserve(o op, a, looked answer, b bucket) {
	switch {
	case a.err != nil && !errors.Is(a.err, sketchlimit.ErrQueueFull):
		w.fail("reserve", o, "error %v", a.err)
	case a != looked:
		w.fail("reserve", o, "wait %v, error %v; with Peek before %v, %v", a.wait, a.err, looked.wait, looked.err)
	case !a.Allowed && a.wait != 0:
		w.fail("reserve", o, "denied with a wait of %v", a.wait)
	case a.Allowed && a.wait < 0, a.Allowed && b.fullAt > b.now && o.at+int64(a.wait) < b.fullAt && !ends(o.at, b.fullAt):
		w.fail("reserve", o, "wait %v ends at %d, the bucket is full at %d", a.wait, o.at+int64(a.wait), b.fullAt)
	}
}

// judgePeekNow holds peeks by the clock against one at the time that it shows.
func (w *world) judgePeekNow(o op) {
	n := w.nodes[o.node]
	o.n = 1
	want := n.peek(o, o.at)
	for _, got := range []sketchlimit.Decision{n.limiter.Peek(name(o.key)), n.limiter.Do(sketchlimit.Request{Key: name(o.key), Peek: true})} {
		if got != want {
			w.fail("peek now", o, "by the clock %+v, at that time %+v", got, want)
		}
	}
}

// judgeStats judges what Stats tells that must be in bounds, and TooLow, which is exact.
func (w *world) judgeStats(o op) {
	n := w.nodes[o.node]
	s := n.limiter.Stats()
	if !(s.FalseDenialRate >= 0 && s.FalseDenialRate <= 1+1e-9) {
		w.fail("stats", o, "FalseDenialRate %v", s.FalseDenialRate)
	}
	w.judgeAudit(o, s.Audit)
	if s.TooLow != n.tooLow || s.TooLow > 0 && !s.OutsidePlan {
		w.fail("too low", o, "TooLow %d, OutsidePlan %v; %d requests were below the lowest limit", s.TooLow, s.OutsidePlan, n.tooLow)
	}
}

// judgeAudits is judgeAudit for all limiters, after each sixteenth operation: it takes
// as long as the operation.
func (w *world) judgeAudits(o op) {
	if w.step%16 != 0 {
		return
	}
	for i, n := range w.nodes {
		if l, ok := n.limiter.(*sketchlimit.Limiter); ok {
			o.node = i
			w.judgeAudit(o, l.Counters().Audit)
		}
	}
}

// judgeAudit judges that the limiter's own audit found nothing that was over-admitted.
func (w *world) judgeAudit(o op, a sketchlimit.Audit) {
	if a.OverAdmitted > 0 {
		w.fail("audit", o, "%d units over-admitted: %+v", a.OverAdmitted, a)
	}
}

// ends reports whether time ends between two times: later ones do not come, so that
// nothing can be said of them.
func ends(from, to int64) bool {
	return from < -lastTime+1e9 || to >= lastTime || to < from && from > 0
}

// compare holds a decision against a peek just before it, and if it was denied one just
// after.
func (w *world) compare(o op, n *node, d, before sketchlimit.Decision) {
	if d.Allowed {
		// Of a limit that is shared an admitted request may be told less: what the
		// others weighed when they were last weighed.
		left := before.Remaining - o.n
		if before.Allowed && (d.Remaining > left && !n.spares(o.at) || d.Remaining < left && n.share == nil) {
			w.fail("take is not peek", o, "took %+v, Peek before %+v", d, before)
		}
		return
	}
	// After a turn since the Peek a limiter over capacity may tell otherwise what is
	// left.
	turned := d.Limit == before.Limit && d.RetryAfter == before.RetryAfter && n.spares(o.at)
	if !before.Allowed && d != before && !turned {
		w.fail("take is not peek", o, "took %+v, Peek before %+v", d, before)
	}
	if after := n.peek(o, o.at); d != after {
		w.fail("stale denial", o, "took %+v, fresh Peek %+v", d, after)
	}
}

// burst is what an exact bucket says of a key that is alone.
type burst struct {
	at    int64
	full  bool // the exact bucket was full when the first request of this instant came
	mixed bool // since it was full last it was restored, or limits of requests' own were charged: it may be rounded
}

// judgeAlone holds a limiter with one key to the exact answer.
func (w *world) judgeAlone(o op, a answer, q quota, b bucket) {
	if n := w.nodes[o.node]; n.oracle.scale == nil {
		w.judgeAloneWindow(o, a, q.free)
	} else {
		w.judgeAloneBucket(o, n, a, q, b)
	}
}

func (w *world) judgeAloneWindow(o op, a answer, free int64) {
	want := o.n >= 1 && int64(o.n) <= free
	switch {
	case a.Allowed != want:
		w.fail("alone", o, "allowed %v, the exact algorithm has %d free and nothing collides", a.Allowed, free)
	case a.whole && a.Allowed && int64(a.Remaining) != free-int64(o.n):
		w.fail("alone", o, "Remaining %d, the exact algorithm has %d and nothing collides", a.Remaining, free-int64(o.n))
	case a.whole && !a.Allowed && int64(a.Remaining) != max(0, free):
		w.fail("alone", o, "Remaining %d, the exact algorithm has %d and nothing collides", a.Remaining, free)
	}
}

// judgeAloneBucket judges denials of what the exact bucket admits. Times are rounded up
// once to a tick, and a denial is right if the exact bucket would have denied by that
// much earlier.
func (w *world) judgeAloneBucket(o op, n *node, a answer, q quota, b bucket) {
	own := q.limit < int64(n.config.Limit)
	if !b.sure {
		n.burst.full = false
		n.burst.mixed = n.burst.mixed || a.Allowed && own
		return
	}
	slack := max(2, n.oracle.turn>>28)
	if full := b.fullAt <= o.at; full || n.burst.at != o.at {
		n.burst = burst{o.at, full, n.burst.mixed && b.fullAt > o.at-100*slack}
	}
	if a.Allowed && own {
		n.burst.mixed = true
	}
	if a.Allowed || o.n < 1 || int64(o.n) > q.free {
		return
	}
	switch {
	case n.burst.full && !n.burst.mixed:
		w.fail("bucket short", o, "denied %d units of a bucket of %d that was full at this instant and has %d", o.n, q.most, q.free)
	case n.oracle.earlier(o.at-100*slack, o.key, q.limit) > int64(o.n):
		w.fail("bucket short", o, "denied %d units, the exact bucket has %d and is not rounded that much", o.n, q.free)
	case !n.burst.mixed && !own && n.oracle.earlier(o.at-slack, o.key, q.limit) >= int64(o.n):
		w.fail("bucket paced", o, "denied %d units, the exact bucket has had as many for %d ns", o.n, slack)
	}
}
