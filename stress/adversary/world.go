package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// setup says what an episode tries. With it and its operations an episode is played again
// to the bit, except for limiters that grow: these are replaced in the background.
type setup struct {
	kind    string
	configs []sketchlimit.Config // one a limiter; their Clock is the world's
	limits  []int                // of the requests' own
	group   bool                 // all limiters together
	shared  bool                 // all limiters share the limit
	alone   bool                 // one key: nothing collides, so answers are exact
	start   int64                // unix time, ns
}

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
}

// node is one limiter and its oracle.
type node struct {
	config  sketchlimit.Config
	limiter subject
	oracle  *oracle
	clock   atomic.Int64
	seen    int64 // latest time that the limiter has seen; before the first one math.MinInt64
	share   sharing
	given   map[parcel]*message // what has reached it of others
	saved   *snapshot
	burst   burst
}

// burst is what an exact bucket says of a key that is alone.
type burst struct {
	at    int64
	full  bool // the exact bucket was full when the first request of this instant came
	mixed bool // since it was full last it was restored, or limits of requests' own were charged: it may be rounded
}

type snapshot struct {
	bytes  []byte
	oracle *oracle
	seen   int64
}

// parcel tells what others' cells are of.
type parcel struct {
	from       int
	generation int64
}

// message is the cells of one limiter's generation, on their way to the others.
type message struct {
	parcel
	parts [][]uint64
	units map[int]int64 // by key
	sent  int           // step
}

// last is the request before, which an honoured one waits for.
type last struct {
	denied bool
	behind bool
	op     op
	retry  time.Duration
}

type violation struct {
	rule string
	step int
	node int
	key  int
	text string
}

// verb is what an operation does.
type verb uint8

const (
	take     verb = iota // in one of the forms
	honour               // the request before, denied, as soon as it was told to come again
	peekNow              // by the clock
	together             // a request of the group; form tells which
	tick                 // the node's clock is set
	stats
	save    // a snapshot is taken
	restore // and a new limiter made of it
	post    // own cells are sent
	deliver // cells reach a node
	weigh
	crowd // new keys, as many as limit says, with n units each
)

var verbs = [...]string{"take", "honour", "peek now", "together", "tick", "stats", "save", "restore", "post", "deliver", "weigh", "crowd"}

// form is how a request is asked. A form that does not name a method is Do with a key of that sort.
type form uint8

const (
	formAt form = iota // TakeAt
	formDoAt
	formBytesAt
	formAddrAt
	formReserveAt
	formNow // Take; from here on by the clock
	formDo
	formBytes
	formAddr
	formReserve
	formAllowN
	formAllow
	forms
)

var formNames = [forms]string{"At", "DoAt", "BytesAt", "AddrAt", "ReserveAt", "Now", "Do", "Bytes", "Addr", "Reserve", "AllowN", "Allow"}

// reserves tells whether the form is Reserve.
func (f form) reserves() bool { return f == formReserve || f == formReserveAt }

// op is one operation. What it does depends on nothing but the world.
type op struct {
	do    verb
	form  form
	node  int
	at    int64
	key   int
	n     int
	limit int  // the request's own, if own
	own   bool // the request has a limit of its own
	arg   int
}

func (o op) String() string {
	if o.do == honour {
		return "honour   waits as long as the request before was told, and asks again"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%-8s node %d at %d", verbs[o.do], o.node, o.at)
	switch o.do {
	case take, together:
		fmt.Fprintf(&s, " %s key %d n %d", formNames[o.form], o.key, o.n)
		if o.own {
			fmt.Fprintf(&s, " limit %d", o.limit)
		}
	case crowd:
		fmt.Fprintf(&s, " keys %d … %d n %d", o.key, o.key+o.arg-1, o.n)
	case peekNow:
		fmt.Fprintf(&s, " key %d", o.key)
	case deliver:
		fmt.Fprintf(&s, " %s message %d", [...]string{"SetOthers", "AddOthers"}[o.n], o.arg)
	}
	return s.String()
}

// addr returns a key as an address: even ones as IPv4, odd ones as IPv6.
func addr(key int) netip.Addr {
	if key%2 == 0 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(key))
		return netip.AddrFrom4(b)
	}
	b := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	binary.BigEndian.PutUint64(b[8:], uint64(key))
	return netip.AddrFrom16(b)
}

// name returns the bytes of a key, the same in all forms.
func name(key int) string {
	for key >= len(names) {
		names = append(names, string(addr(len(names)).AsSlice()))
	}
	return names[key]
}

// names are made before goroutines start.
var names []string

