package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sketchlimit/sketchlimit"
)

// generator draws the operations of an episode: spells of one manner of load after
// another.
type generator struct {
	r      *rand.Rand
	w      *world
	hot    int // a key that comes back
	keys   int // keys that are drawn from
	now    int64
	unseen int // keys from here on have not come

	left  int // operations of this spell
	who   int // which keys ask
	costs int
	pace  int
	odd   int // one in so many operations is none of a request
	n     int // the cost of a spell
	key   int // the next of a row of keys
	plot  []op
}

func newGenerator(r *rand.Rand, w *world) *generator {
	g := &generator{r: r, w: w, keys: 2 + r.IntN(200), now: w.start, unseen: 1000}
	if w.alone {
		g.keys = 1
	}
	g.hot = r.IntN(g.keys)
	g.begin()
	return g
}

// begin draws when the first request comes, which is where time begins: when the
// limiters are made, or years before or after. It plots what comes before that and must
// not begin time: looks at any time, and snapshots.
func (g *generator) begin() {
	r := g.r
	switch r.IntN(4) {
	case 0:
		g.now = later(g.now, -r.Int64N(1<<uint(30+r.IntN(29))))
	case 1:
		g.now = later(g.now, r.Int64N(1<<uint(30+r.IntN(29))))
	}
	if r.IntN(3) > 0 {
		return
	}
	for range 1 + r.IntN(6) {
		o := op{do: []verb{stats, peekNow, save, tick, restore}[r.IntN(5)], node: r.IntN(len(g.w.nodes)), key: r.IntN(g.keys)}
		o.at = later(g.w.start, r.Int64N(1<<uint(30+r.IntN(29)))*(1-2*r.Int64N(2)))
		g.plot = append(g.plot, o)
	}
}

func (g *generator) spell() {
	r := g.r
	g.left, g.who, g.costs, g.pace, g.odd = 1+r.IntN(120), r.IntN(5), r.IntN(5), r.IntN(7), 4+r.IntN(40)
	limit := g.w.configs[r.IntN(len(g.w.configs))].Limit
	g.n = 1 + r.IntN(1+limit/6)
	g.key = r.IntN(g.keys)
	if r.IntN(6) == 0 { // many light keys at one time, after which a heavy one may come back
		g.who, g.costs, g.pace, g.odd, g.left = 3, 3, 0, 1000, 40+r.IntN(100)
	}
	if r.IntN(2) == 0 {
		g.leap()
	}
}

// storm plots a load that begins in the midst of a generation: a key takes much, in the
// next generation many others take a little each, and in the one after that the key
// comes back and asks for nearly all.
func (g *generator) storm() {
	r := g.r
	i := r.IntN(len(g.w.nodes))
	n, limit := g.w.nodes[i], g.w.configs[i].Limit
	latest, _ := n.oracle.position(g.now)
	begins := latest * n.oracle.length
	if n.oracle.scale != nil || n.oracle.length > 1<<55 || begins > lastTime-10*n.oracle.length {
		return
	}
	ask := func(generation, key, units int, all bool) {
		o := op{node: i, key: key, n: max(1, units), form: formAt}
		o.at = begins + int64(generation)*n.oracle.length + r.Int64N(1+n.oracle.length/int64(1+r.IntN(4)))
		if o.do = take; all && g.w.setup.group {
			o.do, o.form, o.node = together, formDoAt, 0
		}
		g.plot = append(g.plot, o)
	}
	together := r.IntN(4) == 0
	much := 1 + r.IntN(limit)
	for range 1 + r.IntN(3) {
		ask(1, g.hot, 1+r.IntN(much), together)
	}
	little := 1 + r.IntN(1+limit/5)
	if p := g.w.configs[i].Plan; p != nil && p.PromoteAt > 1 && r.IntN(3) > 0 {
		little = max(1, min(little, p.PromoteAt-1)) // so that they are no heavy keys
	}
	for key := range 20 + r.IntN(100) {
		ask(2, 500+key, little, together)
	}
	least := limit
	for _, c := range g.w.configs {
		least = min(least, c.Limit)
	}
	if g.w.setup.group && r.IntN(2) == 0 {
		limit = least
	}
	for range 1 + r.IntN(3) {
		ask(3, g.hot, limit-r.IntN(1+limit/3), r.IntN(4) > 0)
	}
	slices.SortStableFunc(g.plot, func(a, b op) int { return cmp.Compare(a.at, b.at) })
	g.plot = append(g.plot, op{do: honour, node: i, key: g.hot})
}

