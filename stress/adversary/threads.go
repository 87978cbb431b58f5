package main

import (
	"bytes"
	"cmp"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/sketchlimit/sketchlimit"
)

// grant is a request that was admitted, or denied, while others went on.
type grant struct {
	node     int // a limiter's number; all of them if together
	together bool
	op       op
	allowed  bool
}

// threads plays an episode in rounds. In each, goroutines ask at one time, or at two in the
// same generation, and so it does not matter in which order they were admitted: there
// must be one in which the exact algorithm admits them all.
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
	w.alone = g.keys == 1
	steps, told := 0, map[string]bool{}
	for _, o := range g.plot {
		w.run(o)
	}
	for range 10 + r.IntN(30) {
		w.step++
		steps += b.round(g)
		for _, v := range w.found {
			if told[v.rule] {
				b.count(kind, v.rule)
				continue
			}
			told[v.rule] = true
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

// round lets goroutines ask, and judges what they got.
func (b *bench) round(g *generator) (steps int) {
	r, w := g.r, g.w
	g.leap()
	times := []int64{g.now}
	if r.IntN(3) == 0 {
		if second := later(g.now, r.Int64N(1+g.length()/3)); w.together(g.now, second) {
			times = append(times, second)
		}
	}
	before := make([]*oracle, len(w.nodes))
	given := make([]map[parcel]*message, len(w.nodes))
	together := r.IntN(2) == 0 // bring all requests the time, or does one that comes before them?
	for i, n := range w.nodes {
		n.clock.Store(times[0])
		n.see(times[0])
		if !together {
			n.limiter.Take(name(0), 0)
		}
		before[i], given[i] = n.oracle.clone(), maps.Clone(n.given)
		if n.share != nil {
			w.post(op{node: i, at: times[0]})
		}
	}
	each := 5 + r.IntN(60)
	limits := append([]int{0}, w.limits...) // 0: none of the request's own
	if len(times) > 1 {
		limits = limits[:1]
	}
	var mu sync.Mutex
	var all []grant
	var wg sync.WaitGroup
	panics := make(chan any, b.workers+1)
	spawn := func(f func()) {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panics <- p
				}
			}()
			f()
		})
	}
	for range b.workers {
		mine := newRand(r.Uint64())
		spawn(func() {
			got := make([]grant, 0, each)
			for range each {
				got = append(got, w.askOne(mine, g.keys, times, limits))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, got...)
		})
	}
	var snapshot bytes.Buffer
	saved := r.IntN(len(w.nodes))
	write := !w.shared && r.IntN(3) == 0
	if write {
		spawn(func() { w.nodes[saved].limiter.WriteTo(&snapshot) })
	}
	if w.shared {
		carrier := newRand(r.Uint64())
		spawn(func() {
			for range 10 {
				w.deliver(op{node: carrier.IntN(len(w.nodes)), at: times[0], own: true, n: carrier.IntN(2), arg: carrier.IntN(1 << 20)})
			}
		})
	}
	wg.Wait()
	for _, n := range w.nodes { // of which some may not have been asked
		n.limiter.Take(name(0), 0)
	}
	for len(panics) > 0 {
		w.fail("panic", op{}, "%v", <-panics)
	}
	for i, n := range w.nodes {
		delivered := n.given
		n.given = given[i]
		w.replay(i, all)
		n.given = delivered
	}
	if write {
		w.judgeSnapshot(saved, times[0], before[saved], &snapshot)
	}
	w.judgeQuiet(g.keys, times, all)
	if r.IntN(8) == 0 {
		w.edge(b, g)
	}
	return len(all)
}

// together tells whether two times are in the same generation of all limiters, and not
// before their latest one.
func (w *world) together(a, b int64) bool {
	for _, n := range w.nodes {
		p, _ := n.oracle.position(a)
		q, _ := n.oracle.position(b)
		if p != q && n.oracle.scale == nil || n.oracle.passed(a) || n.oracle.passed(b) {
			return false
		}
	}
	return true
}