const mostKeys = 1 << 17

func init() { name(mostKeys - 1) }

func newWorld(s setup, m maker) (*world, error) {
	w := &world{setup: s, make: m}
	for i := range s.configs {
		n := &node{config: s.configs[i], seen: math.MinInt64, given: map[parcel]*message{}}
		n.clock.Store(s.start)
		n.config.Clock = func() time.Time { return at(n.clock.Load()) }
		if err := n.renew(m); err != nil {
			return nil, err
		}
		n.oracle = newOracle(n.config, s.limits)
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
	w.group, err = w.make.group(subjects...)
	return err
}

func (w *world) close() {
	for _, n := range w.nodes {
		n.limiter.Close()
	}
}

// fail notes what is wrong with an operation.
//
// What is told to a request whose time has been left behind is a rule of its own: it has
// causes of its own.
func (w *world) fail(rule string, o op, format string, args ...any) {
	if w.behind && !slices.Contains([]string{"over-admission", "remaining", "panic", "alone"}, rule) {
		rule += ", behind"
	}
	v := violation{rule: rule, step: w.step, node: o.node, key: o.key}
	if !w.silent {
		v.text = fmt.Sprintf(format, args...)
	}
	w.found = append(w.found, v)
}

// run does an operation and judges it.
func (w *world) run(o op) {
	w.step++
	w.behind = false
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic", o, "%v\n%s", r, debug.Stack())
			w.last = last{}
		}
	}()
	n := w.nodes[o.node]
	if o.do == honour {
		if !w.last.denied || w.last.retry == sketchlimit.Never || w.last.retry < 0 || ends(w.last.op.at, w.last.op.at+int64(w.last.retry)) {
			return
		}
		was := w.last.op
		o.do, o.form, o.node, o.key, o.n, o.limit, o.own = was.do, was.form, was.node, was.key, was.n, was.limit, was.own
		o.at = was.at + int64(w.last.retry)
		behind := w.last.behind
		w.last = last{}
		allowed := w.request(o)
		if w.behind = behind; !allowed {
			w.fail("honoured", o, "denied at %d, RetryAfter after the denial at %d", o.at, was.at)
		}
		return
	}
	w.last = last{}
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
		o.n = 1
		want := n.peek(o, o.at)
		for _, got := range []sketchlimit.Decision{n.limiter.Peek(name(o.key)), n.limiter.Do(sketchlimit.Request{Key: name(o.key), Peek: true})} {
			if got != want {
				w.fail("peek now", o, "by the clock %+v, at that time %+v", got, want)
			}
		}
	case tick:
		n.clock.Store(o.at)
	case stats:
		n.clock.Store(o.at)
		if s := n.limiter.Stats(); !(s.FalseDenialRate >= 0 && s.FalseDenialRate <= 1+1e-9) {
			w.fail("stats", o, "FalseDenialRate %v", s.FalseDenialRate)
		}
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

func (n *node) see(t int64) {
	n.oracle.see(t)
	n.seen = max(n.seen, t)
}

// request takes and judges, at a limiter or the group.
func (w *world) request(o op) (allowed bool) {
	if o.do == together {
		return w.takeTogether(o)
	}
	return w.take(o)
}

// answer is what a request was told.
type answer struct {
	sketchlimit.Decision
	told bool // all of the Decision, not only whether
	wait time.Duration
	err  error // of Reserve
}

// ask makes the clock show the time of an operation whose form reads it, and calls.
func (n *node) ask(o op) (a answer) {
	if o.form >= formNow {
		n.clock.Store(o.at)
	}
	return n.call(o)
}

// call calls the method that the form of a normal operation names.
func (n *node) call(o op) (a answer) {
	l, key := n.limiter, name(o.key)
	switch o.form {
	case formReserve, formReserveAt:
		a.wait, a.err = l.Reserve(o.request())
		a.Allowed = a.err == nil
	case formAllow:
		a.Allowed = l.Allow(key)
	case formAllowN:
		a.Allowed = l.AllowN(key, o.n)
	case formAt:
		a.Decision, a.told = l.TakeAt(at(o.at), key, o.n), true
	case formNow:
		a.Decision, a.told = l.Take(key, o.n), true
	default:
		a.Decision, a.told = l.Do(o.request()), true
	}
	return a
}