// length returns the length of a generation of some limiter.
func (g *generator) length() int64 {
	n := g.w.nodes[g.r.IntN(len(g.w.nodes))]
	if n.oracle.scale != nil && g.r.IntN(4) > 0 {
		return n.oracle.window
	}
	return n.oracle.turn
}

// leap moves the time: to edges, over generations, far away, or back.
func (g *generator) leap() {
	r, length := g.r, g.length()
	begins := g.now - int64(modulo64(g.now, length))
	switch r.IntN(12) {
	case 0, 1, 9, 10, 11:
		g.now = later(begins, length*(1+r.Int64N(2)))
	case 2:
		g.now = later(begins, length-1)
	case 3, 4:
		g.now = later(g.now, length)
	case 5:
		g.now = later(g.now, r.Int64N(2*length))
	case 6:
		for range r.IntN(12) {
			g.now = later(g.now, length)
		}
	case 7:
		g.now = later(begins, r.Int64N(length))
	case 8:
		g.now = later(g.now, -1-r.Int64N(length/2)-r.Int64N(length))
	}
	if length < 1<<50 && r.IntN(200) == 0 {
		g.now = later(g.now, length*r.Int64N(1000))
	}
	if g.now > lastTime && r.IntN(4) > 0 { // it stands still at the end of time
		g.now = g.w.start
	}
}

// later returns a time some ns later, soon after the end of time at the most.
func later(t, ns int64) int64 {
	if t > lastTime-max(ns, 0) {
		return lastTime + max(ns, 0)%(1<<40)
	}
	return max(t+ns, -lastTime-1<<40)
}

func modulo64(a, m int64) int64 {
	if a %= m; a < 0 {
		a += m
	}
	return a
}

// next returns the next operation.
func (g *generator) next() op {
	r := g.r
	if len(g.plot) > 0 {
		o := g.plot[0]
		g.plot = g.plot[1:]
		if o.do == take || o.do == together {
			g.now = max(g.now, o.at)
		}
		return o
	}
	if g.left--; g.left < 0 {
		g.spell()
		if (r.IntN(8) == 0 || g.w.kind == "storm") && !g.w.alone {
			g.storm()
		}
	}
	if g.w.last.denied && r.IntN(6) == 0 {
		if retry := g.w.last.retry; retry != sketchlimit.Never && r.IntN(3) > 0 {
			g.now = max(g.now, g.w.last.op.at+int64(retry))
		}
		return op{do: honour, node: g.w.last.op.node, key: g.w.last.op.key, n: g.w.last.op.n}
	}
	o := op{node: r.IntN(len(g.w.nodes))}
	g.drip()
	o.at = g.now
	if r.IntN(10) == 0 { // late, or early
		o.at += r.Int64N(1+g.length()/2) - g.length()/4
	}
	o.key, o.n = g.drawKey(), g.drawCost(o.node)
	if r.IntN(g.odd) == 0 {
		return g.other(o)
	}
	o.do, o.form = take, form(r.IntN(int(forms)))
	if g.w.setup.group && r.IntN(3) > 0 {
		o.do, o.node = together, 0
		o.form = []form{formDoAt, formBytesAt, formAddrAt, formNow, formDo, formBytes, formAddr, formAllow}[r.IntN(8)]
	}
	if len(g.w.limits) > 0 && r.IntN(3) > 0 {
		o.own, o.limit = true, g.w.limits[r.IntN(len(g.w.limits))]
	}
	if r.IntN(60) == 0 { // one that means none, some that are too low, and a higher one
		c := g.w.configs[r.IntN(len(g.w.configs))]
		low := c.Limit
		if len(g.w.limits) > 0 {
			low = min(low, slices.Min(g.w.limits)) // between that and Limit an oracle knows those that were drawn
		}
		o.own, o.limit = true, []int{0, -1, math.MinInt32, r.IntN(low), c.Limit + 1 + r.IntN(c.Limit)}[r.IntN(5)]
	}
	if g.w.kind == "low" && r.IntN(3) == 0 {
		o.own, o.limit = true, g.w.drawLow(r)
	}
	return o
}

