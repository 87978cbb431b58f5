package main

import "github.com/sketchlimit/sketchlimit"

// asked is what a limiter of a group said before the group was asked.
type asked struct {
	free, most, limit int64
	before            sketchlimit.Decision
}

// takeTogether sends a request to the group and judges what it and its limiters are told.
func (w *world) takeTogether(o op) bool {
	o = o.normal()
	all := make([]asked, len(w.nodes))
	want := true
	for i, n := range w.nodes {
		w.behind = w.behind || n.oracle.passed(o.at)
		limit := n.lower(o)
		all[i] = asked{n.oracle.free(o.at, o.key, limit), n.oracle.most(limit), limit, n.peek(o, o.at)}
		w.judgePeek(o, all[i].before, all[i].free)
		want = want && all[i].before.Allowed
		if o.form >= formNow {
			n.clock.Store(o.at)
		}
	}
	peek := w.peekTogether(o)
	w.judgeTightest(o, peek, all)
	if was := peek; was.By >= 0 && was.By < len(all) {
		if was.By = 0; was != all[peek.By].before {
			w.fail("group", o, "Peek %+v, limiter %d: %+v", peek, peek.By, all[peek.By].before)
		}
	}
	d, told := w.callTogether(o)
	for _, n := range w.nodes {
		n.see(o.at)
	}
	if d.Allowed != want {
		w.fail("group is not peek", o, "allowed %v, Peeks before say %v", d.Allowed, want)
	}
	for i, n := range w.nodes {
		if d.Allowed {
			if o.n < 1 || int64(o.n) > all[i].free {
				w.fail("over-admission", o, "limiter %d admits %d units, the exact algorithm has %d", i, o.n, all[i].free)
			}
			if o.n >= 1 {
				n.oracle.charge(o.at, o.key, int64(o.n), all[i].limit)
			}
		}
		after := n.peek(o, o.at)
		switch {
		case d.Allowed && after.Remaining > max(0, all[i].before.Remaining-o.n):
			w.fail("half-consumed", o, "the group admits %d, limiter %d was not charged: before %+v, after %+v", o.n, i, all[i].before, after)
		case !d.Allowed && after.Remaining < all[i].before.Remaining:
			w.fail("half-consumed", o, "the group denies, limiter %d was charged: before %+v, after %+v", i, all[i].before, after)
		case !d.Allowed && after != all[i].before:
			w.fail("group is not peek", o, "the group denies, limiter %d: before %+v, after %+v", i, all[i].before, after)
		}
		w.judgePeek(o, after, n.oracle.free(o.at, o.key, all[i].limit))
	}
	retry := peek.RetryAfter
	if told {
		retry = d.RetryAfter
		if d.By != peek.By || !d.Allowed && d != peek {
			w.fail("group is not peek", o, "took %+v, Peek before %+v", d, peek)
		}
		w.judgeBy(o, d, all)
	}
	if !d.Allowed {
		w.last = last{true, w.behind, o, retry}
	}
	return d.Allowed
}

// callTogether asks the group. It returns false if all that is told is whether.
func (w *world) callTogether(o op) (d sketchlimit.Decision, told bool) {
	switch o.form {
	case formNow:
		return w.group.Take(name(o.key), o.n), true
	case formAllow:
		d.Allowed = w.group.Allow(name(o.key))
		return d, false
	}
	return w.group.Do(o.request()), true
}

// peekTogether tells what the group would answer.
func (w *world) peekTogether(o op) sketchlimit.Decision {
	r := o.request()
	r.Peek = true
	if o.n == 0 {
		r.N = -1
	}
	return w.group.Do(r)
}

// judgeTightest judges which limiter a group's decision is of.
func (w *world) judgeTightest(o op, d sketchlimit.Decision, all []asked) {
	if d.By < 0 || d.By >= len(all) {
		w.fail("group", o, "by %d of %d", d.By, len(all))
		return
	}
	was := all[d.By].before
	for i := range all {
		other := all[i].before
		if d.Allowed && other.Remaining < was.Remaining {
			w.fail("group", o, "limiter %d has less left: %+v, told %+v", i, other, d)
		}
		if !d.Allowed && !other.Allowed && other.RetryAfter > was.RetryAfter {
			w.fail("group", o, "limiter %d refuses for longer: %+v, told %+v", i, other, d)
		}
	}
}

// judgeBy judges a group's decision, which is that of its By-th limiter.
func (w *world) judgeBy(o op, d sketchlimit.Decision, all []asked) {
	w.judgeTightest(o, d, all)
	if d.By < 0 || d.By >= len(all) {
		return
	}
	by := d.By
	d.By = 0
	of := o
	of.node = by
	n, was := w.nodes[by], all[by]
	w.judgeDecision(of, n, d, n.oracle.free(o.at, o.key, was.limit), was.most, o.n >= 1 && int64(o.n) <= was.most)
	if d.Limit != int(was.limit) {
		w.fail("limit", of, "Decision.Limit %d, must be %d", d.Limit, was.limit)
	}
	w.compare(of, n, d, was.before)
}