// request returns a normal operation as a Request. A cost of 1 is said in either way. A Request with two keys or
// three has the one that counts, and others that do not.
func (o op) request() sketchlimit.Request {
	r := sketchlimit.Request{Key: name(o.key), N: o.n}
	if o.own {
		r.Limit = o.limit
	}
	if o.form < formNow {
		r.Time = at(o.at)
	}
	if o.n == 1 && o.at%2 == 0 {
		r.N = 0
	}
	sort := o.form
	if sort.reserves() {
		sort = []form{formDo, formBytes, formAddr}[o.key%3]
	}
	switch sort {
	case formBytes, formBytesAt:
		r.Key, r.Bytes = "another", []byte(r.Key)
	case formAddr, formAddrAt:
		r.Key, r.Bytes, r.Addr = "another", []byte("a third"), addr(o.key)
	}
	return r
}

// peek tells what the operation would be told at a time. It names the key as the operation does, or as a string.
func (n *node) peek(o op, t int64) sketchlimit.Decision {
	r := o.request()
	if t%2 == 0 {
		r.Key, r.Bytes, r.Addr = name(o.key), nil, netip.Addr{}
	}
	r.Time, r.Peek = at(t), true
	if o.n == 0 { // which a Request cannot say, and which is told the same
		r.N = -1
	}
	return n.limiter.Do(r)
}

// normal makes an operation what its form can say.
func (o op) normal() op {
	switch {
	case o.form == formAllow:
		o.n, o.own = 1, false
	case o.form == formAllowN:
		o.own = false
	case o.own && o.form == formAt:
		o.form = formDoAt
	case o.own && o.form == formNow:
		o.form = formDo
	}
	if o.n == 0 && o.form != formAt && o.form != formNow && o.form != formAllowN {
		o.n = 1
	}
	return o
}

// lower returns the limit that an operation is held against: 0 if a limit of its own is below the lowest.
func (n *node) lower(o op) int64 {
	lowest := n.config.LowestLimit
	if lowest == 0 {
		lowest = n.config.Limit
	}
	switch {
	case !o.own || o.limit == 0:
		return int64(n.config.Limit)
	case o.limit < lowest:
		return 0
	}
	return int64(min(o.limit, n.config.Limit))
}

// take sends a request to one limiter and judges what it is told.
func (w *world) take(o op) bool {
	n := w.nodes[o.node]
	o = o.normal()
	if o.form.reserves() && n.config.Algorithm != sketchlimit.TokenBucket { // which brings no time either
		if a := n.call(o); a.wait != 0 || !errors.Is(a.err, errors.ErrUnsupported) {
			w.fail("reserve", o, "a window has reserved: wait %v, error %v", a.wait, a.err)
		}
		return false
	}
	limit := n.lower(o)
	most, free, want := n.oracle.most(limit), n.oracle.free(o.at, o.key, limit), int64(o.n)
	fullAt := n.fullAt(o.key)
	w.behind = n.oracle.passed(o.at)
	generation, elapsed := n.oracle.position(o.at)
	now := generation*n.oracle.length + elapsed // as it counts
	sure := n.oracle.scale != nil && n.oracle.sure(o.at, o.key)
	before := n.peek(o, o.at)
	w.judgePeek(o, before, free)
	var looked answer
	if o.form.reserves() {
		looked = n.lookReserve(o)
	}
	a := n.ask(o)
	n.see(o.at)
	if o.form.reserves() {
		switch {
		case a.err != nil && !errors.Is(a.err, sketchlimit.ErrQueueFull):
			w.fail("reserve", o, "error %v", a.err)
		case a != looked:
			w.fail("reserve", o, "wait %v, error %v; with Peek before %v, %v", a.wait, a.err, looked.wait, looked.err)
		case !a.Allowed && a.wait != 0:
			w.fail("reserve", o, "denied with a wait of %v", a.wait)
		case a.Allowed && a.wait < 0, a.Allowed && fullAt > now && o.at+int64(a.wait) < fullAt && !ends(o.at, fullAt):
			w.fail("reserve", o, "wait %v ends at %d, the bucket is full at %d", a.wait, o.at+int64(a.wait), fullAt)
		}
	}
	valid := want >= 1 && want <= most
	if a.Allowed && (!valid || want > free) {
		w.fail("over-admission", o, "admitted %d units, the exact algorithm has %d free; %+v", o.n, free, a.Decision)
	}
	if a.Allowed != before.Allowed {
		w.fail("take is not peek", o, "allowed is %v, Peek before %+v", a.Allowed, before)
	}
	w.judgeAlone(o, n, a, free, most, limit, fullAt, sure)
	if a.Allowed && want >= 1 {
		n.oracle.charge(o.at, o.key, want, limit)
		free -= want
	}
	if a.told {
		if a.Limit != int(limit) {
			w.fail("limit", o, "Decision.Limit %d, must be %d", a.Limit, limit)
		}
		w.judgeDecision(o, n, a.Decision, free, most, valid)
		w.compare(o, n, a.Decision, before)
	}
	if !a.Allowed {
		w.last = last{true, w.behind, o, before.RetryAfter}
		if a.told {
			w.last.retry = a.RetryAfter
		}
	}
	return a.Allowed
}

