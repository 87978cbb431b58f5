package main

import (
	"sync"

	"github.com/sketchlimit/sketchlimit"
)

// threads plays an episode in rounds. In each, goroutines ask at one time, or at two in
// the same generation, and so it does not matter in which order they were admitted:
// there must be one in which the exact algorithm admits them all.
func (b *bench) threads(kind string, seed uint64) {
	r := newRand(seed)
	s := draw(r, kind)
	w, err := newWorld(s, b.make)
	if err != nil {
		b.report(kind, seed, violation{rule: "setup", text: err.Error()}, &s, nil)
		return
	}
	defer func() { w.close() }()
	g := newGenerator(r, w)
	g.keys = 1 + r.IntN(12)
	if kind == "threads-low" && r.IntN(2) == 0 {
		g.keys = 1
	}
	w.alone = g.keys == 1 && !w.anySpares()
	steps, reported := 0, map[string]bool{}
	for _, o := range g.plot {
		w.run(o)
	}
	for range 10 + r.IntN(30) {
		w.step++
		steps += b.round(g)
		for _, v := range w.found {
			if reported[v.rule] {
				b.count(kind, v.rule)
				continue
			}
			reported[v.rule] = true
			b.report(kind, seed, v, &s, nil)
		}
		w.found = w.found[:0]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tally[kind]
	t.episodes++
	t.steps += int64(steps)
	b.total += int64(steps)
}

// edge lets goroutines ask at both sides of an edge. A request of before may count
// after, so that all that is sure is what fits in the generations together. What they
// got is forgotten by leaping over all generations that are kept.
func (w *world) edge(b *bench, g *generator) {
	i := g.r.IntN(len(w.nodes))
	n := w.nodes[i]
	if w.setup.group || w.shared || n.config.Overload == sketchlimit.DenyProven || n.oracle.scale != nil || n.oracle.length > 1<<55 || g.now > lastTime-20*n.oracle.length {
		return
	}
	edge := (n.oracle.latest + 2) * n.oracle.length
	times := []int64{edge - 1, edge}
	n.clock.Store(edge - 1)
	var mu sync.Mutex
	var all []grant
	var wg sync.WaitGroup
	for range b.workers {
		r := newRand(g.r.Uint64())
		wg.Go(func() {
			for range 30 {
				got := w.askOne(r, g.keys, times, []int{0})
				mu.Lock()
				all = append(all, got)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	w.countTooLow(i, all)
	for key := range g.keys {
		var late, both int64
		for _, g := range all {
			if g.allowed && g.op.key == key {
				both += int64(g.op.n)
				if g.op.at == edge {
					late += int64(g.op.n)
				}
			}
		}
		limit := int64(n.config.Limit)
		o := op{node: i, key: key, at: edge}
		if late > limit {
			w.fail("over-admission", o, "%d units admitted in one generation", late)
		}
		if n.oracle.kept > 2 || n.oracle.kept == 2 {
			// At the first instant of a generation all that went before counts in full.
			if free := n.oracle.free(edge-1, key, limit); both > max(free, limit) {
				w.fail("over-admission", o, "%d units admitted around an edge, %d were free", both, free)
			}
		} else if both > limit+n.oracle.free(edge-1, key, limit) {
			w.fail("over-admission", o, "%d units admitted in two generations", both)
		}
	}
	g.now = edge + int64(n.oracle.kept+1)*n.oracle.length
	n.clock.Store(g.now)
	n.limiter.Take(name(0), 0)
	n.see(g.now)
}
