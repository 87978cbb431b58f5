package main

import (
	"bytes"
	"cmp"
	"math/big"
	"slices"

	"github.com/sketchlimit/sketchlimit"
)

// replay holds what one limiter has admitted against its oracle, in the order in which
// that admits most: low limits first, and early times first.
func (w *world) replay(i int, all []grant) {
	n := w.nodes[i]
	o := n.oracle
	var mine []op
	for _, g := range all {
		if g.allowed && (g.together || g.node == i) {
			mine = append(mine, w.at(g.op, i))
		}
	}
	slices.SortStableFunc(mine, func(a, b op) int {
		// most / limit is the time that a full bucket holds, and 1 for windows.
		la, lb := n.lower(a), n.lower(b)
		if o.scale != nil {
			if c := compareProducts(o.most(la), lb, o.most(lb), la); c != 0 {
				return c
			}
		} else if c := cmp.Compare(la, lb); c != 0 {
			return c
		}
		return cmp.Compare(a.at, b.at)
	})
	if o.scale != nil {
		for _, g := range all { // of a bucket the earlier time may count as the later one
			n.see(g.op.at)
		}
	}
	units := map[int]int64{}
	for _, p := range mine {
		units[p.key] += int64(p.n)
		limit := n.lower(p)
		if free := o.free(p.at, p.key, limit); int64(p.n) > free && !n.spares(p.at) {
			w.fail("over-admission", p, "%d units admitted by goroutines at once; the exact algorithm has %d left for the last %d", units[p.key], free, p.n)
		}
		w.charge(p, limit)
		n.seen = max(n.seen, p.at)
	}
	for _, g := range all {
		n.see(g.op.at)
	}
}

// judgeSnapshot holds a snapshot that was begun before a round's requests against what
// was admitted before that.
func (w *world) judgeSnapshot(i int, now int64, before *oracle, b *bytes.Buffer) {
	n := w.nodes[i]
	n.clock.Store(max(now, n.seen))
	l, err := w.make.limiter(n.config)
	if err != nil {
		w.fail("snapshot", op{node: i}, "New: %v", err)
		return
	}
	defer l.Close()
	if _, err := l.ReadFrom(b); err != nil {
		w.fail("snapshot", op{node: i}, "ReadFrom: %v", err)
		return
	}
	t := max(now, n.seen)
	before.see(t)
	for key := range before.keys {
		d, free := l.Do(sketchlimit.Request{Key: name(key), Time: at(t), Peek: true}), before.free(t, key, int64(n.config.Limit))
		if int64(d.Remaining) > max(0, free) && !n.spares(t) && !n.wouldSpare(l.Stats(), t) {
			w.fail("snapshot", op{node: i, key: key}, "units from before the snapshot are missing: %+v, the exact algorithm has %d", d, free)
		}
	}
}

// judgeQuiet looks at the limiters when all is quiet: Remaining is not above exact, and
// where nothing collides it is exact, so that a request which was refused by one of a
// group has left no trace.
func (w *world) judgeQuiet(keys int, times []int64, all []grant) {
	now := slices.Max(times)
	for i, n := range w.nodes {
		for key := range keys {
			o := w.at(op{key: key, at: now, n: 1}, i)
			key = o.key
			d := n.peek(o, now)
			free := max(0, n.free(now, key, int64(n.config.Limit)))
			if int64(d.Remaining) > free && !n.wouldSpare(n.limiter.Stats(), now) {
				w.fail("remaining", o, "after a round %+v, the exact algorithm has %d", d, free)
			}
			if (w.alone || n.common) && n.oracle.scale == nil && n.share == nil && int64(d.Remaining) != free {
				w.fail("alone", o, "after a round %+v, the exact algorithm has %d and nothing collides", d, free)
			}
		}
		w.judgeTooLow(i, all)
		if !w.alone && !n.common || n.oracle.scale != nil || n.share != nil {
			continue
		}
		for _, g := range all {
			// At one time free units only become fewer, so units that are free now were
			// free when the request was denied.
			if !g.allowed && !g.together && g.node == i && g.op.at == now && n.oracle.free(now, w.at(g.op, i).key, n.lower(w.at(g.op, i))) >= int64(g.op.n) {
				w.fail("alone", g.op, "was denied, and is free still")
			}
		}
	}
}

// judgeTooLow judges that requests with limits below the lowest were counted, each of
// them once. That they were not charged is for judgeQuiet to find.
func (w *world) judgeTooLow(i int, all []grant) {
	w.countTooLow(i, all)
	n := w.nodes[i]
	if tooLow := n.limiter.Stats().TooLow; tooLow != n.tooLow {
		w.fail("too low", op{node: i}, "TooLow %d; %d requests were below the lowest limit", tooLow, n.tooLow)
	}
}

func (w *world) countTooLow(i int, all []grant) {
	n := w.nodes[i]
	for _, g := range all {
		o := w.at(g.op, i)
		if !g.together && g.node != i || n.lower(o) > 0 {
			continue
		}
		if o.limit > 0 {
			n.tooLow++
		}
		if g.allowed {
			w.fail("too low", o, "admitted with a limit below the lowest")
		}
	}
}

// compareProducts compares a × b with c × d.
func compareProducts(a, b, c, d int64) int {
	return product(a, big.NewInt(b)).Cmp(product(c, big.NewInt(d)))
}
