package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

// arrival is when the requests of a window come, each key's at once if they come in
// bursts.
type arrival struct {
	from, to float64 // the part of the window in which they come
	bursts   bool
}

// assumption is what tune is told of time, and the arrivals that it is held against.
type assumption struct {
	name         string
	even, steady bool
	arrivals     []arrival
}

var (
	evenly  = []arrival{{0, 1, false}}
	inBurst = []arrival{{0, 1, true}, {0, 0.1, true}, {0.9, 1, true}}
	// Of bursts the ratios are those of bursts at any time of a window, in its first
	// tenth, and in its last.
	assumptions = []assumption{
		{"even, steady", true, true, evenly},
		{"even, changing", true, false, evenly},
		{"bursts, steady", false, true, inBurst},
		{"bursts, changing", false, false, inBurst},
	}
)

var algorithms = []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket}

var trafficsMeasured = []load{
	uniform,
	{"Zipf 0.8", tune.Traffic{Exponent: 0.8}},
	{"Zipf 1.1", tune.Traffic{Exponent: 1.1}},
	abusers,
}

// arrivals compares rates that are predicted with those of traffic that differs in time
// alone.
func (b *bench) arrivals() {
	head := []string{"traffic", "limit", "algorithm", ""}
	for _, a := range assumptions {
		head = append(head, a.name)
	}
	b.head(head...)
	for _, limit := range []int{5, 20, 100, 1000} {
		for _, algorithm := range algorithms {
			for _, l := range trafficsMeasured {
				g := tune.Goal{Limit: limit, Algorithm: algorithm, FalseDenialRate: target, LostShare: lostOfTarget * target}
				if b.wants(&l, g) {
					b.arrivalsAt(&l, g)
				}
			}
		}
	}
}

// wants reports whether the flags ask for a row.
func (b *bench) wants(l *load, g tune.Goal) bool {
	return (b.limit == 0 || b.limit == g.Limit) && strings.HasPrefix(l.name, b.load) &&
		strings.HasPrefix(g.Algorithm.String(), b.algorithm)
}

// arrivalsAt sends one load in all ways, to plans that just reach the goal for it.
func (b *bench) arrivalsAt(l *load, g tune.Goal) {
	denied := []string{l.name, strconv.Itoa(g.Limit), g.Algorithm.String(), "false denials"}
	lost := []string{"", "", "", "lost"}
	for _, a := range assumptions {
		l := *l
		l.traffic.Even, l.traffic.Steady = a.even, a.steady
		keys := l.most(b.keys, g.Limit)
		plan, _ := planned(l.at(keys, g.Limit), g)
		t := l.edge(keys, g, plan)
		e := must(tune.PredictAt(t, g, plan, 1))
		one, other := fmt.Sprintf("%.1e:", e.FalseDenialRate), fmt.Sprintf("%.1e:", e.LostShare)
		for _, c := range a.arrivals {
			r := newTimed(t, g, plan, c, 1).run()
			one += fmt.Sprintf(" %.2g", float64(r.denied)/float64(r.innocent)/e.FalseDenialRate)
			other += fmt.Sprintf(" %.2g", float64(r.units-r.admitted)/float64(r.units)/e.LostShare)
		}
		denied, lost = append(denied, one), append(lost, other)
	}
	b.row(denied...)
	b.row(lost...)
}

// costs shows what each assumption about time costs in memory.
func (b *bench) costs() {
	head := []string{"KiB", "limit", "algorithm"}
	for _, a := range assumptions {
		head = append(head, a.name)
	}
	b.head(head...)
	for _, algorithm := range algorithms {
		for _, limit := range []int{5, 20, 100, 1000} {
			if algorithm != sketchlimit.SlidingWindow && limit != 100 {
				continue
			}
			for _, l := range trafficsMeasured {
				row := []string{l.name, strconv.Itoa(limit), algorithm.String()}
				for _, a := range assumptions {
					l.traffic.Even, l.traffic.Steady = a.even, a.steady
					_, f := planned(l.at(b.keys, limit), tune.Goal{Limit: limit, Algorithm: algorithm, FalseDenialRate: 1e-5})
					row = append(row, strconv.Itoa(f.MemoryBytes>>10))
				}
				b.row(row...)
			}
		}
	}
}

