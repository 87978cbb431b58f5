package sharingtest

import (
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
)

const limit = 10_000

var start = time.Unix(1_700_000_000, 0).Truncate(time.Hour)

// node is a limiter that shares its limit. It exchanges when it is told to.
type node struct {
	*run
	limiter *sketchlimit.Limiter
	node    *sharing.Node
	faulty  *Faulty
}

// node returns a limiter of the log, with a clock that stands still.
func (r *run) node(log string) *node {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: time.Hour, Keys: 1000, Seed: 1,
		Clock: func() time.Time { return start.Add(time.Duration(r.clock.Load())) }})
	r.require(err == nil, "limiter: %v", err)
	share, err := l.Share()
	r.require(err == nil, "share: %v", err)
	faulty := &Faulty{Engine: r.open()}
	n, err := sharing.NewHub(faulty).Join(r.ctx, share, sharing.Config{Log: log, Interval: time.Hour, Timeout: r.Patience, Window: time.Hour,
		LogBytes: 4 << 10, Report: func(error) {}})
	r.require(err == nil, "join: %v", err)
	r.ends = append(r.ends, func() { n.Leave(); l.Close() })
	return &node{run: r, limiter: l, node: n, faulty: faulty}
}

// admit takes units of "k", and one of each of some other keys, so that records differ.
func (n *node) admit(units int) {
	for range units {
		n.require(n.limiter.Allow("k"), "a unit below the limit is denied")
	}
	for i := range 5 {
		n.limiter.Allow(fmt.Sprint("other", units, i))
	}
}

// used returns how many units of "k" the node knows of.
func (n *node) used() int { return limit - n.limiter.Peek("k").Remaining }

func (n *node) exchange() {
	err := n.node.Exchange(n.ctx)
	n.require(err == nil, "exchange: %v", err)
}

// all lets nodes exchange until each has told and read all, and compares what they know
// with what was admitted.
func (r *run) all(want int, nodes ...*node) {
	for range 2 {
		for _, n := range nodes {
			n.exchange()
		}
	}
	for i, n := range nodes {
		r.require(n.used() == want, "node %d knows of %d units, %d were admitted", i, n.used(), want)
	}
}

func (r *run) counts() {
	log := name()
	a, b := r.node(log), r.node(log)
	a.admit(30)
	b.admit(20)
	r.all(50, a, b)
	for i := range 20 {
		a.admit(1)
		b.admit(2)
		if i%3 == 0 {
			a.exchange()
		}
	}
	r.all(110, a, b)
	r.require(a.node.Stats().Lost+b.node.Stats().Lost == 0, "something was lost")
	r.require(a.node.Stats().Nodes == 2, "%d nodes, must be 2", a.node.Stats().Nodes)
	r.require(a.node.Close() == nil, "close fails")
	b.exchange()
	r.require(b.node.Stats().Nodes == 1, "%d nodes after one has ended, must be 1", b.node.Stats().Nodes)
}

// faults has two nodes of which one meets a fault in every other entry.
func (r *run) faults(f Fault) {
	log := name()
	a, b := r.node(log), r.node(log)
	want := 0
	for i := range 12 {
		a.faulty.Set(func(n int) Fault {
			if n == 0 || n%3 == i%3 {
				return f
			}
			return None
		})
		a.admit(3)
		b.admit(4)
		want += 7
		a.node.Exchange(r.ctx) // may fail
		a.faulty.Set(nil)
		if i%4 == 3 {
			a.exchange()
			b.exchange()
		}
	}
	r.all(want, a, b)
	r.all(want, a, b, r.node(log))
}

func (r *run) late() {
	log := name()
	a := r.node(log)
	a.admit(7)
	a.exchange()
	b := r.node(log)
	r.require(b.used() == 7, "a node that joins knows of %d units, 7 were admitted", b.used())
	b.admit(5)
	r.require(b.node.Close() == nil, "close fails")
	a.admit(1)
	a.exchange()
	c := r.node(log)
	r.require(c.used() == 13, "a node that joins knows of %d units, 13 were admitted", c.used())
	r.all(13, a, c)
}

func (r *run) generations() {
	log := name()
	a, b := r.node(log), r.node(log)
	a.admit(40)
	r.all(40, a, b)
	b.admit(60)
	r.clock.Store(int64(90 * time.Minute)) // before b has told
	b.admit(10)
	a.exchange()
	b.exchange()
	a.exchange()
	for i, n := range []*node{a, b, r.node(log)} { // 100 weigh half
		r.require(n.used() == 60, "node %d knows of %d units, must be 60", i, n.used())
	}
	r.clock.Store(int64(4 * time.Hour))
	r.all(0, a, b, r.node(log))
	a.admit(3)
	r.all(3, a, b)
}

// long has a window in which the log is cut many times.
func (r *run) long() {
	log := name()
	a, b, away := r.node(log), r.node(log), r.node(log)
	want := 0
	for i := range 60 {
		for j := range 40 { // other keys, which make records long
			a.limiter.Allow(fmt.Sprint("long", i, j))
		}
		a.admit(1)
		b.admit(2)
		want += 3
		a.exchange()
		b.exchange()
		if i == 30 {
			b.admit(5)
			r.require(b.node.Close() == nil, "close fails")
			b = r.node(log)
			want += 5
		}
	}
	size := 0
	for _, text := range r.texts(r.open(), sharing.Cursor{Log: log})[log] {
		size += len(text)
	}
	r.require(size < 20<<10, "the log has %d bytes, it is not cut", size)
	away.admit(4)
	// Of others a node knows cells, which a key shares: never less than they have
	// admitted.
	late := r.node(log)
	r.require(late.used() >= want, "a node that joins after the log was cut knows of %d units, %d were admitted", late.used(), want)
	for range 2 {
		for _, n := range []*node{away, a, b, late} {
			n.exchange()
		}
	}
	want += 4
	for i, n := range []*node{a, b, away, late, r.node(log)} {
		r.require(n.used() >= want && n.used() <= want+10, "node %d knows of %d units, %d were admitted", i, n.used(), want)
	}
}

func (r *run) afterWipe() {
	if r.Wipe == nil {
		return
	}
	log := name()
	a, b := r.node(log), r.node(log)
	for i := range 80 { // more than a node keeps
		a.admit(1)
		b.admit(2)
		if i%8 == 0 {
			a.exchange()
			b.exchange()
		}
		a.node.Exchange(r.ctx)
	}
	r.all(240, a, b)
	a.admit(2)
	b.admit(3)
	r.require(r.Wipe() == nil, "wipe fails")
	c := r.node(log) // which finds nothing
	r.all(245, a, b, c)
	r.require(r.Wipe() == nil, "wipe fails")
	a.exchange() // with nothing to tell
	b.exchange()
	r.all(245, r.node(log), a, b, c)
}
