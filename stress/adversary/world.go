package main

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// world is limiters, what they were granted, and what was found wrong.
type world struct {
	setup
	make   maker
	nodes  []*node
	group  group
	last   last
	step   int
	mail   []message
	found  []violation
	silent bool // do not format findings
	behind bool // the request at hand comes with a time before the latest generation
	memory int  // of token buckets that grow, before the request at hand
}

// node is one limiter and its oracle.
type node struct {
	config  sketchlimit.Config
	limiter subject
	oracle  *oracle
	common  bool // it counts all requests together, as one key
	clock   atomic.Int64
	seen    int64 // latest time that the limiter has seen; before the first one math.MinInt64
	share   sharing
	given   map[parcel]*message // what has reached it of others
	saved   *snapshot
	tooLow  uint64 // requests below the lowest limit since the limiter was made
	burst   burst

	above    map[int]int64 // the most units that a key had above the limit
	allAbove int64         // their sum
}

type violation struct {
	rule string
	step int
	node int
	key  int
	text string
}

func newWorld(s setup, m maker) (*world, error) {
	w := &world{setup: s, make: m}
	for i := range s.configs {
		n := &node{config: s.configs[i], seen: math.MinInt64, given: map[parcel]*message{}, above: map[int]int64{}}
		n.clock.Store(s.start)
		n.config.Clock = func() time.Time { return at(n.clock.Load()) }
		if err := n.renew(m); err != nil {
			return nil, err
		}
		n.oracle = newOracle(n.config, s.limits)
		n.common = s.common != nil && s.common[i]
		w.nodes = append(w.nodes, n)
		if s.shared {
			var err error
			if n.share, err = m.share(n.limiter); err != nil {
				return nil, err
			}
			n.oracle.others = func(key int, generation int64) (sum int64) {
				for from := range w.nodes {
					if m := n.given[parcel{from, generation}]; m != nil {
						sum += m.units[key]
					}
				}
				return sum
			}
		}
	}
	return w, w.join()
}

func (n *node) renew(m maker) (err error) {
	if n.limiter != nil {
		n.limiter.Close()
	}
	n.limiter, err = m.limiter(n.config)
	return err
}

// join makes the group of the limiters that there are now.
func (w *world) join() (err error) {
	if !w.setup.group {
		return nil
	}
	subjects := make([]subject, len(w.nodes))
	for i, n := range w.nodes {
		subjects[i] = n.limiter
	}
	w.group, err = w.make.group(w.common, subjects...)
	return err
}

func (w *world) close() {
	for _, n := range w.nodes {
		n.limiter.Close()
	}
}

func (n *node) see(t int64) {
	n.oracle.see(t)
	n.seen = max(n.seen, t)
}

// fail notes what is wrong with an operation.
//
// What is told to a request whose time has been left behind is a rule of its own: it has
// causes of its own.
func (w *world) fail(rule string, o op, format string, args ...any) {
	if w.memory > 0 && !slices.Contains([]string{"over-admission", "remaining", "panic"}, rule) {
		time.Sleep(10 * time.Millisecond) // decisions may meet a larger table before MemoryBytes has it
		if w.bucketMemory() != w.memory {
			return // it has places for keys that the one before has told that there are none, and rounds times
		}
	}
	if w.behind && !slices.Contains([]string{"over-admission", "remaining", "panic", "alone"}, rule) {
		rule += ", behind"
	}
	v := violation{rule: rule, step: w.step, node: o.node, key: o.key}
	if !w.silent {
		v.text = fmt.Sprintf(format, args...)
	}
	w.found = append(w.found, v)
}

// bucketMemory returns the bytes of token buckets that grow.
func (w *world) bucketMemory() (bytes int) {
	for _, n := range w.nodes {
		if l, ok := n.limiter.(*sketchlimit.Limiter); ok && n.config.Algorithm == sketchlimit.TokenBucket && n.config.MaxMemoryBytes > 0 {
			bytes += l.MemoryBytes()
		}
	}
	return bytes
}

// run does an operation and judges it.
func (w *world) run(o op) {
	w.step++
	w.memory = w.bucketMemory()
	w.behind = false
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic", o, "%v\n%s", r, debug.Stack())
			w.last = last{}
		}
	}()
	defer w.judgeAudits(o)
	if o.do != honour {
		w.last = last{}
		w.do(o)
		return
	}
	before := w.last
	again, ok := before.again()
	if !ok {
		return
	}
	o, w.last = again, last{}
	allowed := w.request(o)
	if w.behind = before.behind; !allowed {
		w.fail("honoured", o, "denied at %d, RetryAfter after the denial at %d", o.at, before.op.at)
	}
}

// do does an operation that does not depend on the request before.
func (w *world) do(o op) {
	n := w.nodes[o.node]
	switch o.do {
	case take, together:
		w.request(o)
	case crowd:
		for i := range o.arg {
			c := o
			c.do, c.key, c.form, c.own = take, o.key+i, formAt, false
			w.takeLightly(c)
		}
	case peekNow:
		n.clock.Store(o.at)
		w.judgePeekNow(o)
	case tick:
		n.clock.Store(o.at)
	case stats:
		n.clock.Store(o.at)
		w.judgeStats(o)
	case save:
		w.save(o)
	case restore:
		w.restore(o)
	case post:
		w.post(o)
	case deliver:
		w.deliver(o)
	case weigh:
		if n.share != nil {
			n.clock.Store(o.at)
			n.see(o.at)
			n.share.Weigh()
		}
	}
}

// everybody stands for the empty key, which limiters use that count all requests
// together.
const everybody = 999

// at returns an operation as the i-th limiter sees it. One that counts all requests
// together holds against its own limit, but for requests with none.
func (w *world) at(o op, i int) op {
	if o.node = i; w.nodes[i].common {
		o.key, o.own = everybody, o.own && o.limit < 0
	}
	return o
}

// request takes and judges, at a limiter or the group.
func (w *world) request(o op) (allowed bool) {
	if o.do == together {
		return w.takeTogether(o)
	}
	return w.take(w.at(o, o.node))
}