// askOne sends one request of a goroutine's.
func (w *world) askOne(r *rand.Rand, keys int, times []int64, limits []int) (got grant) {
	got.node = r.IntN(len(w.nodes))
	n := w.nodes[got.node]
	o := op{node: got.node, key: r.IntN(keys), n: 1 + r.IntN(3), at: times[r.IntN(len(times))]}
	switch r.IntN(8) {
	case 0:
		o.n = 1 + r.IntN(n.config.Limit)
	case 1, 2, 3, 4:
		o.n = 1
	}
	switch r.IntN(40) {
	case 0:
		n.peek(o, o.at)
		if w.setup.group {
			w.peekTogether(o)
		}
	case 1:
		if r.IntN(20) == 0 {
			n.limiter.Stats()
		}
	}
	if limit := limits[r.IntN(len(limits))]; limit > 0 {
		o.own, o.limit = true, limit
	}
	if w.setup.group && r.IntN(3) > 0 {
		got.together = true
		o.form = []form{formDoAt, formBytesAt, formAddrAt}[r.IntN(3)]
		d, _ := w.callTogether(o)
		got.op, got.allowed = o, d.Allowed
		return got
	}
	o.form = []form{formAt, formDoAt, formBytesAt, formAddrAt, formReserveAt}[r.IntN(5)]
	if o.at == times[0] && r.IntN(2) == 0 { // which the clock shows
		o.form = formNow + form(r.IntN(int(forms-formNow)))
	}
	if o.form.reserves() && n.config.Algorithm != sketchlimit.TokenBucket {
		o.form = formAt
	}
	o = o.normal()
	got.op, got.allowed = o, n.call(o).Allowed
	return got
}

// replay holds what one limiter has admitted against its oracle, in the order in which that
// admits most: low limits first, and early times first.
func (w *world) replay(i int, all []grant) {
	n := w.nodes[i]
	o := n.oracle
	var mine []op
	for _, g := range all {
		if g.allowed && (g.together || g.node == i) {
			g.op.node = i
			mine = append(mine, g.op)
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
		if free := o.free(p.at, p.key, limit); int64(p.n) > free {
			w.fail("over-admission", p, "%d units admitted by goroutines at once; the exact algorithm has %d left for the last %d", units[p.key], free, p.n)
		}
		o.charge(p.at, p.key, int64(p.n), limit)
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
		if d, free := l.Do(sketchlimit.Request{Key: name(key), Time: at(t), Peek: true}), before.free(t, key, int64(n.config.Limit)); int64(d.Remaining) > max(0, free) {
			w.fail("snapshot", op{node: i, key: key}, "units from before the snapshot are missing: %+v, the exact algorithm has %d", d, free)
		}
	}
}

// judgeQuiet looks at the limiters when all is quiet: Remaining is not above exact, and
// where nothing collides it is exact, so that a request which was refused by one of a group
// has left no trace.
func (w *world) judgeQuiet(keys int, times []int64, all []grant) {
	now := slices.Max(times)
	for i, n := range w.nodes {
		for key := range keys {
			o := op{node: i, key: key, at: now, n: 1}
			d := n.peek(o, now)
			free := max(0, n.oracle.free(now, key, int64(n.config.Limit)))
			if int64(d.Remaining) > free {
				w.fail("remaining", o, "after a round %+v, the exact algorithm has %d", d, free)
			}
			if w.alone && n.oracle.scale == nil && n.share == nil && int64(d.Remaining) != free {
				w.fail("alone", o, "after a round %+v, the exact algorithm has %d and nothing collides", d, free)
			}
		}
		if !w.alone || n.oracle.scale != nil || n.share != nil {
			continue
		}
		for _, g := range all {
			// Units only became fewer, so that what is free now was free for it.
			if !g.allowed && !g.together && g.node == i && g.op.at == now && n.oracle.free(now, g.op.key, n.lower(g.op)) >= int64(g.op.n) {
				w.fail("alone", g.op, "was denied, and is free still")
			}
		}
	}
}

// edge lets goroutines ask at both sides of an edge. A request of before may count
// after, so that all that is sure is what fits in the generations together. What they
// got is forgotten by leaping over all generations that are kept.
func (w *world) edge(b *bench, g *generator) {
	i := g.r.IntN(len(w.nodes))
	n := w.nodes[i]
	if w.setup.group || w.shared || n.oracle.scale != nil || n.oracle.length > 1<<55 || g.now > lastTime-20*n.oracle.length {
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

// compareProducts compares a × b with c × d.
func compareProducts(a, b, c, d int64) int {
	return product(a, big.NewInt(b)).Cmp(product(c, big.NewInt(d)))
}