// edge returns the load at as many keys as the plan is predicted to bear within its
// goal, to 5 %.
func (l *load) edge(keys float64, g tune.Goal, p sketchlimit.Plan) tune.Traffic {
	reached := func(times float64) bool {
		e := must(tune.PredictAt(l.at(keys, g.Limit), g, p, times))
		return e.FalseDenialRate <= g.FalseDenialRate && e.LostShare <= g.LostShare
	}
	lo, hi := 1.0, 2.0
	for reached(hi) && hi < 32 {
		lo, hi = hi, 2*hi
	}
	for hi/lo > 1.05 {
		if mid := math.Sqrt(lo * hi); reached(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return l.at(lo*keys, g.Limit)
}

// timed is a limiter and the exact algorithm beside it, under traffic that comes in its
// own time.
type timed struct {
	measured
	arrival
	traffic       tune.Traffic
	goal          tune.Goal
	limiter       *sketchlimit.Limiter
	seed          uint64
	random        *rand.Rand
	now           time.Time
	light         int // keys that are no abusers
	window        int
	used          []usage // by the exact algorithm alone
	order         []int32 // keys, in the order of their bursts
	sent          []int32
	falselyDenied []bool // in this window
	keys          int    // that were wronged in a window, all windows together
	enough        int    // of them
	most          int    // windows that are counted
}

// usage is what the exact algorithm has admitted of a key.
type usage struct {
	counts
	full int64 // when a bucket is full again, ns
}

func newTimed(t tune.Traffic, g tune.Goal, p sketchlimit.Plan, a arrival, seed uint64) *timed {
	r := &timed{arrival: a, traffic: t, goal: g, random: rand.New(rand.NewPCG(seed, 3)), seed: seed,
		enough: enough, most: timedWindows, now: time.Unix(0, 0),
		light: t.Keys - int(math.Round(t.Abusers*float64(t.Keys))),
		used:  make([]usage, t.Keys), sent: make([]int32, t.Keys),
		falselyDenied: make([]bool, t.Keys)}
	for i := range t.Keys {
		r.order = append(r.order, int32(i))
	}
	r.limiter = must(sketchlimit.New(sketchlimit.Config{Limit: g.Limit, Window: window, Algorithm: g.Algorithm,
		Plan: &p, Seed: seed,
		Clock: func() time.Time { return r.now }}))
	return r
}

const (
	settled      = 2  // windows that are not counted
	timedWindows = 30 // and most that are
)

func (r *timed) run() measured {
	defer r.limiter.Close()
	for r.window = 0; r.window < settled+r.most && r.keys < r.enough; r.window++ {
		r.sendWindow()
		for i := range r.used {
			r.used[i].counts = counts{0, r.used[i].current}
		}
		clear(r.falselyDenied)
	}
	return r.measured
}

// sendWindow sends one window of requests.
func (r *timed) sendWindow() {
	w := must(accuracyWindow(r.traffic, r.goal.Limit, int(r.seed)<<10+r.window))
	requests, n := w.Len(), 0
	send := func(key int) {
		moment := r.from + (r.to-r.from)*float64(n)/float64(requests)
		r.send(key, time.Duration(moment*float64(window)))
		n++
	}
	for q := range w.Requests() {
		key := r.key(q.Key)
		if !r.bursts {
			send(key)
			continue
		}
		r.sent[key]++
	}
	if !r.bursts {
		return
	}
	r.random.Shuffle(len(r.order), func(i, j int) { r.order[i], r.order[j] = r.order[j], r.order[i] })
	for _, key := range r.order {
		for ; r.sent[key] > 0; r.sent[key]-- {
			send(int(key))
		}
	}
}

// key returns the number of a key, by its name, a letter and a number: another one in
// every window if heavy keys change.
func (r *timed) key(name string) int {
	i := int(must(strconv.ParseUint(name[1:], 16, 32)))
	if name[0] == 'a' {
		i += r.light
	}
	if !r.traffic.Steady {
		i = (i + r.window*(r.traffic.Keys*5/13)) % r.traffic.Keys
	}
	return i
}

// send sends a request of a key, so late in the window.
func (r *timed) send(key int, elapsed time.Duration) {
	now := int64(r.window)*int64(window) + int64(elapsed)
	r.now = time.Unix(0, now)
	var name [8]byte
	binary.LittleEndian.PutUint64(name[:], uint64(key))
	allowed := r.limiter.Do(sketchlimit.Request{Time: r.now, Bytes: name[:]}).Allowed
	own, charge := r.exactly(&r.used[key], now, elapsed)
	exact := own < r.goal.Limit
	if exact {
		charge()
	}
	if r.window < settled {
		return
	}
	if 2*own < r.goal.Limit {
		r.innocent++
		if !allowed && exact {
			r.denied++
			if !r.falselyDenied[key] {
				r.falselyDenied[key] = true
				r.keys++
			}
		}
	}
	if allowed {
		r.admitted++
	}
	if exact {
		r.units++
	}
}

// exactly returns what a key has used by the exact algorithm, and how one unit more is
// charged.
func (r *timed) exactly(u *usage, now int64, elapsed time.Duration) (own int, charge func()) {
	if r.goal.Algorithm == sketchlimit.TokenBucket {
		unit := int64(window) / int64(r.goal.Limit)
		u.full = max(u.full, now)
		return int((u.full - now + unit - 1) / unit), func() { u.full += unit }
	}
	own = int(u.current)
	if r.goal.Algorithm == sketchlimit.SlidingWindow {
		own = u.used(window - elapsed)
	}
	return own, func() { u.current++ }
}
