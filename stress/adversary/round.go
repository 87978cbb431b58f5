package main

import (
	"bytes"
	"maps"
	"math/rand/v2"
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

// round lets goroutines ask, and judges what they got.
func (b *bench) round(g *generator) (steps int) {
	r, w := g.r, g.w
	g.leap()
	times := drawTimes(g)
	before, given := w.begin(times[0], r.IntN(2) == 0)
	var c crew
	w.startAsking(&c, g, times, b.workers)
	saved := w.startSaving(&c, r)
	w.startDelivering(&c, r, times[0])
	c.Wait()
	for _, n := range w.nodes { // of which some may not have been asked
		n.limiter.Take(name(0), 0)
	}
	for _, p := range c.panics {
		w.fail("panic", op{}, "%v", p)
	}
	for i, n := range w.nodes {
		delivered := n.given
		n.given = given[i]
		w.replay(i, c.grants)
		n.given = delivered
	}
	if saved != nil {
		w.judgeSnapshot(saved.node, times[0], before[saved.node], &saved.Buffer)
	}
	w.judgeQuiet(g.keys, times, c.grants)
	if r.IntN(8) == 0 {
		w.edge(b, g)
	}
	for i, n := range w.nodes {
		w.judgeAudit(op{node: i, at: n.seen}, n.limiter.Stats().Audit)
	}
	return len(c.grants)
}

// crew is the goroutines of a round and what they came to.
type crew struct {
	sync.WaitGroup
	mu     sync.Mutex
	grants []grant
	panics []any
}

// start runs a goroutine, whose panic is kept.
func (c *crew) start(f func()) {
	c.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.panics = append(c.panics, p)
			}
		}()
		f()
	})
}

// drawTimes returns the time of a round, and now and then a second one in the same
// generation.
func drawTimes(g *generator) []int64 {
	if g.r.IntN(3) == 0 {
		if second := later(g.now, g.r.Int64N(1+g.length()/3)); g.w.together(g.now, second) {
			return []int64{g.now, second}
		}
	}
	return []int64{g.now}
}

// begin sets the clocks for a round. It returns what the oracles and the nodes know
// before it. The requests of the round bring the time, if atOnce, and otherwise one
// that comes before them.
func (w *world) begin(now int64, atOnce bool) (before []*oracle, given []map[parcel]*message) {
	for i, n := range w.nodes {
		n.clock.Store(now)
		n.see(now)
		if !atOnce {
			n.limiter.Take(name(0), 0)
		}
		before, given = append(before, n.oracle.clone()), append(given, maps.Clone(n.given))
		if n.share != nil {
			w.post(op{node: i, at: now})
		}
	}
	return before, given
}

// startAsking starts the goroutines that ask.
func (w *world) startAsking(c *crew, g *generator, times []int64, workers int) {
	each := 5 + g.r.IntN(60)
	limits := []int{0} // none of the request's own
	if len(times) == 1 {
		limits = append(limits, w.limits...)
	}
	for range workers {
		mine := newRand(g.r.Uint64())
		c.start(func() {
			got := make([]grant, 0, each)
			for range each {
				got = append(got, w.askOne(mine, g.keys, times, limits))
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.grants = append(c.grants, got...)
		})
	}
}

// saving is a snapshot that is written while goroutines ask.
type saving struct {
	bytes.Buffer
	node int
}

// startSaving starts a goroutine that writes a snapshot. It returns nil if none is
// drawn: a shared limit has none.
func (w *world) startSaving(c *crew, r *rand.Rand) *saving {
	s := &saving{node: r.IntN(len(w.nodes))}
	if w.shared || r.IntN(3) > 0 {
		return nil
	}
	c.start(func() { w.nodes[s.node].limiter.WriteTo(s) })
	return s
}

// startDelivering starts a goroutine that brings messages to nodes that share a limit.
func (w *world) startDelivering(c *crew, r *rand.Rand, now int64) {
	if !w.shared {
		return
	}
	carrier := newRand(r.Uint64())
	c.start(func() {
		for range 10 {
			w.deliver(op{node: carrier.IntN(len(w.nodes)), at: now, own: true, n: carrier.IntN(2), arg: carrier.IntN(1 << 20)})
		}
	})
}

// together reports whether two times are in the same generation of all limiters, and not
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
	if w.kind == "threads-low" && r.IntN(2) == 0 {
		o.own, o.limit = true, w.drawLow(r)
	}
	if w.setup.group && r.IntN(3) > 0 {
		got.together = true
		o.form = []form{formDoAt, formBytesAt, formAddrAt}[r.IntN(3)]
		d, _ := w.callTogether(o)
		got.op, got.allowed = o, d.Allowed
		return got
	}
	o = w.at(o, o.node)
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
