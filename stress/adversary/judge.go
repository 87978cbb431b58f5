package main

import "github.com/sketchlimit/sketchlimit"

// judgePeek judges what a peek tells beforehand.
func (w *world) judgePeek(o op, d sketchlimit.Decision, free int64) {
	if d.Allowed && int64(o.n) > free {
		w.fail("over-admission", o, "Peek admits, the exact algorithm has %d free: %+v", free, d)
	}
	if int64(d.Remaining) > max(0, free) {
		w.fail("remaining", o, "Peek's Remaining %d, the exact algorithm has %d: %+v", d.Remaining, free, d)
	}
}

// judgeDecision holds a decision against the exact algorithm, which has free units left
// now, and against what the limiter itself would say later.
func (w *world) judgeDecision(o op, n *node, d sketchlimit.Decision, free, most int64, valid bool) {
	if d.Remaining < 0 || int64(d.Remaining) > max(0, free) {
		w.fail("remaining", o, "Remaining %d, the exact algorithm has %d: %+v", d.Remaining, free, d)
	}
	limit := int64(d.Limit)
reset:
	switch {
	case d.ResetAfter < 0:
		w.fail("reset", o, "ResetAfter below 0: %+v", d)
	case most > 0: // of a limit below 1 nothing can come back
		later := o.at + int64(d.ResetAfter)
		if ends(o.at, later) {
			break reset
		}
		one := o
		one.n = 1
		if p := n.peek(one, later); int64(p.Remaining) != most {
			w.fail("reset", o, "%d of %d free after ResetAfter: %+v, then %+v", p.Remaining, most, d, p)
		}
		if left := n.oracle.free(later, o.key, limit); left != most {
			w.fail("reset", o, "%d of %d free by the exact algorithm after ResetAfter: %+v", left, most, d)
		}
		if n.oracle.scale == nil && d.ResetAfter > 0 {
			if p := n.peek(one, later-1); int64(p.Remaining) == most {
				w.fail("reset late", o, "all free a nanosecond before ResetAfter: %+v", d)
			}
		}
	}
	switch {
	case d.Allowed:
		if d.RetryAfter != 0 {
			w.fail("retry", o, "allowed with a RetryAfter: %+v", d)
		}
	case !valid:
		if d.RetryAfter != sketchlimit.Never {
			w.fail("never", o, "can never pass: %+v", d)
		}
	case d.RetryAfter == sketchlimit.Never || d.RetryAfter <= 0:
		w.fail("never", o, "will pass: %+v", d)
	default:
		later := o.at + int64(d.RetryAfter)
		if ends(o.at, later) {
			break
		}
		if p := n.peek(o, later); !p.Allowed {
			w.fail("retry", o, "Peek denies after RetryAfter: %+v, then %+v", d, p)
		}
		if left := n.oracle.free(later, o.key, limit); left < int64(o.n) {
			w.fail("retry", o, "%d free by the exact algorithm after RetryAfter: %+v", left, d)
		}
		if p := n.peek(o, later-1); p.Allowed {
			w.fail("retry late", o, "Peek admits a nanosecond before RetryAfter: %+v", d)
		}
	}
}

// ends tells whether time ends between two times: later ones do not come, so that nothing
// can be said of them.
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
		if before.Allowed && (d.Remaining > left || d.Remaining < left && n.share == nil) {
			w.fail("take is not peek", o, "took %+v, Peek before %+v", d, before)
		}
		return
	}
	if !before.Allowed && d != before {
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
func (w *world) judgeAlone(o op, n *node, a answer, free, most, limit, fullAt int64, sure bool) {
	own := limit < int64(n.config.Limit)
	if !w.alone || n.share != nil {
		return
	}
	if n.oracle.scale == nil {
		want := o.n >= 1 && int64(o.n) <= free
		switch {
		case a.Allowed != want:
			w.fail("alone", o, "allowed %v, the exact algorithm has %d free and nothing collides", a.Allowed, free)
		case a.told && a.Allowed && int64(a.Remaining) != free-int64(o.n):
			w.fail("alone", o, "Remaining %d, the exact algorithm has %d and nothing collides", a.Remaining, free-int64(o.n))
		case a.told && !a.Allowed && int64(a.Remaining) != max(0, free):
			w.fail("alone", o, "Remaining %d, the exact algorithm has %d and nothing collides", a.Remaining, free)
		}
		return
	}
	if !sure {
		n.burst.full = false
		n.burst.mixed = n.burst.mixed || a.Allowed && own
		return
	}
	slack := max(2, n.oracle.turn>>28)
	if full := fullAt <= o.at; full || n.burst.at != o.at {
		n.burst = burst{o.at, full, n.burst.mixed && fullAt > o.at-100*slack}
	}
	if a.Allowed && own {
		n.burst.mixed = true
	}
	if a.Allowed || o.n < 1 || int64(o.n) > free {
		return
	}
	// The exact bucket admits. Times are rounded up once to a tick, and a denial is right
	// if the exact bucket would have denied by that much earlier.
	switch {
	case n.burst.full && !n.burst.mixed:
		w.fail("bucket short", o, "denied %d units of a bucket of %d that was full at this instant and has %d", o.n, most, free)
	case n.oracle.earlier(o.at-100*slack, o.key, limit) > int64(o.n):
		w.fail("bucket short", o, "denied %d units, the exact bucket has %d and is not rounded that much", o.n, free)
	case !n.burst.mixed && !own && n.oracle.earlier(o.at-slack, o.key, limit) >= int64(o.n):
		w.fail("bucket paced", o, "denied %d units, the exact bucket has had as many for %d ns", o.n, slack)
	}
}
