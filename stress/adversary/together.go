package main

import (
	"slices"

	"github.com/sketchlimit/sketchlimit"
)

// asked is what is known of a limiter of a group just before the group is asked.
type asked struct {
	quota
	before sketchlimit.Decision
	whole  sketchlimit.Decision // of the request without a limit of its own
}

// takeTogether sends a request to the group and judges what it and its limiters are told.
func (w *world) takeTogether(o op) bool {
	o = o.normal()
	all, want := w.askEach(o)
	peek := w.peekTogether(o)
	w.judgeTightest(o, peek, all)
	if was := peek; was.By >= 0 && was.By < len(all) {
		if was.By = 0; was != all[peek.By].before {
			w.fail("group", o, "Peek %+v, limiter %d: %+v", peek, peek.By, all[peek.By].before)
		}
	}
	d, whole := w.callTogether(o)
	for i, n := range w.nodes {
		n.came(o, all[i].quota)
	}
	spares := w.anySpares()
	if d.Allowed != want && !(d.Allowed && spares) {
		w.fail("group is not peek", o, "allowed %v, Peeks before say %v", d.Allowed, want)
	}
	for i := range w.nodes {
		w.judgeMember(o, i, d.Allowed, all[i])
	}
	retry := peek.RetryAfter
	if whole {
		retry = d.RetryAfter
		shared := slices.ContainsFunc(w.nodes, func(n *node) bool { return n.share != nil })
		bound := shared && d.Allowed && d.Remaining <= peek.Remaining-o.n // admitting, one that shares its limit may tell less
		if (d.By != peek.By && !bound || !d.Allowed && d != peek) && !spares {
			w.fail("group is not peek", o, "took %+v, Peek before %+v", d, peek)
		}
		if !spares && !bound {
			w.judgeTightest(o, d, all)
		}
		w.judgeBy(o, d, all)
	}
	if !d.Allowed && !spares {
		w.last = last{true, w.behind, o, retry}
	}
	return d.Allowed
}

// askEach peeks at each limiter of the group, sets its clock if the request reads it,
// and reports whether all of them admit.
func (w *world) askEach(o op) (all []asked, admit bool) {
	all, admit = make([]asked, len(w.nodes)), true
	for i, n := range w.nodes {
		w.behind = w.behind || n.oracle.passed(o.at)
		of := w.at(o, i)
		all[i] = asked{n.quota(of), n.peek(of, o.at), n.whole(of)}
		w.judgePeek(op{node: i, key: of.key, n: o.n}, all[i].before, all[i].free)
		admit = admit && all[i].before.Allowed
		if o.form >= formNow {
			n.clock.Store(o.at)
		}
	}
	return all, admit
}

// judgeMember charges the oracle of a group's i-th limiter if the group has admitted,
// and judges whether the limiter was charged then and only then.
func (w *world) judgeMember(o op, i int, allowed bool, was asked) {
	n := w.nodes[i]
	o = w.at(o, i)
	was.free = n.free(o.at, o.key, was.limit)
	if allowed {
		if o.n < 1 || int64(o.n) > was.free {
			w.fail("over-admission", o, "limiter %d admits %d units, the exact algorithm has %d", i, o.n, was.free)
		}
		if o.n >= 1 {
			w.charge(o, was.limit)
		}
	}
	after := n.peek(o, o.at)
	switch {
	case allowed && after.Remaining > max(0, was.before.Remaining-o.n) && n.config.Overload == sketchlimit.Deny:
		w.fail("half-consumed", o, "the group admits %d, limiter %d was not charged: before %+v, after %+v", o.n, i, was.before, after)
	case !allowed && (after.Remaining < was.before.Remaining || n.whole(o).Remaining < was.whole.Remaining):
		w.fail("half-consumed", o, "the group denies, limiter %d was charged: before %+v, after %+v", i, was.before, after)
	case !allowed && after != was.before && n.config.Overload == sketchlimit.Deny:
		w.fail("group is not peek", o, "the group denies, limiter %d: before %+v, after %+v", i, was.before, after)
	}
	w.judgePeek(o, after, n.free(o.at, o.key, was.limit))
}

// whole peeks at what the request would be told without a limit of its own.
func (n *node) whole(o op) sketchlimit.Decision {
	o.own = false
	return n.peek(o, o.at)
}

// callTogether asks the group. It returns false if all that is told is whether.
func (w *world) callTogether(o op) (d sketchlimit.Decision, whole bool) {
	switch o.form {
	case formNow:
		return w.group.Take(name(o.key), o.n), true
	case formAllow:
		d.Allowed = w.group.Allow(name(o.key))
		return d, false
	}
	return w.group.Do(o.request()), true
}

// peekTogether returns what the group would answer.
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
	if d.By < 0 || d.By >= len(all) {
		w.fail("group", o, "by %d of %d", d.By, len(all))
		return
	}
	by := d.By
	d.By = 0
	of := w.at(o, by)
	n, q := w.nodes[by], all[by].quota
	q.free = n.free(o.at, of.key, q.limit) // after the request
	w.judgeDecision(of, d, q)
	if d.Limit != int(q.limit) {
		w.fail("limit", of, "Decision.Limit %d, must be %d", d.Limit, q.limit)
	}
	w.compare(of, n, d, all[by].before)
}