// lookReserve tells what a Reserve would return.
func (n *node) lookReserve(o op) (a answer) {
	if o.form == formReserve {
		n.clock.Store(o.at)
	}
	r := o.request()
	r.Peek = true
	a.wait, a.err = n.limiter.Reserve(r)
	a.Allowed = a.err == nil
	return a
}

// takeLightly is take for one of a crowd: held against the exact algorithm alone.
func (w *world) takeLightly(o op) {
	n := w.nodes[o.node]
	limit := n.lower(o)
	free := n.oracle.free(o.at, o.key, limit)
	a := n.ask(o)
	n.see(o.at)
	if a.Allowed && o.n >= 1 {
		if int64(o.n) > free {
			w.fail("over-admission", o, "admitted %d units, the exact algorithm has %d free; %+v", o.n, free, a.Decision)
		}
		n.oracle.charge(o.at, o.key, int64(o.n), limit)
		free -= int64(o.n)
	}
	if int64(a.Remaining) > max(0, free) {
		w.fail("remaining", o, "Remaining %d, the exact algorithm has %d: %+v", a.Remaining, free, a.Decision)
	}
}

func (n *node) fullAt(key int) int64 {
	if n.oracle.scale == nil {
		return math.MinInt64
	}
	return n.oracle.fullAt(key)
}

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

// save takes a snapshot.
func (w *world) save(o op) {
	n := w.nodes[o.node]
	n.clock.Store(o.at)
	var b bytes.Buffer
	written, err := n.limiter.WriteTo(&b)
	if err != nil || written != int64(b.Len()) {
		w.fail("snapshot", o, "WriteTo: %d of %d bytes, %v", written, b.Len(), err)
		return
	}
	n.saved = &snapshot{b.Bytes(), n.oracle.clone(), n.seen}
	if o.arg != 0 { // through a file, which takes longer
		path := filepath.Join(w.folder(o), "snapshot")
		if err := n.limiter.Save(path); err != nil {
			w.fail("snapshot", o, "Save: %v", err)
			return
		}
		if n.saved.bytes, err = os.ReadFile(path); err != nil {
			w.fail("snapshot", o, "Save: %v", err)
		}
		os.RemoveAll(filepath.Dir(path))
	}
}

func (w *world) folder(o op) string {
	path, err := os.MkdirTemp("", "adversary")
	if err != nil {
		w.fail("snapshot", o, "%v", err)
	}
	return path
}

// restore replaces a limiter by a new one made of its latest snapshot. What was admitted
// since is forgotten, by the exact algorithm as well.
func (w *world) restore(o op) {
	n := w.nodes[o.node]
	if n.saved == nil || n.share != nil {
		return
	}
	old, now := n.limiter, max(o.at, n.seen)
	fresh := slices.Equal(n.saved.bytes, w.bytes(old))
	n.clock.Store(now)
	limiter, err := w.make.limiter(n.config)
	if err != nil {
		w.fail("snapshot", o, "New: %v", err)
		return
	}
	if _, err := limiter.ReadFrom(bytes.NewReader(n.saved.bytes)); err != nil {
		limiter.Close()
		w.fail("snapshot", o, "ReadFrom: %v", err)
		return
	}
	if fresh && n.config.MaxMemoryBytes == 0 {
		for key := range 8 {
			one := op{node: o.node, key: key, n: 1}
			was := n.peek(one, now)
			is := limiter.Do(sketchlimit.Request{Key: name(key), Time: at(now), Peek: true})
			if is != was && (n.oracle.scale == nil || is.Remaining > was.Remaining || is.RetryAfter < was.RetryAfter) { // a bucket may be rounded
				w.fail("snapshot", one, "restored %+v, was %+v", is, was)
			}
		}
	}
	n.limiter, n.oracle, n.seen, n.burst.mixed = limiter, n.saved.oracle.clone(), n.saved.seen, true
	if n.seen != math.MinInt64 {
		// A snapshot has the times of what was counted. The latest that was seen may be later.
		limiter.TakeAt(at(n.seen), name(0), 0)
	}
	old.Close()
	if err := w.join(); err != nil {
		w.fail("group", o, "NewGroup: %v", err)
	}
}