// drawLow returns a limit of a request's own below the lowest of some limiter, so that
// another one may accept it, and 0 or less if that is 1. Between lowest and whole
// limits an oracle knows those that were drawn.
func (w *world) drawLow(r *rand.Rand) int {
	low := math.MaxInt
	for _, c := range w.configs {
		low = min(low, cmp.Or(c.LowestLimit, c.Limit))
	}
	if low--; low > 0 && r.IntN(4) > 0 {
		return 1 + r.IntN(low)
	}
	return -1 - r.IntN(1<<20)
}

// drip moves the time between two operations.
func (g *generator) drip() {
	r := g.r
	g.now = later(g.now, 0)
	length := g.length()
	switch g.pace {
	case 0, 1:
	case 2:
		g.now += r.Int64N(2 + length/int64(g.w.configs[0].Limit))
	case 3:
		g.now += r.Int64N(2 + length/1000)
	case 4:
		g.now += r.Int64N(2 + length/20)
	case 5:
		if r.IntN(4) == 0 {
			g.now += r.Int64N(2 + length/2)
		}
	case 6:
		if r.IntN(10) == 0 {
			g.leap()
		}
	}
}

func (g *generator) drawKey() int {
	r := g.r
	if g.w.alone {
		return 0
	}
	switch g.who {
	case 0:
		return g.hot
	case 1:
		return r.IntN(min(5, g.keys))
	case 2:
		return r.IntN(g.keys)
	case 3:
		g.key = (g.key + 1) % g.keys
		return g.key
	}
	if r.IntN(2) == 0 {
		return g.hot
	}
	return r.IntN(g.keys)
}

func (g *generator) drawCost(i int) int {
	r, c := g.r, g.w.configs[i]
	most := c.Limit
	if c.Burst > 0 {
		most = c.Burst
	}
	if r.IntN(60) == 0 {
		return []int{0, -1, most + 1, math.MaxInt32, math.MinInt32}[r.IntN(5)]
	}
	switch g.costs {
	case 0:
		return 1
	case 1:
		return 1 + r.IntN(3)
	case 2:
		return 1 + r.IntN(1+most/7)
	case 3:
		return g.n
	}
	return 1 + r.IntN(most)
}

// aside returns a time that the clock may show for what must not bring it: that of the
// operation, or up to two generations before or after.
func (g *generator) aside(t int64) int64 {
	if g.r.IntN(2) == 0 {
		return t
	}
	length := 2 * min(g.length(), 1<<58)
	return later(t, g.r.Int64N(2*length)-length)
}

// other returns an operation that is none of a single request.
func (g *generator) other(o op) op {
	r := g.r
	o.arg = 0
	switch r.IntN(8) {
	case 0:
		o.do, o.at = peekNow, g.aside(o.at)
		return o
	case 1:
		o.do, o.at = stats, g.aside(o.at)
		return o
	case 2:
		o.do = tick
		return o
	}
	switch {
	case g.w.shared:
		switch o.arg = r.IntN(1 << 20); r.IntN(10) {
		case 0, 1, 2:
			o.do = post
		case 3:
			o.do = weigh
		default:
			o.do, o.n = deliver, r.IntN(2)
		}
	case strings.HasSuffix(g.w.kind, "grow") && r.IntN(3) > 0:
		o.do, o.arg, o.n = crowd, 100+r.IntN(1500), 1+r.IntN(2)
		if g.unseen+o.arg >= mostKeys {
			g.unseen = 1000
		}
		o.key = g.unseen
		g.unseen += o.arg
	case r.IntN(2) == 0 || g.w.nodes[o.node].saved == nil:
		o.do, o.at = save, g.aside(o.at)
		if r.IntN(200) == 0 {
			o.arg = 1
		}
	default:
		o.do = restore
		if r.IntN(4) > 0 && g.w.kind != "snapshot" {
			o.do = peekNow
		}
	}
	return o
}