func (w *world) bytes(l subject) []byte {
	var b bytes.Buffer
	l.WriteTo(&b)
	return b.Bytes()
}

// post sends a node's own cells of all generations that it keeps.
func (w *world) post(o op) {
	n := w.nodes[o.node]
	if n.share == nil {
		return
	}
	n.clock.Store(o.at)
	current, kept := n.share.Generations()
	n.see(o.at)
	for generation := current; generation > current-int64(kept); generation-- {
		m := message{parcel{o.node, generation}, nil, map[int]int64{}, w.step}
		for key := range n.oracle.keys {
			if c := n.oracle.own(key, generation); c > 0 {
				m.units[key] = c
			}
		}
		for part := range n.share.Parts() {
			words := make([]uint64, n.share.PartWords())
			if !n.share.Own(part, generation, words) {
				w.fail("share", o, "Own does not know generation %d of %d … %d", generation, current-int64(kept)+1, current)
				return
			}
			m.parts = append(m.parts, words)
		}
		w.mail = append(w.mail, m)
	}
	if most := 60; len(w.mail) > most {
		w.mail = slices.Delete(w.mail, 0, len(w.mail)-most)
	}
}

// deliver brings one of the messages to a node: late, again, or before older ones.
func (w *world) deliver(o op) {
	n := w.nodes[o.node]
	if n.share == nil || len(w.mail) == 0 {
		return
	}
	m := &w.mail[o.arg%len(w.mail)]
	if m.from == o.node {
		return
	}
	n.clock.Store(o.at)
	n.see(o.at)
	bits := n.share.CellBits()
	top := uint64(1)<<bits - 1
	has := n.given[m.parcel]
	if o.own && has != nil && has.sent > m.sent {
		return // it would take back what is known, in the midst of requests
	}
	if o.n == 0 { // all others' cells anew
		kept := true
		for part := range m.parts {
			sum := slices.Clone(m.parts[part])
			for from := range w.nodes {
				if other := n.given[parcel{from, m.generation}]; other != nil && from != m.from {
					sum = plus(sum, other.parts[part], bits)
				}
			}
			kept = n.share.SetOthers(part, m.generation, sum) && kept
		}
		if kept {
			n.given[m.parcel] = m.copy()
		}
		return
	}
	kept := true
	for part, words := range m.parts {
		var was []uint64
		if has != nil {
			was = has.parts[part]
		}
		counts := func(yield func(int, uint32) bool) {
			for i, word := range words {
				for lane := 0; lane < 64; lane += bits {
					c := word >> lane & top
					if was != nil {
						if b := was[i] >> lane & top; b >= c {
							continue
						} else {
							c -= b
						}
					}
					if c > 0 && !yield(i*(64/bits)+lane/bits, uint32(c)) {
						return
					}
				}
			}
		}
		kept = n.share.AddOthers(part, m.generation, counts) && kept
	}
	if !kept {
		return
	}
	// Cells have come to the greater of what they were and what they are now, and so
	// have the units.
	next := m.copy()
	if has != nil {
		next.sent = max(next.sent, has.sent)
		for part, words := range next.parts {
			for i := range words {
				words[i] = greater(words[i], has.parts[part][i], bits)
			}
		}
		for key, c := range has.units {
			next.units[key] = max(next.units[key], c)
		}
	}
	n.given[m.parcel] = next
}

func (m *message) copy() *message {
	c := &message{m.parcel, make([][]uint64, len(m.parts)), make(map[int]int64, len(m.units)), m.sent}
	for i := range m.parts {
		c.parts[i] = slices.Clone(m.parts[i])
	}
	for key, n := range m.units {
		c.units[key] = n
	}
	return c
}

// plus adds cells of so many bits, which stay at their largest value.
func plus(a, b []uint64, bits int) []uint64 {
	return cells(a, b, bits, func(x, y, top uint64) uint64 { return min(x+y, top) })
}

func greater(a, b uint64, bits int) uint64 {
	return cells([]uint64{a}, []uint64{b}, bits, func(x, y, _ uint64) uint64 { return max(x, y) })[0]
}

func cells(a, b []uint64, bits int, f func(x, y, top uint64) uint64) []uint64 {
	out, top := make([]uint64, len(a)), uint64(1)<<bits-1
	for i := range a {
		for lane := 0; lane < 64; lane += bits {
			out[i] |= f(a[i]>>lane&top, b[i]>>lane&top, top) << lane
		}
	}
	return out
}

// settle lets a limiter that grows do so, which it does in the background.
func settle() {
	for range 4 {
		runtime.Gosched()
	}
}
